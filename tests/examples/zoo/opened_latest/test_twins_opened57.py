"""The cases of the thirty-fourth half that was held out, of its first writer."""

import pytest
from zoo_twins import parametrize_twins


def pytest_generate_tests(metafunc):
    parametrize_twins(metafunc, "opened57")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_repaired_twin_is_better(case, seed, check):
    check(case, seed)
