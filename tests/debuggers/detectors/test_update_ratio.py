"""|Δw| / |w| outside of 1e-8 to 10 at three observed steps in a row is found."""

import pytest

from debuggers.detectors import LargeUpdate, SmallUpdate


@pytest.mark.parametrize("ratio", [1e-8, 1e-3, 10.0])
def test_the_limits_themselves_are_in_order(observe, ratio):
    for detector in (SmallUpdate(), LargeUpdate()):
        for step in range(5):
            assert detector.see(observe(step, update_ratio=[ratio])) == []


@pytest.mark.parametrize("detector, ratio", [(SmallUpdate, 0.0), (SmallUpdate, 9e-9), (LargeUpdate, 10.1)])
def test_the_third_step_outside_is_reported(observe, detector, ratio):
    found = [judge.see(observe(step, update_ratio=[ratio])) for judge in [detector()] for step in range(5)]
    assert [len(step) for step in found] == [0, 0, 1, 0, 0]
    assert found[2][0].step == 0


def test_a_bias_that_starts_at_zero_may_grow_without_bounds_once(observe):
    detector = LargeUpdate()
    for step, ratio in enumerate([1e6, 0.9, 0.5, 0.3]):
        assert detector.see(observe(step, update_ratio=[ratio])) == []


def test_a_learning_rate_that_warms_up_from_zero_is_in_order(observe):
    detector = SmallUpdate()
    for step, ratio in enumerate([0.0, 1e-6, 1e-5, 1e-4]):
        assert detector.see(observe(step, update_ratio=[ratio])) == []


def test_a_schedule_that_ends_at_zero_is_in_order_and_one_that_stays_there_is_not(observe):
    detector = SmallUpdate()
    for step in range(200):
        assert detector.see(observe(step, update_ratio=[1e-3 if step < 185 else 0.0])) == []

    begun = [finding.step for step in range(200, 220) for finding in detector.see(observe(step, update_ratio=[0.0]))]
    assert begun == [205]


def test_each_tensor_has_its_own_steps(observe):
    detector = SmallUpdate()
    for step in range(50):
        detector.see(observe(step, update_ratio=[1e-3]))

    found = [detector.see(observe(step, update_ratio=[0.0, 0.0])) for step in range(50, 54)]
    assert [[finding.step for finding in step] for step in found] == [[], [], [50], []]
