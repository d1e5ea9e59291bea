"""Each sick training of the zoo is worse than its repaired twin, and each healthy one reaches what it should."""

from collections import Counter

import pytest
import torch

from debuggers.diagnosis.cause import TITLES
from examples.zoo.cases import cases
from examples.zoo.watching import Watcher

TUNED, HELD_OUT = cases("tuned"), cases("held_out")
CASES = TUNED + HELD_OUT
QUICK = [case for case in TUNED if case.family in ("mechanics", "loss_and_head", "inputs", "pictures")][::5] + HELD_OUT[
    ::20
]


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def name(case):
    return f"{case.part}/{case.name}"


def check(case, seed):
    qualities = [case.run(Watcher("unwatched").watch, variant, seed) for variant in case.variants]
    assert qualities[-1] - (qualities[0] if case.cause else 0.0) >= case.margin, qualities


def test_labels_are_of_the_vocabulary():
    codes = {code for case in CASES for code in (case.cause, *case.also) if code}
    assert codes <= TITLES.keys()


def test_the_zoo_is_large_enough():
    assert Counter(bool(case.cause) for case in TUNED)[True] >= 220
    assert Counter(bool(case.cause) for case in TUNED)[False] >= 60
    assert Counter(bool(case.cause) for case in HELD_OUT)[True] >= 60
    assert Counter(bool(case.cause) for case in HELD_OUT)[False] >= 30


@pytest.mark.filterwarnings("ignore::UserWarning")  # torch warns of a shape: that is the case's point
@pytest.mark.parametrize("case", QUICK, ids=name)
def test_a_repaired_twin_is_better(case):
    check(case, seed=0)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("case", [case for case in CASES if not case.slow], ids=name)
def test_every_repaired_twin_is_better_with_every_seed(case, seed):
    check(case, seed)
