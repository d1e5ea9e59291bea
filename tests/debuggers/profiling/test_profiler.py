"""The profiler: timers, layers as a loop tells them, bottlenecks, and clear errors."""

import threading
import time
from datetime import timedelta

import pytest

import stepscope
from debuggers import PerformanceProfiler
from debuggers.errors import DebuggerConfigError, TimerError


@pytest.fixture
def profiler():
    return PerformanceProfiler()


def test_a_timer_returns_its_seconds_and_adds_them_up(profiler):
    durations = []
    for _ in range(3):
        outer = time.perf_counter()
        profiler.start_timer("forward")
        durations.append(profiler.end_timer("forward"))
        assert 0 <= durations[-1] <= time.perf_counter() - outer

    totals = profiler.timers["forward"]
    assert totals.count == 3
    assert totals.total_s == pytest.approx(sum(durations))
    assert (totals.min_s, totals.max_s) == (min(durations), max(durations))
    assert totals.mean_s == pytest.approx(sum(durations) / 3)


def test_a_block_that_raises_ends_its_timer(profiler):
    with pytest.raises(ZeroDivisionError), profiler.timer("block"):
        _ = 1 / 0

    assert profiler.timers["block"].count == 1
    with profiler.timer("block"):
        pass


def test_a_timer_ended_twice_never_started_or_started_twice_is_a_clear_error(profiler):
    profiler.start_timer("forward")
    with pytest.raises(TimerError, match="'forward' was started twice"):
        profiler.start_timer("forward")
    with pytest.raises(TimerError, match=r"'forwrad' was never started.*nearest names: forward"):
        profiler.end_timer("forwrad")
    profiler.end_timer("forward")
    with pytest.raises(TimerError, match="'forward' has ended already"):
        profiler.end_timer("forward")
    with pytest.raises(TimerError, match="no timer runs"):
        profiler.end_timer("backward")
    with pytest.raises(DebuggerConfigError, match="expected a str"):
        profiler.start_timer(3)


def test_each_thread_has_its_own_timers(profiler):
    profiler.start_timer("load")
    failures = []

    def work():
        try:
            with profiler.timer("load"):
                pass
        except TimerError as error:
            failures.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join(60)
    profiler.end_timer("load")

    assert failures == []
    assert profiler.timers["load"].count == 2


def test_executions_of_a_layer_are_added_up(profiler):
    profiler.record_layer_execution("block", "Block", 0.25, 0.5, 100, 7)
    profiler.record_layer_execution("block", "Block", timedelta(seconds=0.25), None, 50)

    (layer,) = profiler.layers
    assert (layer.count, layer.forward_s, layer.backward_s, layer.backward_count) == (2, 0.5, 0.5, 1)
    assert (layer.peak_memory_bytes, layer.parameters, layer.total_s) == (100, 7, 1.0)


@pytest.mark.parametrize(("share", "found"), [(0.49, []), (0.51, ["time"])])
def test_a_layer_is_a_bottleneck_from_half_of_the_time_on(profiler, share, found):
    profiler.record_layer_execution("large", "Linear", share)
    for index in range(10):
        profiler.record_layer_execution(f"small_{index}", "Linear", (1 - share) / 10)

    assert [one.of for one in profiler.bottlenecks()] == found


def test_suggestions_show_their_arithmetic(profiler):
    profiler.record_layer_execution("a", "Linear", 7.0, None, 2**20)
    profiler.record_layer_execution("b", "Linear", 1.0, 1.0, 2**20)
    profiler.record_layer_execution("c", "Linear", 1.0, None, 6 * 2**20)

    memory, seconds = profiler.suggestions()
    assert memory.startswith("c (Linear) holds 75% of the layers' memory (6.0 MiB)")
    assert seconds.startswith("a (Linear) takes 70% of the layers' time (7 s)")
    assert "1 / (1 - 0.70 / 2) = 1.54 times as fast" in seconds


@pytest.mark.parametrize(("backward", "found"), [(3.9, []), (4.1, ["backward"])])
def test_a_backward_pass_of_over_four_forward_passes_is_told(profiler, backward, found):
    for name in "abcdef":
        profiler.record_layer_execution(name, "Linear", 1.0, backward if name == "a" else 2.0)

    assert [one.of for one in profiler.bottlenecks()] == found


def test_what_was_not_told_is_no_bottleneck(profiler):
    assert profiler.bottlenecks() == profiler.suggestions() == ()
    profiler.record_layer_execution("only", "Linear", 1.0)
    assert profiler.bottlenecks() == ()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("l", "K", "fast"), "layer 'l': forward_time is 'fast'; expected a number of at least 0"),
        (("l", "K", float("nan")), "forward_time is nan"),
        (("l", "K", 1.0, -1.0), "backward_time is -1.0"),
        (("l", "K", 1.0, None, "much"), "memory is 'much'"),
        (("l", "K", 1.0, None, None, 1.5), "parameters is 1.5"),
        ((None, "K", 1.0), "expected a str"),
    ],
)
def test_a_wrong_value_is_one_clear_error(profiler, arguments, message):
    with pytest.raises(DebuggerConfigError, match=message):
        profiler.record_layer_execution(*arguments)
    assert profiler.layers == ()


def test_names_without_end_are_counted_and_not_kept(profiler):
    for index in range(10_005):
        profiler.record_layer_execution(f"layer_{index}", "Linear", 1.0)

    assert (len(profiler.layers), profiler.left_out) == (10_000, 5)


def test_a_session_without_a_model_has_one(profiler):
    session = stepscope.debug_session()
    with session.profiler.timer("forward"):
        pass

    assert session.profiler.timers["forward"].count == 1
