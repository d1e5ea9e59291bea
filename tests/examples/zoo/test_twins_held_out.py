"""The cases of the half that is held out, if there is one."""

import pytest
from zoo_twins import twins


@pytest.mark.filterwarnings("ignore::UserWarning")
@twins("", "held_out")
def test_every_repaired_twin_is_better(case, seed, check):
    check(case, seed)
