"""What a bound rules out, a whole measurement rules out too."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from debuggers import summarize
from debuggers.conditional_hooks.bounds import RANGES, may_hold
from debuggers.conditional_hooks.expression import compile_expression
from debuggers.conditional_hooks.names import STATISTICS

ELEMENTS = st.floats(width=32) | st.sampled_from([0.0, 1.0, -1.0, math.nan, math.inf])


def test_every_statistic_has_a_range():
    assert RANGES.keys() == STATISTICS.keys()


@given(
    st.lists(ELEMENTS, min_size=1, max_size=6),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
    st.sampled_from(sorted(RANGES)),
    st.sampled_from(["<", "<=", ">", ">="]),
    st.sampled_from([0, 1, 2, 0.5, 1e-3, 1e3]) | st.floats(0, 1e38),
)
def test_what_holds_is_never_ruled_out(elements, dtype, name, sign, limit):
    tensor = torch.tensor(elements, dtype=torch.float64).to(dtype)
    expression = compile_expression(f"{name} {sign} {limit!r}")
    moment = SimpleNamespace(step=0, executions=0, summary=summarize([tensor])[0])
    if all(test(moment) for test in expression.of_values):
        assert may_hold(expression.bounds, tensor)


@pytest.mark.parametrize("text", ["l2_norm > 100", "abs_max >= 5", "nan > 0", "non_finite_fraction > 0 and std > 0.1"])
def test_rare_conditions_are_ruled_out_of_ordinary_tensors_and_asked_of_odd_ones(text):
    bounds = compile_expression(text).bounds
    assert bounds
    assert not may_hold(bounds, torch.ones(3, 4))
    assert may_hold(bounds, torch.tensor([1.0, math.nan]))
    assert may_hold(bounds, torch.tensor([-math.inf]))


@pytest.mark.parametrize("text", ["std < 0.1", "l2_norm > 2 * 5", "step > 10", "not nan > 0", "0 < mean < 1"])
def test_what_small_tensors_fulfil_or_is_no_plain_comparison_has_no_bound(text):
    assert not compile_expression(text).bounds


@pytest.mark.parametrize(
    "tensor",
    [torch.empty(0), torch.ones(2, dtype=torch.int64), torch.ones(2, device="meta"), torch.eye(2).to_sparse()],
    ids=["empty", "integers", "meta", "sparse"],
)
def test_what_cannot_be_bounded_may_hold(tensor):
    assert may_hold(compile_expression("l2_norm > 1e9").bounds, tensor)
