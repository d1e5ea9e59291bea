"""A training of the zoo is the same, watched or not."""

import pytest

from examples.zoo.cases import cases
from examples.zoo.watching import MODES, Watcher


@pytest.mark.parametrize(
    "name",
    [
        "mechanics/zero_grad_forgotten",
        pytest.param("healthy_but_odd/generative_adversarial", marks=pytest.mark.slow),
    ],
)
def test_a_training_is_the_same_in_all_modes(name):
    case = next(case for case in cases("tuned") if case.name == name)
    qualities = set()
    for mode in MODES:
        watcher = Watcher(mode)
        qualities.add(case.run(watcher.watch, case.variants[0], 0))
        watcher.close()

    assert len(qualities) == 1
