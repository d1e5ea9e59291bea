"""All planted faults and all healthy trainings, in every way of watching: nothing wrong is named, little is missed."""

from collections import Counter

import pytest
from planted.healthy import HEALTHY
from planted.settings import SETTINGS, told, told_of_healthy, verdict
from planted.trainings import TRAININGS

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]


@pytest.mark.parametrize("setting", SETTINGS)
def test_what_is_named_is_right(setting):
    counts = Counter(verdict(training, told(training, setting)) for training in TRAININGS)

    if setting == "no replay":  # which repeats neither the loss nor any but the last micro-batch
        in_the_loss = sum(training.module == "the loss" for training in TRAININGS)
        assert counts["wrong"] == 0
        assert counts["none"] <= 1
        assert counts["module"] <= in_the_loss + 1
    else:
        assert counts == {"exactly": len(TRAININGS)}


@pytest.mark.parametrize("setting", SETTINGS)
def test_there_is_no_false_alarm(setting):
    told_of = {training.title: told_of_healthy(training, setting) for training in HEALTHY}

    assert {title: found for title, found in told_of.items() if found != (True, [])} == {}
