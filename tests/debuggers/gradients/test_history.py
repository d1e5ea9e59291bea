"""The history keeps the last steps of every tensor, and distinguishes NaN from what was not measured."""

import numpy as np
import pytest
import torch
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from debuggers.errors import HistoryError
from debuggers.gradients.history import GRADIENT_STATISTICS, GradientHistory
from debuggers.measurement.measure import measure


def table(*tensors):
    return measure([torch.as_tensor(tensor, dtype=torch.float32) for tensor in tensors]).resolve()


def test_every_statistic_is_that_of_the_tensor():
    history = GradientHistory()
    history.record(4, ("a",), table([3.0, -4.0, 0.0, torch.inf]))
    expected = {
        "norm": 5.0,
        "mean_magnitude": 7 / 3,
        "largest_magnitude": 4.0,
        "zero_fraction": 0.25,
        "non_finite": 1.0,
        "std": np.std([3.0, -4.0, 0.0]),
        "mean": -1 / 3,
    }
    assert set(expected) == set(GRADIENT_STATISTICS)
    for statistic, value in expected.items():
        steps, values = history.series("a", statistic)
        assert steps.tolist() == [4]
        assert values[0] == pytest.approx(value), statistic


def test_updates_have_a_series_of_their_own():
    history = GradientHistory()
    history.record(0, ("a", "b"), table([1.0], [1.0]))
    history.record_updates(10, ("b",), np.array([1e-3]))
    steps, ratios = history.series("b", "update_ratio")
    assert (steps.tolist(), ratios.tolist()) == ([10], [1e-3])
    assert history.series("a", "update_ratio")[0].size == 0
    assert history.steps.tolist() == [0]
    assert history.update_steps.tolist() == [10]


def test_only_the_last_steps_are_kept():
    history = GradientHistory(max_gradient_history=3)
    for step in range(10):
        history.record(step, ("a",), table([float(step)]))
    steps, norms = history.series("a")
    assert steps.tolist() == history.steps.tolist() == [7, 8, 9]
    assert norms.tolist() == [7, 8, 9]


def test_absent_is_not_the_same_as_nan():
    history = GradientHistory()
    history.record(0, ("a", "b"), table([1.0], [torch.nan]))
    history.record(1, ("a",), table([1.0]))
    steps, means = history.series("b", "mean")
    assert steps.tolist() == [0]
    assert np.isnan(means).all()
    assert history.present().tolist() == [[True, True], [True, False]]
    assert np.isnan(history.window("norm")).tolist() == [[False, False], [False, True]]


def test_names_that_appear_later_are_absent_before():
    history = GradientHistory()
    history.record(0, ("a",), table([1.0]))
    history.record(1, ("b", "a"), table([2.0], [3.0]))
    assert history.names == ("a", "b")
    assert history.series("b")[1].tolist() == [2.0]
    assert history.series("a")[1].tolist() == [1.0, 3.0]


def test_layers_recorded_one_after_the_other_share_their_steps():
    history = GradientHistory(max_gradient_history=4)
    for layer in ("a", "b"):
        for step in range(4):
            history.record(step, (layer,), table([1.0 + step]))
    assert history.steps.tolist() == [0, 1, 2, 3]
    assert history.series("a")[1].tolist() == history.series("b")[1].tolist() == [1, 2, 3, 4]


@settings(max_examples=examples(50), deadline=None)
@given(
    length=st.integers(1, 5),
    steps=st.lists(st.sets(st.sampled_from("abcdef"), min_size=1), max_size=15),
)
def test_series_are_what_a_dictionary_of_lists_would_hold(length, steps):
    history = GradientHistory(max_gradient_history=length)
    for step, names in enumerate(steps):
        history.record(step, sorted(names), table(*([float(step) + 1] for _ in names)))
    kept = list(enumerate(steps))[-length:]
    for name in {name for names in steps for name in names}:
        held, norms = history.series(name)
        expected = [step for step, names in kept if name in names]
        assert held.tolist() == expected
        assert norms.tolist() == [step + 1 for step in expected]


def test_the_observation_is_what_the_detectors_see_again_later():
    history = GradientHistory()
    seen = [
        history.record(0, ("a", "b"), table([1.0], [2.0])),
        history.record(1, ("b",), table([3.0]), expected_overflow=True),
        history.record_updates(1, ("a", "b"), np.array([1e-3, 1e-2])),
    ]
    assert [observation.expected_overflow for observation in seen] == [False, True, False]
    assert seen[1].present.tolist() == [False, True]
    assert np.isnan(seen[1].values["norm"][0])
    for now, later in zip(seen, history.observations(), strict=True):
        assert (now.step, now.expected_overflow) == (later.step, later.expected_overflow)
        assert now.present.tolist() == later.present.tolist()
        assert now.values.keys() == later.values.keys()
        for statistic, values in now.values.items():
            np.testing.assert_array_equal(values, later.values[statistic])


def test_wrong_use_is_one_clear_error():
    history = GradientHistory()
    with pytest.raises(HistoryError, match="max_gradient_history is 0; expected an integer of at least 1"):
        GradientHistory(0)
    with pytest.raises(HistoryError, match="1 names for 2 rows"):
        history.record(0, ("a",), table([1.0], [1.0]))
    with pytest.raises(HistoryError, match="'a' appears twice"):
        history.record(0, ("a", "a"), table([1.0], [1.0]))
    history.record(0, ("a",), table([1.0]))
    with pytest.raises(HistoryError, match="nothing was recorded for 'b'; recorded names are a"):
        history.series("b")
    with pytest.raises(HistoryError, match="statistic 'median' is unknown"):
        history.series("a", "median")
