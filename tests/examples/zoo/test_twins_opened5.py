"""The cases of the fifth half that was held out."""

import pytest
from zoo_twins import twins


@pytest.mark.filterwarnings("ignore::UserWarning")
@twins("opened5")
def test_every_repaired_twin_is_better(case, seed, check):
    check(case, seed)
