"""The zoo's labels and size, and a sample of its trainings: ``test_twins_*.py`` run all of them."""

from collections import Counter

import pytest

from debuggers.diagnosis.cause import TITLES
from examples.zoo.cases import cases

TUNED, HELD_OUT = cases("tuned"), cases("held_out")
CASES = TUNED + HELD_OUT
QUICK = [case for case in TUNED if case.family == "inputs"][::18]
QUICK += HELD_OUT[::60]


def test_labels_are_of_the_vocabulary():
    codes = {code for case in CASES for code in (case.cause, *case.also) if code}
    assert codes <= TITLES.keys()


@pytest.mark.parametrize(
    ("part", "sick", "healthy"), [(TUNED, 480, 220), (HELD_OUT, 60, 30)], ids=["tuned", "held_out"]
)
def test_the_zoo_is_large_enough(part, sick, healthy):
    if part is HELD_OUT and not part:
        pytest.skip("no half is held out")
    of_a_kind = Counter(bool(case.cause) for case in part)
    assert of_a_kind[True] >= sick
    assert of_a_kind[False] >= healthy


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns of a shape: that is the case's point
@pytest.mark.parametrize("case", QUICK, ids=lambda case: f"{case.part}/{case.name}")
def test_a_repaired_twin_is_better(case, check):
    check(case, seed=0)
