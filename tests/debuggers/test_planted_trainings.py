"""Faults that show in the middle of a training are named, and healthy trainings with infinities are left alone.

A part of those in ``benchmarks/planted``; the integration tests have all, in all settings.
"""

import pytest
from planted.healthy import HEALTHY
from planted.settings import told, told_of_healthy, verdict
from planted.trainings import TRAININGS

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.mark.parametrize(
    "training",
    [
        pytest.param(training, id=training.title, marks=() if place % 3 == 0 else pytest.mark.slow)
        for place, training in enumerate(TRAININGS[::6])
    ],
)
def test_a_fault_is_named_before_the_manager_skips_its_step(training):
    assert verdict(training, told(training, "manager skips")) == "exactly"


@pytest.mark.parametrize("training", HEALTHY[::8], ids=lambda training: training.title)
def test_infinities_that_are_legal_are_left_alone(training):
    assert told_of_healthy(training, "no replay") == (True, [])
