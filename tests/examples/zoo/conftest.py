"""What the tests of the zoo's trainings share."""

import pytest
import torch

from examples.zoo.watching import Watcher


@pytest.fixture(autouse=True)
def _one_thread():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def check():
    """``check(case, seed)`` trains all variants: the repaired twin is better, a healthy training good enough."""

    def trained(case, seed):
        qualities = [case.run(Watcher("unwatched").watch, variant, seed) for variant in case.variants]
        assert qualities[-1] - (qualities[0] if case.cause else 0.0) >= case.margin, qualities

    return trained
