"""A watched training on a GPU: the same weights, nothing waits, and what is recorded is what the gradients were."""

import numpy as np
import pytest
import torch

import stepscope

pytestmark = pytest.mark.cuda
STEPS, FIRST_QUIET = 12, 6


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 256), torch.nn.LayerNorm(256), torch.nn.GELU(), torch.nn.Linear(256, 256), torch.nn.ReLU(),
        torch.nn.Linear(256, 10),
    ).cuda()  # fmt: skip


def train(model, optimizer, scaler, precision, each_step=lambda step: None):
    generator = torch.Generator().manual_seed(1)
    inputs = torch.randn(STEPS, 32, 64, generator=generator).cuda()
    targets = torch.randint(10, (STEPS, 32), generator=generator).cuda()
    for step in range(STEPS):
        optimizer.zero_grad()
        with torch.autocast("cuda", precision, enabled=precision is not torch.float32):
            loss = torch.nn.functional.cross_entropy(model(inputs[step]), targets[step])
        scaler.scale(loss).backward()
        each_step(step)
        scaler.step(optimizer)
        scaler.update()
    return [parameter.detach().clone() for parameter in model.parameters()]


@pytest.mark.parametrize("config", ["economy", "standard", "full"])
@pytest.mark.parametrize("precision", [torch.float32, torch.bfloat16, torch.float16])
def test_the_weights_are_the_same_and_the_norms_are_those_of_the_gradients(config, precision, tmp_path):
    weights = []
    norms = []
    for watched in (False, True):
        model = network()
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
        scaler = torch.amp.GradScaler("cuda", enabled=precision is torch.float16, init_scale=1024.0)
        if not watched:
            weights.append(train(model, optimizer, scaler, precision))
            continue

        def keep(step, model=model, scaler=scaler):
            scale = scaler.get_scale()
            norms.append(float(model[0].weight.grad.double().norm()) / scale)

        options = {"config": config, "scaler": scaler, "max_overhead": None}
        with (
            stepscope.open_run(tmp_path / "run", sinks=[]) as run,
            stepscope.watch(model, optimizer, run=run, **options),
        ):
            weights.append(train(model, optimizer, scaler, precision, keep))
    assert all(torch.equal(ours, theirs) for ours, theirs in zip(*weights, strict=True))
    with stepscope.read_run(tmp_path / "run") as record:
        found = record.histograms("gradients/0.weight")
        if config != "full":  # joined over several steps
            assert sum(histogram.count for histogram in found) == STEPS * 64 * 256
            return
        assert [histogram.step for histogram in found] == list(range(STEPS))
        for histogram in found:
            assert histogram.count == 64 * 256
            norm = np.sqrt(histogram.m2 + histogram.count * histogram.mean**2)
            assert norm == pytest.approx(norms[histogram.step], rel=1e-4)


@pytest.mark.parametrize("config", ["standard", "full"])
def test_no_step_waits_for_the_device(config, tmp_path):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2)
    scaler = torch.amp.GradScaler("cuda", enabled=False)

    def be_quiet(step):
        if step == FIRST_QUIET:
            torch.cuda.set_sync_debug_mode("error")

    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        try:
            with stepscope.watch(model, optimizer, run=run, config=config, max_overhead=None):
                train(model, optimizer, scaler, torch.float32, be_quiet)
                torch.cuda.set_sync_debug_mode("default")
        finally:
            torch.cuda.set_sync_debug_mode("default")
    with stepscope.read_run(tmp_path / "run") as record:
        assert not [alert.message for alert in record.alerts() if "internal" in alert.message]
        assert len(record.histograms("gradients/0.weight")) >= (STEPS if config == "full" else 1)
