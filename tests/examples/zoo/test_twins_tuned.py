"""The cases on which rules were tuned from the beginning; a file for each part, as each runs in one process."""

import pytest
from zoo_twins import parametrize_twins


def pytest_generate_tests(metafunc):
    parametrize_twins(metafunc, "")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_repaired_twin_is_better(case, seed, check):
    check(case, seed)
