"""The norm before clipping is recorded of every step whose clipping torch computes it for, and of no other one."""

import math

import pytest
import torch
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import stepscope
from debuggers.gradients import unclipped_norm
from debuggers.gradients.unclipped_norm import UNCLIPPED

GRADIENTS = [[3.0, 4.0], [6.0, 8.0], [0.3, 0.4]]
EVERY_STEP = {"max_overhead": None}


def recorded(folder, gradients, clip, *, tells=False, backwards=1, dtype=torch.float32, **settings):
    """Returns steps and norms of a loop whose weight has these gradients, which ``clip`` may change."""
    model = torch.nn.Linear(2, 1, bias=False, dtype=dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with stepscope.open_run(folder, sinks=[]) as run, stepscope.watch(model, optimizer, run=run, **settings) as session:
        for gradient in gradients:
            optimizer.zero_grad()
            for _ in range(backwards):
                (model.weight * torch.tensor([gradient], dtype=dtype)).sum().backward()
            if tells:
                session.clipping_begins()
            clip(list(model.parameters()), 1.0)
            optimizer.step()
    with stepscope.read_run(folder) as record:
        if UNCLIPPED not in {one.name for one in record.names()}:
            return [], []
        series = record.scalars(UNCLIPPED)
        return series.steps.tolist(), series.values.tolist()


def test_what_torch_has_computed_to_clip_is_recorded_of_every_step(tmp_path):
    found = recorded(tmp_path / "run", GRADIENTS, clip_grad_norm_)
    assert found == ([0, 1, 2], pytest.approx([5.0, 10.0, 0.5]))


def test_gradients_are_accumulated_before(tmp_path):
    found = recorded(tmp_path / "run", GRADIENTS, clip_grad_norm_, backwards=2)
    assert found == ([0, 1, 2], pytest.approx([10.0, 20.0, 1.0]))


def test_of_two_clippings_the_first_one_has_the_norm_before(tmp_path):
    def clip(parameters, limit):
        clip_grad_norm_(parameters, 2 * limit)
        clip_grad_norm_(parameters, limit)

    assert recorded(tmp_path / "run", GRADIENTS, clip)[1] == pytest.approx([5.0, 10.0, 0.5])


def other_gradients():
    other = torch.nn.Linear(2, 1)
    other(torch.ones(1, 2)).sum().backward()
    return list(other.parameters())


@pytest.mark.parametrize(
    "clip",
    [
        lambda parameters, limit: None,
        clip_grad_value_,
        lambda parameters, limit: clip_grad_norm_(parameters, limit, norm_type=math.inf),
        lambda parameters, limit: torch.nn.utils.clip_grads_with_norm_(parameters, limit, torch.tensor(7.0)),
        lambda parameters, limit: clip_grad_norm_(other_gradients(), limit),
        lambda parameters, limit: clip_grad_norm_([*parameters, *other_gradients()], limit),
    ],
    ids=["none", "by value", "largest element", "norm of somebody else", "another model", "two models together"],
)
def test_no_other_norm_is_taken_for_it(tmp_path, clip):
    assert recorded(tmp_path / "run", GRADIENTS, clip) == ([], [])


def test_the_norm_of_a_part_is_not_that_of_all(tmp_path):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, stepscope.watch(model, optimizer, run=run):
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(1, 2)).sum().backward()
            clip_grad_norm_([model.weight], 1.0)
            clip_grad_norm_([model.bias], 1.0)
            optimizer.step()
    with stepscope.read_run(tmp_path / "run") as record:
        assert UNCLIPPED not in {one.name for one in record.names()}


def test_a_step_that_is_not_clipped_has_no_norm_of_another(tmp_path):
    turns = iter([True, False, True, True])

    def clip(parameters, limit):
        if next(turns):
            clip_grad_norm_(parameters, limit)

    steps, values = recorded(tmp_path / "run", [*GRADIENTS, [0.0, 2.0]], clip)
    assert (steps, values) == ([0, 2, 3], pytest.approx([5.0, 0.5, 2.0]))


def test_scaled_gradients_have_no_norm_that_would_be_one_of_all(tmp_path):
    model = torch.nn.Linear(2, 1, bias=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    scaler = torch.amp.GradScaler("cpu", init_scale=256.0)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, stepscope.watch(
        model, optimizer, run=run, scaler=scaler
    ):  # fmt: skip
        for unscales in (True, False, True):
            optimizer.zero_grad()
            scaler.scale((model.weight * torch.tensor([[3.0, 4.0]])).sum()).backward()
            if unscales:
                scaler.unscale_(optimizer)
            clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
    with stepscope.read_run(tmp_path / "run") as record:
        series = record.scalars(UNCLIPPED)
    assert (series.steps.tolist(), series.values.tolist()) == ([0, 2], pytest.approx([5.0, 5.0]))


@pytest.mark.parametrize(
    ("gradient", "dtype", "expected"),
    [
        ([math.nan, 1.0], torch.float32, math.nan),
        ([math.inf, 1.0], torch.float32, math.nan),
        ([3e25, 4e25], torch.float32, 5e25),  # squares beyond float32
        ([3e-25, 4e-25], torch.float32, 5e-25),
        ([0.0, 0.0], torch.float32, 0.0),
        ([3.0, 4.0], torch.float64, 5.0),
    ],
)
def test_any_gradient_has_its_norm(tmp_path, gradient, dtype, expected):
    _, values = recorded(tmp_path / "run", [[1.0, 1.0], gradient], clip_grad_norm_, dtype=dtype)
    assert values == pytest.approx([math.sqrt(2), expected], rel=0.01, nan_ok=True)


@pytest.fixture
def probes(monkeypatch):
    """How often gradients were gone through before they were clipped."""
    seen = []
    probe = unclipped_norm.probe_gradients

    def noted(gradients, scale=None):
        seen.append(len(gradients))
        return probe(gradients, scale)

    monkeypatch.setattr(unclipped_norm, "probe_gradients", noted)
    return seen


@pytest.mark.parametrize(
    ("clip", "dtype"), [(clip_grad_value_, torch.float32), (clip_grad_norm_, torch.bfloat16)], ids=["value", "narrow"]
)
def test_where_torch_tells_none_the_gradients_of_measured_steps_are_gone_through(tmp_path, probes, clip, dtype):
    steps, values = recorded(tmp_path / "run", GRADIENTS, clip, tells=True, dtype=dtype, **EVERY_STEP)
    assert (steps, values) == ([0, 1, 2], pytest.approx([5.0, 10.0, 0.5], rel=0.01))
    assert probes == [1, 1, 1]


def test_steps_that_are_not_measured_are_left_out(tmp_path):
    settings = {"max_overhead": None, "schedule": stepscope.Schedule(every=3)}
    steps, _ = recorded(tmp_path / "run", GRADIENTS * 3, clip_grad_value_, tells=True, **settings)
    measured = [step for step in range(9) if step % 3 == 0]
    assert steps == measured


def test_where_torch_tells_it_only_the_first_step_is_gone_through(tmp_path, probes):
    found = recorded(tmp_path / "run", GRADIENTS, clip_grad_norm_, tells=True, **EVERY_STEP)
    assert found == ([0, 1, 2], pytest.approx([5.0, 10.0, 0.5]))
    assert probes == [1]
