"""A gradient that is zero everywhere at three observed steps in a row is found."""

import pytest

from debuggers.detectors import ZeroGradient


def test_it_takes_three_steps_in_a_row(observe):
    detector = ZeroGradient()
    found = [detector.see(observe(step, zero_fraction=[share])) for step, share in enumerate([1, 1, 1, 1])]
    assert [len(step) for step in found] == [0, 0, 1, 0]
    (finding,) = detector.findings()
    assert (finding.step, finding.last_step, finding.steps) == (0, 3, 4)


def reported_at(shares, observe):
    detector = ZeroGradient()
    return [step for step, share in enumerate(shares) if detector.see(observe(step, zero_fraction=[share]))]


def test_heads_that_are_trained_in_turn_are_reported_once_at_most(observe):
    """One begins with its turn, the other waits through the first epoch."""
    epoch = 60
    assert reported_at(([0.1] * epoch + [1.0] * epoch) * 5, observe) == []
    assert reported_at(([1.0] * epoch + [0.1] * epoch) * 5, observe) == [2]
    epoch = 500
    assert reported_at(([0.1] * epoch + [1.0] * epoch) * 5, observe) == [epoch + 102]


def test_a_gradient_that_ends_for_good_is_reported_soon(observe):
    assert reported_at([0.1] * 8 + [1.0] * 20, observe) == [8 + 8 + 2]
    assert reported_at([0.1] * 5000 + [1.0] * 200, observe) == [5000 + 100 + 2]
    assert reported_at(([0.1] * 60 + [1.0] * 60) * 3 + [0.1] * 60 + [1.0] * 200, observe) == [420 + 120 + 2]


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


def test_tensors_are_judged_the_same_whether_all_are_alive_or_not(observe):
    """The row that is missing keeps the others from being counted together."""
    together, apart = ZeroGradient(), ZeroGradient()
    shares = [[0.1] * 9 + [1.0] * 4 + [0.2] * 3 + [1.0] * 12 + [0.3] * 5 + [1.0] * 60, [0.0] * 93]
    begun = []
    for step, values in enumerate(zip(*shares, strict=True)):
        found = together.see(observe(step, zero_fraction=values))
        other = apart.see(observe(step, zero_fraction=[*values, None]))
        assert [finding.name for finding in found] == [finding.name for finding in other]
        begun += [step] * len(found)
    assert together.findings() == apart.findings()
    assert begun == [59]  # more zeros than twice the 12 before, at three steps


EXPERTS = ("lift.weight", "experts.0.fc.weight", "experts.0.fc.bias", "experts.1.fc.weight", "experts.1.fc.bias")


@pytest.mark.parametrize(
    ("names", "alive", "found"),
    [
        (EXPERTS, (1, 0, 0, 1, 1), 0),
        (EXPERTS, (1, 0, 1, 1, 1), 1),  # part of an expert
        (EXPERTS, (1, 0, 0, 0, 0), 4),
        (EXPERTS, (0, 0, 0, 1, 1), 3),  # the gradient of a chain ends there
        (tuple(f"blocks.3.{name}" for name in EXPERTS), (1, 0, 0, 1, 1), 0),
        (("stem.weight", "0.weight", "1.weight"), (1, 0, 1), 1),  # numbers of a model's own layers
    ],
)
def test_experts_that_no_row_chooses_are_left_out(observe, names, alive, found):
    detector = ZeroGradient()
    for step in range(4):
        detector.see(observe(step, names=names, zero_fraction=[1.0 - one for one in alive]))
    assert len(detector.findings()) == found


@pytest.mark.parametrize(("first", "found"), [((1, 0, 1, 1), 0), ((1, 1, 1, 1), 1)])
def test_experts_that_come_first_are_known_by_one_that_was_left_out_behind_another(observe, first, found):
    """In a chain, no gradient would reach what comes before the end of another."""
    names = ("experts.0.fc.weight", "experts.1.fc.weight", "experts.2.fc.weight", "gate.weight")
    detector = ZeroGradient()
    for step in range(12):
        alive = first if step == 0 else (0, 1, 1, 1)
        detector.see(observe(step, names=names, zero_fraction=[1.0 - one for one in alive]))
    assert len(detector.findings()) == found
