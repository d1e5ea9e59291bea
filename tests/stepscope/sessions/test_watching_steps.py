"""What ``watch`` takes for a step, where a scaler skips some, closures compute gradients, and exceptions end some."""

import pytest
import torch
from module_hooks import hook_count
from torch import nn
from torch.nn.functional import cross_entropy
from tracker_adapters.testing import MemoryEmitter

import stepscope


@pytest.fixture
def record(tmp_path):
    """Watches a loop, and returns what was recorded and the session."""

    def run(model, optimizer, loop, **options):
        with (
            stepscope.open_run(tmp_path / "run", sinks=[]) as run,
            stepscope.watch(model, optimizer, run=run, config="full", **options) as session,
        ):
            loop()
        assert session.report().failures == {}
        assert hook_count(model) == 0
        assert not optimizer._optimizer_step_pre_hooks
        assert not optimizer._optimizer_step_post_hooks
        return stepscope.read_run(tmp_path / "run"), session

    return run


def counts(record, name):
    return {histogram.step: histogram.count for histogram in record.histograms(name)}


class MixedLoop:
    """Six steps in float16, the first of which overflow; knows the true norms of the output's gradients."""

    def __init__(self, *, fused, set_to_none):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2, fused=fused)
        self.scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20)
        self.set_to_none = set_to_none
        self.norms, self.skipped, self.losses = [], 0, []

    def __call__(self):
        for _ in range(7):
            self.optimizer.zero_grad(set_to_none=self.set_to_none)
            scale, found = self.scaler.get_scale(), []
            with torch.autocast("cpu", torch.float16):
                output = self.model(torch.randn(16, 6))
                loss = cross_entropy(output, torch.randint(0, 3, (16,)))
            output.register_hook(found.append)
            self.scaler.scale(loss).backward()
            self.scaler.step(self.optimizer)
            self.scaler.update()
            self.losses.append(loss.item())
            if self.scaler.get_scale() < scale:
                self.skipped += 1
            else:
                self.norms.append((found[0].float() / scale).norm().item())


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("set_to_none", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize("given", [False, True])
def test_steps_that_a_scaler_skips_are_none_and_its_scale_is_in_nothing(record, fused, set_to_none, given):
    plain = MixedLoop(fused=fused, set_to_none=set_to_none)
    plain()
    loop = MixedLoop(fused=fused, set_to_none=set_to_none)
    seen, session = record(loop.model, loop.optimizer, loop, **({"scaler": loop.scaler} if given else {}))
    assert loop.losses == plain.losses
    assert all(map(torch.equal, plain.model.parameters(), loop.model.parameters()))
    assert loop.skipped > 0
    assert session.report().overhead.steps == len(loop.norms)
    norms = seen.scalars("activation_gradient_norm/2")
    # Without the scaler its scale is unknown in the first step that it does not skip, unless a fused optimizer has it.
    first = 0 if given or fused else 1
    assert norms.steps.tolist() == list(range(first, len(loop.norms)))
    assert norms.values.tolist() == pytest.approx(loop.norms[first:], rel=1e-3)
    elements = counts(seen, "activations/2")
    if not (given or fused or set_to_none):
        del elements[0]  # gradients that were set to zero look like those that are being accumulated
    assert set(elements.values()) == {48}


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.LBFGS])
def test_a_step_with_a_closure_has_the_gradients_activations_and_updates_of_that_step(record, kind):
    torch.manual_seed(0)
    model = nn.Linear(4, 1)
    options = {"max_iter": 3} if kind is torch.optim.LBFGS else {}
    optimizer = kind(model.parameters(), lr=0.1, **options)
    norms, updates, outputs = [], [], []

    def loop():
        for number in range(4):
            inputs, calls = torch.randn(8, 4) * 2**number, []

            def closure(inputs=inputs, calls=calls):
                optimizer.zero_grad()
                output = model(inputs)
                loss = (output - 1).square().mean()
                loss.backward()
                calls.append((model.weight.grad.norm().item(), output.norm().item()))
                return loss

            before = model.weight.detach().clone()
            optimizer.step(closure)
            norms.append(calls[0][0])
            outputs.append(calls[0][1])
            updates.append((model.weight.detach() - before).norm().item())

    seen, session = record(model, optimizer, loop)
    assert session.report().overhead.steps == 4
    for name, expected in (
        ("gradient_norm/weight", norms),
        ("activation_norm/Linear", outputs),
        ("update_norm/weight", updates),
    ):
        series = seen.scalars(name)
        assert series.steps.tolist() == [0, 1, 2, 3]
        assert series.values.tolist() == pytest.approx(expected, rel=1e-5)


