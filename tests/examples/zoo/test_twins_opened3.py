"""The cases of the third half that was held out."""

import pytest

from examples.zoo.cases import cases

CASES = [case for case in cases("tuned") if not case.slow and case.half == "opened3"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_every_repaired_twin_is_better_with_every_seed(case, seed, check):
    check(case, seed)
