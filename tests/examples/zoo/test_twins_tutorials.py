"""The sound trainings of well-known tutorials and repositories."""

import pytest
from zoo_twins import parametrize_twins


def pytest_generate_tests(metafunc):
    parametrize_twins(metafunc, "tutorials")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_every_training_reaches_its_quality(case, seed, check):
    check(case, seed)
