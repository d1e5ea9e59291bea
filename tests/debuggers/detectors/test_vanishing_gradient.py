"""Mean |g| below 1e-7 vanishes where others do not; zero, NaN, what was not measured, and idle biases do not."""

import math

from debuggers.detectors import VanishingGradient


class AtOnce(VanishingGradient):
    """The rule without the steps that it waits until it reports."""

    consecutive_steps = 1


def test_single_steps_are_not_reported(observe):
    """A policy that is certain of one action has gradients of zero there."""
    detector = VanishingGradient()
    small, usual = [1e-9, 1e-3], [1e-3, 1e-3]
    seen = [detector.see(observe(step, mean_magnitude=means)) for step, means in enumerate([small] * 2 + [usual])]
    assert seen == [[], [], []]
    seen = [detector.see(observe(step, mean_magnitude=small)) for step in range(3, 6)]
    assert [[(finding.name, finding.step) for finding in found] for found in seen] == [[], [], [("layer0.weight", 3)]]


def test_a_mean_below_the_limit_is_found_with_its_proof(observe):
    (finding,) = AtOnce().see(observe(7, mean_magnitude=[1e-3, 9.9e-8, 1e-7]))
    assert (
        finding.kind,
        finding.name,
        finding.level,
        finding.step,
    ) == ("vanishing_gradient", "layer1.weight", "warning", 7)
    assert (finding.value, finding.threshold) == (9.9e-8, 1e-7)
    assert finding.message == "layer1.weight: mean |g| 9.9e-08 is below 1e-07 at step 7"


def test_zero_nan_and_unmeasured_gradients_are_left_to_others(observe):
    assert AtOnce().see(observe(0, mean_magnitude=[0.0, math.nan, None])) == []


def test_a_bias_counts_only_when_nothing_else_in_its_module_gets_gradient(observe):
    """A convolution's bias before batch normalisation has no effect, so its gradient is rounding error."""
    names = ["conv.weight", "conv.bias", "deep.weight", "deep.bias"]
    found = AtOnce().see(observe(0, names, mean_magnitude=[1e-3, 1e-10, 1e-9, 1e-10]))
    assert [finding.name for finding in found] == ["deep.weight", "deep.bias"]


def test_a_bias_whose_weight_is_frozen_may_be_before_a_normalisation(observe):
    names = ["conv.bias", "norm.weight", "norm.bias", "head.weight"]
    assert AtOnce().see(observe(0, names, mean_magnitude=[1e-9, 1e-3, 1e-3, 1e-2])) == []
    found = AtOnce().see(observe(0, ["a.bias", "b.bias"], mean_magnitude=[1e-9, 1e-3]))
    assert [finding.name for finding in found] == ["a.bias"], "where biases alone are trained, they are judged"


def test_tensors_that_appear_later_are_judged_too(observe):
    detector = AtOnce()
    assert detector.see(observe(0, ["a.weight"], mean_magnitude=[1e-9])) == []
    found = detector.see(observe(1, ["a.weight", "b.weight", "b.bias"], mean_magnitude=[1e-9, 1.0, 1e-9]))
    assert [finding.name for finding in found] == ["a.weight"]
    found = detector.see(observe(2, ["a.weight", "b.weight", "b.bias"], mean_magnitude=[1.0, 1e-9, 1e-9]))
    assert [finding.name for finding in found] == ["b.weight", "b.bias"]


def test_the_worst_value_is_the_smallest(observe):
    detector = AtOnce()
    for step, mean in enumerate([1e-8, 1e-12, 1e-9]):
        detector.see(observe(step, mean_magnitude=[mean, 1.0]))
    assert [finding.value for finding in detector.findings()] == [1e-12]


def test_where_all_gradients_are_as_small_the_loss_is(observe):
    """A loss times 1e-6, and a training that has converged."""
    assert AtOnce().see(observe(0, mean_magnitude=[3e-8, 2e-9, 4e-10])) == []
    (finding,) = AtOnce().see(observe(0, mean_magnitude=[3e-8, 2e-9, 2e-11]))
    assert (finding.name, finding.threshold) == ("layer2.weight", 3e-11)


def test_layers_that_are_recorded_one_by_one_are_compared(observe):
    detector = AtOnce()
    assert detector.see(observe(0, mean_magnitude=[None, 1e-3])) == []
    (finding,) = detector.see(observe(0, mean_magnitude=[1e-9, None]))
    assert finding.name == "layer0.weight"
