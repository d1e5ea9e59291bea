"""The inspector keeps a bounded number of results, samples exactly, emits, finds leaks and leaves the run alone."""

import gc
import math
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import numpy as np
import pytest
import torch
from tracker_adapters.artifacts import Alert, Histogram
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryEmitter

from debuggers.errors import DebuggerConfigError, UnknownTensorError
from debuggers.tensors import tracked as tracked_tensors
from debuggers.tensors.info import HealthLevel
from debuggers.tensors.inspector import TensorInspector


@pytest.fixture
def emitter():
    return MemoryEmitter()


def alerts(emitter):
    return [(alert.name, alert.step) for alert in emitter.artifacts if isinstance(alert, Alert)]


def test_an_id_leads_to_what_was_said_and_measured():
    inspector = TensorInspector()
    first = inspector.inspect_tensor(torch.ones(2, 3), "output", "fc1", "forward", step=7)
    second = inspector.inspect_tensor(np.zeros(4), "labels")
    info = inspector.get_tensor_info(first)
    assert (info.id, info.name, info.layer, info.operation, info.step) == (first, "output", "fc1", "forward", 7)
    assert (info.shape, info.dtype, info.device, info.memory_bytes) == ((2, 3), "float32", "cpu", 24)
    assert (info.stats.mean, info.level) == (1, HealthLevel.FULL)
    assert inspector.get_tensor_info(second).step == 7
    assert [info.id for info in inspector.tensors()] == [first, second]
    assert [info.id for info in inspector.tensors("labels")] == [second]


@pytest.mark.parametrize("unknown", [0, 2, -1, None, "1"])
def test_an_id_that_never_was_is_an_error(unknown):
    inspector = TensorInspector()
    inspector.inspect_tensor([1.0], "x")
    with pytest.raises(UnknownTensorError, match=f"tensor id {unknown!r} is unknown"):
        inspector.get_tensor_info(unknown)


def test_the_oldest_results_go_and_are_counted():
    inspector = TensorInspector(max_tracked_tensors=3)
    ids = [inspector.inspect_tensor([float(index)], "x") for index in range(5)]
    assert [inspector.get_tensor_info(tensor_id) is None for tensor_id in ids] == [True, True, False, False, False]
    assert (inspector.inspected, inspector.skipped, inspector.dropped) == (5, 0, 2)


def test_sampling_takes_its_share_of_each_name_and_counts_the_rest():
    inspector = TensorInspector(sampling_rate=0.25)
    ids = [inspector.inspect_tensor([1.0], name) for _ in range(8) for name in ("a", "b")]
    measured = [inspector.get_tensor_info(tensor_id) is not None for tensor_id in ids]
    assert measured == ([True] * 2 + [False] * 6) * 2
    assert (inspector.inspected, inspector.skipped) == (16, 12)
    with pytest.raises(UnknownTensorError, match="tensor id 3 is not tracked: it was skipped"):
        inspector.compare(1, 3)


def test_a_disabled_inspector_measures_and_follows_nothing(emitter):
    inspector = TensorInspector(enabled=False, emitter=emitter)
    tensor = torch.full((2,), math.nan)
    assert inspector.get_tensor_info(inspector.inspect_tensor(tensor, "x")) is None
    assert (inspector.skipped, inspector.live_bytes(), emitter.artifacts) == (1, {}, [])


def test_clear_forgets_all_or_what_is_old_enough(monkeypatch):
    seconds = iter([100.0, 110.0, 120.0, 130.0, 130.0, 130.0, 130.0])
    monkeypatch.setattr(tracked_tensors, "monotonic", lambda: next(seconds))
    inspector = TensorInspector()
    ids = [inspector.inspect_tensor([1.0], "x") for _ in range(3)]
    assert inspector.clear(older_than=timedelta(seconds=30)) == 1
    assert inspector.clear(older_than=20) == 1
    assert [inspector.get_tensor_info(tensor_id) is None for tensor_id in ids] == [True, True, False]
    assert inspector.clear() == 1
    assert inspector.tensors() == []
    assert inspector.inspect_tensor([1.0], "x") == 4