class Fragile(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.error = nn.Linear(4, 8), nn.Linear(8, 2), None

    def forward(self, x):
        x = self.first(x)
        if self.error is not None:
            raise self.error
        return self.second(x)


@pytest.mark.slow
@pytest.mark.parametrize("place", ["forward", "backward", "optimizer"])
@pytest.mark.parametrize("error", [RuntimeError("out of memory"), KeyboardInterrupt()])
def test_a_loop_that_goes_on_after_an_exception_has_the_steps_that_it_took(record, place, error):
    model = Fragile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def raise_it(*_):
        raise error

    def step(rows, *, fails):
        optimizer.zero_grad()
        model.error = error if fails and place == "forward" else None
        loss = model(torch.randn(rows, 4)).square().mean()
        handles = []
        if fails and place == "backward":
            handles.append(model.first.weight.register_hook(raise_it))
        if fails and place == "optimizer":
            handles.append(optimizer.register_step_post_hook(raise_it))
        try:
            loss.backward()
            optimizer.step()
        finally:
            for handle in handles:
                handle.remove()

    def loop():
        for number in range(4):
            if number == 2:
                with pytest.raises(type(error)):
                    step(50, fails=True)
            step(3, fails=False)

    seen, session = record(model, optimizer, loop)
    # A step that its own hooks end after the update was taken; the other exceptions come before.
    taken = [3, 3, 50, 3, 3] if place == "optimizer" else [3, 3, 3, 3]
    assert session.report().overhead.steps == len(taken)
    assert counts(seen, "activations/second") == {number: 2 * rows for number, rows in enumerate(taken)}
    assert {name.name for name in seen.names() if name.name.startswith("activations/")} == {
        "activations/first",
        "activations/second",
    }


def test_a_validation_and_a_last_pass_without_a_step_are_not_recorded(record):
    model = Fragile()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def loop():
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.randn(3, 4)).square().mean().backward()
            optimizer.step()
            model.eval()
            model(torch.randn(100, 4))
            model.train()
        model(torch.randn(7, 4)).sum().backward()

    seen, _ = record(model, optimizer, loop)
    assert counts(seen, "activations/first") == {0: 24, 1: 24, 2: 24}


@pytest.mark.parametrize("adds_up", [False, True])
def test_losses_of_passes_add_up_where_the_loop_says_so(adds_up):
    torch.manual_seed(0)
    model, emitter, expected = nn.Linear(4, 2), MemoryEmitter(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer, run=emitter) as session:
        if adds_up:
            session.losses_add_up()
        for _ in range(4):
            optimizer.zero_grad()
            losses = [0.9 * cross_entropy(model(torch.randn(8, 4)), torch.ones(8).long()) for _ in range(2)]
            for loss in losses:
                loss.backward()
            expected.append(sum(map(float, losses)) / (1 if adds_up else 2))
            optimizer.step()
        factor = session.evidence().facts.loss.factor

    assert [one.value for one in emitter.artifacts if one.name == "loss"] == pytest.approx(expected)
    assert factor == pytest.approx(0.5 if adds_up else 0.9)


def test_the_loss_of_a_step_with_fewer_passes_than_the_loop_divides_by_is_their_mean():
    torch.manual_seed(0)
    model, emitter, expected = nn.Linear(4, 2), MemoryEmitter(), []
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer, run=emitter) as session:
        session.losses_add_up(lambda: 3)
        for passes in (3, 1, 3, 2):
            optimizer.zero_grad()
            losses = [cross_entropy(model(torch.randn(8, 4)), torch.ones(8).long()) for _ in range(passes)]
            for loss in losses:
                (loss / 3).backward()
            expected.append(sum(map(float, losses)) / passes)
            optimizer.step()

    assert [one.value for one in emitter.artifacts if one.name == "loss"] == pytest.approx(expected)
