"""The cases on which no rule is tuned."""

import pytest

from examples.zoo.cases import cases

CASES = [case for case in cases("held_out") if not case.slow]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_repaired_twin_is_better_with_two_seeds_of_three(case, check):
    """Processors round differently: a training that one of them loses says nothing of the case."""

    def is_better(seed):
        try:
            check(case, seed)
        except AssertionError:
            return False
        return True

    assert sum(map(is_better, range(3))) >= 2