@pytest.mark.parametrize("age", [-1, math.nan, timedelta(seconds=-1), "30"])
def test_a_wrong_age_is_named(age):
    with pytest.raises(ArtifactError, match=r"older_than is .*; expected seconds of at least 0"):
        TensorInspector().clear(older_than=age)


def test_steps_and_layers_compare():
    inspector = TensorInspector(level=HealthLevel.FULL_TENSOR)
    inspector.inspect_tensor([1.0, 2.0], "x", step=1)
    inspector.inspect_tensor([9.0, 9.0], "x", step=2)
    last = inspector.inspect_tensor([1.0, 5.0], "x", layer="fc1", step=2)
    other = inspector.inspect_tensor([1.0, 4.0], "y", layer="fc2")
    found = inspector.compare_steps("x", 1, 2)
    assert (found.a, found.b, found.elements.max_abs, found.mean_difference) == (("x", 1), ("x", 2), 3, 1.5)
    found = inspector.compare(last, other)
    assert (found.a, found.b, found.elements.max_abs) == (("x", 2), ("y", 2), 1)
    with pytest.raises(UnknownTensorError, match="no tensor 'x' is tracked at step 3; its steps are: 1, 2"):
        inspector.compare_steps("x", 1, 3)


def test_histograms_are_emitted_from_full_on(emitter):
    inspector = TensorInspector(emitter=emitter)
    for level in HealthLevel:
        inspector.inspect_tensor(torch.arange(5.0), "fc1/output", step=int(level), level=level)
    assert [(artifact.name, artifact.step) for artifact in emitter.artifacts] == [
        ("tensors/fc1/output", 3),
        ("tensors/fc1/output", 4),
    ]
    assert emitter.artifacts[0] == Histogram.from_values(
        "tensors/fc1/output", np.arange(5.0), step=3, time_ns=emitter.artifacts[0].time_ns
    )


@pytest.mark.parametrize(
    ("level", "message"),
    [
        (HealthLevel.CURT, "x: some elements are NaN or infinite"),
        (HealthLevel.CONCISE, "x: 2 NaN, 1 +inf and 0 -inf among 4 elements"),
        (HealthLevel.FULL, "x: 2 NaN, 1 +inf and 0 -inf among 4 elements"),
    ],
)
def test_the_first_non_finite_element_under_a_name_is_one_alert(emitter, level, message):
    inspector = TensorInspector(level=level, emitter=emitter)
    inspector.inspect_tensor([1.0], "x", step=0)
    for step in (1, 2):
        inspector.inspect_tensor([math.nan, math.nan, math.inf, 1.0], "x", step=step)
    inspector.inspect_tensor([math.inf], "y", step=3)
    assert alerts(emitter) == [("non_finite_tensor", 1), ("non_finite_tensor", 3)]
    assert next(item for item in emitter.artifacts if isinstance(item, Alert)).message == message


def test_a_leak_is_reported_with_its_evidence_and_is_one_alert(emitter):
    inspector = TensorInspector(sampling_rate=0.1, emitter=emitter)
    kept = []
    for step in range(20):
        inspector.start_step(step)
        kept.append(torch.ones(10))
        inspector.inspect_tensor(kept[-1], "kept")
        inspector.inspect_tensor(torch.ones(10), "freed")
    assert inspector.live_bytes() == {"kept": 800}
    assert [leak.name for leak in inspector.leaks()] == ["kept"]
    assert inspector.leaks()[0].live_tensors == (14, 15, 16, 17, 18, 19)
    assert alerts(emitter) == [("tensor_leak", 5)]
    kept.clear()
    assert inspector.live_bytes() == {}


@pytest.mark.parametrize("bound", ["kept at ten", "emptied"])
def test_a_leak_that_ends_is_taken_back_once(emitter, bound):
    inspector = TensorInspector(emitter=emitter)
    kept = []
    for step in range(60):
        inspector.start_step(step)
        kept.append(torch.ones(10))
        inspector.inspect_tensor(kept[-1], "kept")
        if bound == "kept at ten":
            del kept[:-10]
        elif len(kept) == 20:
            kept.clear()
    if bound == "kept at ten":
        assert inspector.leaks() == []
    assert [name for name, _ in alerts(emitter)] == ["tensor_leak", "tensor_leak_ended"]
    levels = {item.name: item.level for item in emitter.artifacts if isinstance(item, Alert)}
    assert levels == {"tensor_leak": "warning", "tensor_leak_ended": "info"}


