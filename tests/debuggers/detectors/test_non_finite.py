"""Any NaN or infinity is an error, except while a loss scale is being found."""

import pytest

from debuggers.detectors import NonFiniteActivation, NonFiniteGradient


@pytest.mark.parametrize(
    "detector, kind", [(NonFiniteGradient, "non_finite_gradient"), (NonFiniteActivation, "non_finite_activation")]
)
def test_one_element_is_enough(observe, detector, kind):
    (finding,) = detector().see(observe(3, non_finite=[0, 1, 0]))
    assert (kind, "layer1.weight", "error", 1) == (finding.kind, finding.name, finding.level, finding.value)


def test_the_first_overflows_of_a_loss_scaler_are_normal(observe):
    detector = NonFiniteGradient()
    for step in range(16):
        assert detector.see(observe(step, expected_overflow=True, non_finite=[5, 0])) == []
    for step in range(16, 40):
        assert detector.see(observe(step, non_finite=[0, 0])) == []
    assert detector.findings() == []


def test_overflows_that_no_scale_explains_are_found(observe):
    detector = NonFiniteGradient()
    found = [detector.see(observe(step, expected_overflow=True, non_finite=[5])) for step in range(20)]
    assert [step for step, findings in enumerate(found) if findings] == [16]


def test_overflows_now_and_then_are_normal_for_ever(observe):
    """A scaler doubles its scale every 2,000 steps and may overflow then."""
    detector = NonFiniteGradient()
    for step in range(200):
        overflow = step % 10 == 0
        detector.see(observe(step, expected_overflow=overflow, non_finite=[int(overflow)]))
    assert detector.findings() == []


def test_a_step_that_is_not_expected_to_overflow_is_an_error_at_once(observe):
    detector = NonFiniteGradient()
    detector.see(observe(0, expected_overflow=True, non_finite=[5]))
    assert len(detector.see(observe(1, non_finite=[5]))) == 1
