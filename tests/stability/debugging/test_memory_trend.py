"""Leaks: what grows without end is found; noise, warm-up and jumps are not."""

import numpy as np
import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from stability.debugging.leak_watch import LeakWatch
from stability.debugging.log import DebugLog
from stability.debugging.memory import MemoryDebugging
from stability.debugging.memory_trend import CAPACITY, MemoryTrend, mann_kendall, sen_slope
from stability.debugging.tool import StepSeen

NOISE = np.random.default_rng(0).normal(size=5000)


def found(values, least_growth=32.0):
    """The first step at which a leak shows, or None."""
    trend = MemoryTrend(least_growth)
    for step, value in enumerate(values):
        if trend.add(step, float(value)) and trend.find() is not None:
            return step
    return None


def test_a_leak_is_found_whatever_the_noise_and_sooner_the_faster_it_is():
    steps = np.arange(5000)
    slow, fast = found(1000 + 0.1 * steps + NOISE), found(1000 + 2.0 * steps + NOISE)

    assert fast < slow < 2000


@pytest.mark.parametrize(
    "values",
    [
        1000 + 10 * NOISE,
        np.where(np.arange(5000) < 60, 10.0 * np.arange(5000), 600.0) + NOISE,
        np.where(np.arange(5000) < 2500, 1000.0, 1500.0) + NOISE,
        1000 - 0.1 * np.arange(5000),
        1000 + 0.002 * np.arange(5000) + NOISE,
        np.full(5000, 1000.0),
    ],
    ids=["noise", "warm-up", "a jump", "shrinking", "growth below the least", "constant"],
)
def test_what_is_no_leak_is_not_found(values):
    assert found(values) is None


def test_the_trend_says_where_it_was_seen_and_how_much_it_grew():
    trend = MemoryTrend(32.0)
    for step in range(200):
        trend.add(step, 5.0 * step)

    assert trend.find()[:3] == (100, 199, pytest.approx(5 * 99))


def test_samples_stay_within_the_capacity_and_spread_over_all_steps():
    trend = MemoryTrend(1.0)
    for step in range(100_000):
        trend.add(step, float(step))

    assert len(trend._values) <= CAPACITY
    assert trend._steps[0] == 0
    assert len(set(np.diff(trend._steps))) == 1
    assert trend._steps[-1] > 90_000


@settings(max_examples=examples(100), deadline=None)
@given(st.lists(st.integers(0, 5), min_size=2, max_size=12))
def test_the_statistics_are_those_of_their_definitions(values):
    array = np.array(values, float)
    pairs = [(i, j) for j in range(len(values)) for i in range(j)]
    slopes = [(values[j] - values[i]) / (j - i) for i, j in pairs]

    assert sen_slope(array) == pytest.approx(np.median(slopes))
    rising = sum(np.sign(slope) for slope in slopes)
    assert (mann_kendall(array) < 0.5) == (rising > 1)
    assert 0.0 <= mann_kendall(array) <= 1.0


def test_the_p_value_of_a_rise_of_ten_is_that_of_the_normal_approximation():
    # S = 45, Var(S) = 10·9·25/18 = 125, z = 44/√125 = 3.9355
    assert mann_kendall(np.arange(10.0)) == pytest.approx(4.15e-5, rel=0.01)


def history(values, leak_mb=32.0):
    """What a watch tells of these sizes, as pairs of step and word; and the watch."""
    watch = LeakWatch("rss", leak_mb)
    told = [(step, watch.look(step, float(value))) for step, value in enumerate(values)]
    return [(step, word) for step, word in told if word is not None], watch


STEPS = np.arange(4000)
FILLING = {
    "a cache that fills": np.minimum(STEPS, 600) * 0.125,
    "a bounded buffer": np.minimum(STEPS, 1500) * 0.1,
    "a sawtooth": STEPS % 500 * 0.25,
    "a slow sawtooth": STEPS % 1500 * 0.1,
    "a warm-up that is slow": 200 * (1 - np.exp(-STEPS / 300)),
}


@pytest.mark.parametrize("noise", [pytest.param(0.0, marks=pytest.mark.slow), 0.3])
@pytest.mark.parametrize("name", FILLING)
def test_growth_that_ends_is_told_once_and_taken_back(name, noise):
    told, watch = history(300 + FILLING[name] + noise * NOISE[:4000])

    assert [word for _, word in told] in ([], ["begun", "ended"])
    assert watch.leak is None
    assert len(watch.ended) == len(told) // 2


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.0, 0.3])
@pytest.mark.parametrize(
    "values",
    [
        STEPS * 0.25,
        STEPS * 0.03,
        STEPS // 50 * 8.0,
        STEPS // 200 * 20.0,
        STEPS * 0.1 + STEPS % 100 * 0.05,
        np.where(STEPS < 1000, np.minimum(STEPS, 400) * 0.2, 80 + (STEPS - 1000) * 0.2),
    ],
    ids=["fast", "slow", "every 50 steps", "every 200 steps", "with a sawtooth on it", "after a cache has filled"],
)
def test_a_leak_that_goes_on_stands_at_the_end(values, noise):
    told, watch = history(300 + values + noise * NOISE[:4000])

    assert told[-1][1] == "begun"
    assert len(told) <= 3
    assert watch.leak is not None


def test_a_leak_of_the_process_is_told_once(monkeypatch):
    memory = MemoryDebugging(32.0, DebugLog("x", None, "info"))
    model = nn.Linear(1, 1)
    sizes = iter(range(1000, 9000, 10))
    monkeypatch.setattr(
        "stability.debugging.memory.memory_info",
        lambda: {"cpu_memory": {"rss": float(next(sizes)), "vms": 0.0, "percent": 0.0}},
    )

    told = [anomaly for step in range(300) for anomaly in memory.observe(StepSeen(step, model, 0.5, None, [], []), {})]

    assert [anomaly["kind"] for anomaly in told] == ["memory_leak"]
    assert "resident memory keeps growing: by 630 MB from step 64 to 127" in told[0]["message"]
    assert [leak["series"] for leak in memory.leaks] == ["rss"]
    assert memory.ended == []
    assert memory.peak_rss == 1000 + 299 * 10