def test_a_tracked_result_keeps_no_tensor_alive_and_is_small():
    inspector = TensorInspector()
    tensor = torch.randn(1_000_000)
    info = inspector.get_tensor_info(inspector.inspect_tensor(tensor, "x"))
    held = info.stats.bins.nbytes + info.stats.counts.nbytes
    assert held < 6_000
    assert info.stats.bins.base is None
    del tensor
    gc.collect()
    assert inspector.live_bytes() == {}


def train(inspector):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Dropout(), torch.nn.ReLU(inplace=True))
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(4):
        output = model(torch.randn(5, 8))
        if inspector is not None:
            for level in HealthLevel:
                inspector.inspect_tensor(output, "output", step=step, level=level)
        optimizer.zero_grad()
        output.square().mean().backward()
        if inspector is not None:
            inspector.inspect_tensor(model[0].weight.grad, "gradient", level=HealthLevel.FULL_TENSOR)
        optimizer.step()
    versions = [parameter._version for parameter in model.parameters()]
    return [*model.state_dict().values(), torch.get_rng_state()], versions


def test_a_run_is_the_same_with_and_without():
    random_state = np.random.get_state()[1].copy()
    plain, plain_versions = train(None)
    watched, watched_versions = train(TensorInspector(sampling_rate=0.3, emitter=MemoryEmitter()))
    assert all(torch.equal(one, other) for one, other in zip(plain, watched, strict=True))
    assert plain_versions == watched_versions
    assert (random_state == np.random.get_state()[1]).all()


def test_several_threads_may_inspect_at_once():
    inspector = TensorInspector(sampling_rate=0.5, max_tracked_tensors=100)
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda index: inspector.inspect_tensor(torch.ones(10), f"x{index % 3}"), range(300)))
    assert sorted(ids) == list(range(1, 301))
    assert (inspector.inspected, inspector.skipped, inspector.dropped) == (300, 150, 50)
    assert inspector.live_bytes() == {}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"name": ""}, "tensor: the name '' has 0 characters"),
        ({"name": 3}, "tensor: the name is int 3; expected a str"),
        ({"name": "x" * 999}, "expected 1 to 1000"),
        ({"name": "x", "layer": 3}, "tensor 'x': layer is 3; expected a str or None"),
        ({"name": "x", "operation": b"f"}, "tensor 'x': operation is b'f'; expected a str or None"),
        ({"name": "x", "step": -1}, "tensor 'x': step is -1"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    inspector = TensorInspector()
    with pytest.raises(ArtifactError, match=message):
        inspector.inspect_tensor([1.0], **arguments)
    assert inspector.inspected == 0


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"max_tracked_tensors": 0}, "max_tracked_tensors is 0"),
        ({"max_tracked_tensors": True}, "max_tracked_tensors is True"),
        ({"sampling_rate": 2}, "sampling_rate is 2"),
        ({"level": "FULL"}, "level is 'FULL'; expected one of HealthLevel.CURT"),
    ],
)
def test_wrong_settings_are_named(setting, message):
    with pytest.raises(DebuggerConfigError, match=message):
        TensorInspector(**setting)


@pytest.mark.cuda
@pytest.mark.parametrize("level", HealthLevel)
def test_on_cuda_nothing_waits_and_the_values_are_those_of_the_call(level, emitter):
    inspector = TensorInspector(level=level, emitter=emitter)
    tensor = torch.arange(1000.0, device="cuda")
    inspector.inspect_tensor(tensor, "warm up")
    torch.cuda.set_sync_debug_mode("error")
    try:
        tensor_id = inspector.inspect_tensor(tensor, "x", step=4)
        tensor.fill_(torch.nan)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    info = inspector.get_tensor_info(tensor_id)
    assert (info.device, info.quality.has_non_finite) == ("cuda:0", False)
    if level >= HealthLevel.FULL:
        assert (info.stats.l1, info.stats.max) == (499_500, 999)
    if level == HealthLevel.FULL_TENSOR:
        np.testing.assert_array_equal(np.arange(1000), info.values)
    inspector.drain()
    assert len(emitter.artifacts) == (2 if level >= HealthLevel.FULL else 0)
