"""Two trainings are compared by what they were told, and by the step at which their signals part."""

import numpy as np

from debuggers.diagnosis.comparison import FactDifference, compare
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, GroupFacts
from debuggers.diagnosis.series import Series

STEPS = np.arange(40)
NOISE = np.random.default_rng(0).normal(size=40) * 0.1


def evidence(loss, norm=None, lr=0.1):
    tensors = {} if norm is None else {"gradient_rms": {"fc1": Series(STEPS, norm)}}
    facts = Facts(steps=40, optimizer="SGD", groups=(GroupFacts(settings={"lr": lr}),))
    return Evidence(series={"loss": Series(STEPS, loss)}, tensors=tensors, facts=facts)


def test_equal_trainings_do_not_differ_and_nan_equals_nan():
    loss = np.where(STEPS == 7, np.nan, NOISE)

    comparison = compare(evidence(loss), evidence(loss.copy()))

    assert (comparison.facts, comparison.series, comparison.compared) == ((), (), 1)


def test_settings_that_differ_are_named():
    comparison = compare(evidence(NOISE, lr=0.1), evidence(NOISE, lr=0.01))

    assert comparison.facts == (FactDifference("lr of group 0", "0.1", "0.01"),)


def test_a_training_that_nothing_has_observed_has_no_settings_of_which_to_tell_a_value():
    unknown = Evidence(series={"loss": Series(STEPS, NOISE)}, tensors={}, facts=Facts())

    found = {one.name: one.second for one in compare(evidence(NOISE), unknown).facts}

    assert {"steps", "parameters", "ranks", "optimizer", "lr of group 0"} <= found.keys()
    assert set(found.values()) == {"not observed"}
    assert compare(unknown, unknown).facts == ()


def test_the_rounding_of_a_rate_is_neither_a_difference_nor_shown():
    rounded = 0.1 * 0.2  # 0.020000000000000004
    assert compare(evidence(NOISE, lr=rounded), evidence(NOISE, lr=0.02)).facts == ()
    (found,) = compare(evidence(NOISE, lr=rounded), evidence(NOISE, lr=1)).facts
    assert (found.first, found.second) == ("0.02", "1")


def test_the_first_step_apart_and_the_first_beyond_noise_are_told():
    other = NOISE + 1e-6 * (STEPS >= 5) + 10.0 * (STEPS >= 20)

    (found,) = compare(evidence(NOISE), evidence(other)).series

    assert (found.since_step, found.beyond_noise) == (5, 20)
    assert found.second - found.first > 9


def test_noise_alone_is_no_difference_beyond_it():
    (found,) = compare(evidence(NOISE), evidence(NOISE[::-1].copy())).series

    assert found.beyond_noise is None


def test_what_parts_first_comes_first_and_what_is_not_finite_is_beyond_noise():
    broken = np.where(STEPS >= 30, np.nan, NOISE)
    norm = NOISE + 10.0 * (STEPS >= 20)

    found = compare(evidence(NOISE, NOISE), evidence(broken, norm)).series

    assert [(one.name, one.beyond_noise) for one in found] == [("gradient_rms/fc1", 20), ("loss", 30)]


def test_trainings_without_a_common_step_are_not_compared():
    late = Evidence(series={"loss": Series(STEPS + 100, NOISE)})

    assert compare(evidence(NOISE), late).compared == 0
