"""What ranks tell each other, and which of them is at fault."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from stability.handling.rank_agreement import Verdict, gather_verdicts, ranks_at_fault

VERDICTS = st.builds(Verdict, st.booleans(), st.integers(0, 3), st.just(10), st.booleans())
GOOD, NAN_LOSS, NAN_GRADIENT = (
    Verdict(True, 0, 10, False),
    Verdict(False, 10, 10, False),
    Verdict(True, 4, 10, False),
)


@pytest.fixture
def alone():
    torch.distributed.init_process_group("gloo", store=torch.distributed.HashStore(), rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


def test_without_a_process_group_there_is_only_the_own_verdict():
    assert gather_verdicts(NAN_LOSS, torch.device("cpu")) == [NAN_LOSS]


@pytest.mark.usefixtures("alone")
def test_in_a_group_of_one_too():
    assert gather_verdicts(GOOD, torch.device("cpu")) == [GOOD]


@pytest.mark.parametrize(
    ("verdicts", "at_fault"),
    [
        ([GOOD, GOOD], []),
        ([GOOD, NAN_GRADIENT], [1]),
        ([NAN_GRADIENT, NAN_LOSS, NAN_GRADIENT], [1]),
        ([NAN_GRADIENT, NAN_GRADIENT], [0, 1]),
    ],
)
def test_a_loss_tells_more_than_gradients_that_may_have_been_averaged(verdicts, at_fault):
    assert at_fault == ranks_at_fault(verdicts)


@given(st.lists(VERDICTS, min_size=1, max_size=8))
def test_somebody_is_at_fault_exactly_when_somebody_is_not_good(verdicts):
    ranks = ranks_at_fault(verdicts)

    assert bool(ranks) == (not all(verdict.good for verdict in verdicts))
    assert not any(verdicts[rank].good for rank in ranks)
