"""A gradient that is zero everywhere at three observed steps in a row is found."""

from debuggers.detectors import ZeroGradient


def test_it_takes_three_steps_in_a_row(observe):
    detector = ZeroGradient()
    found = [detector.see(observe(step, zero_fraction=[share])) for step, share in enumerate([1, 1, 0.9, 1, 1, 1])]
    assert [len(step) for step in found] == [0, 0, 0, 0, 0, 1]
    (finding,) = detector.findings()
    assert (finding.step, finding.last_step, finding.steps) == (3, 5, 3)


def test_steps_at_which_the_tensor_was_not_measured_do_not_interrupt(observe):
    detector = ZeroGradient()
    found = [detector.see(observe(step, zero_fraction=[share])) for step, share in enumerate([1, None, 1, None, 1])]
    assert [len(step) for step in found] == [0, 0, 0, 0, 1]


def test_one_zero_at_the_start_is_ordinary(observe):
    """Layers before weights that start at zero get no gradient at the first step."""
    detector = ZeroGradient()
    for step, share in enumerate([1.0, 0.0, 0.0, 0.0, 0.0]):
        detector.see(observe(step, zero_fraction=[share]))
    assert detector.findings() == []
