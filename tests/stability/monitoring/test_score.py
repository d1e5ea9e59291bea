"""The score of a step by the steps before it: spikes do not hide each other, and new levels become usual."""

import numpy as np
import pytest

from stability.monitoring.score import StabilityScore


def scores(norms):
    score = StabilityScore()
    return [score.update(finite=True, norm=float(norm)) for norm in norms]


def usual(size, seed=0):
    return 1.0 + 0.1 * np.random.default_rng(seed).standard_normal(size)


def test_a_calm_run_has_the_score_one():
    assert set(scores(usual(1000))) == {1.0}


@pytest.mark.parametrize("spike", [10.0, 1e3, 1e30])
def test_a_spike_does_not_hide_those_after_it(spike):
    norms = usual(300)
    places = [100, 110, 150, 151, 200, 290]
    norms[places] = spike
    found = scores(norms)
    assert all(found[place] < 5 / spike for place in places)
    assert all(value == 1.0 for place, value in enumerate(found) if place not in places)


@pytest.mark.parametrize("before", [usual(200), np.ones(200), np.zeros(200)], ids=["noise", "constant", "zero"])
def test_a_lasting_rise_becomes_usual(before):
    found = scores([*before, *(100.0 * usual(50))])
    assert found[200] < 0.05
    assert found[-1] == 1.0
