"""The cases on which rules were tuned from the beginning; a file for each part, as each runs in one process."""

import pytest
from zoo_twins import twins


@pytest.mark.filterwarnings("ignore::UserWarning")
@twins("")
def test_every_repaired_twin_is_better(case, seed, check):
    check(case, seed)
