"""What a bound rules out, a whole measurement rules out too."""

import math
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from debuggers import summarize
from debuggers.conditional_hooks.expression import compile_expression
from debuggers.conditional_hooks.extent import RANGES
from debuggers.conditional_hooks.names import STATISTICS

ELEMENTS = st.floats(width=32) | st.sampled_from([0.0, 1.0, -1.0, math.nan, math.inf])
SIDES = ["{}", "abs({})", "-{}", "{} * 2", "{} / -4"]


def test_every_statistic_has_a_range():
    assert RANGES.keys() == STATISTICS.keys()


@given(
    st.lists(ELEMENTS, min_size=1, max_size=6),
    st.sampled_from([torch.float16, torch.float32, torch.float64]),
    st.tuples(st.sampled_from(sorted(RANGES)), st.sampled_from(SIDES)),
    st.sampled_from(["<", "<=", ">", ">=", "==", "!="]),
    st.sampled_from([0, 1, 2, 0.5, 1e-3, 1e3]) | st.floats(-1e38, 1e38) | st.none(),
)
def test_what_holds_is_never_ruled_out(elements, dtype, left, sign, limit):
    tensor = torch.tensor(elements, dtype=torch.float64).to(dtype)
    summary = summarize([tensor])[0]
    name, side = left
    if limit is None:  # exactly at the limit
        limit = float(STATISTICS[name](summary))
        limit = limit if math.isfinite(limit) else 1.0
    condition = f"{side.format(name)} {sign} {limit!r}"
    expression = compile_expression(condition)
    moment = SimpleNamespace(step=0, executions=0, summary=summary)
    if expression.bounds is not None and all(test(moment) for test in expression.of_values):
        for _ in range(2):  # what was learned of the first is used for the second
            assert expression.bounds.may_hold(tensor), condition


@given(
    st.lists(st.lists(st.floats(-1e3, 1e3, width=32), min_size=3, max_size=3), min_size=1, max_size=5),
    st.sampled_from(
        ["abs_max > 10", "l2_norm >= 100", "abs(mean) > 1", "min < -5 or std > 3", "0 < mean < 1", "rms < 2"]
    ),
)
def test_tensors_of_one_size_are_ruled_out_each_for_itself(tensors, text):
    expression = compile_expression(text)
    for elements in tensors:
        tensor = torch.tensor(elements, dtype=torch.float32)
        moment = SimpleNamespace(step=0, executions=0, summary=summarize([tensor])[0])
        if expression.of_values[0](moment):
            assert expression.bounds.may_hold(tensor)


@pytest.mark.parametrize(
    "text",
    [
        "l2_norm > 100", "abs_max >= 5", "nan > 0", "non_finite_fraction > 0 and std > 0.1", "mean > 2", "std > 0.1",
        "abs(mean) < 0.5", "min < -1 or max > 3", "3 < max", "isnan(mean)", "zero_fraction > 0.5", "-max > 0",
    ],
)  # fmt: skip
def test_conditions_are_ruled_out_of_ordinary_tensors_and_asked_of_odd_ones(text):
    bounds = compile_expression(text).bounds
    assert not bounds.may_hold(torch.ones(3, 4))
    assert bounds.may_hold(torch.tensor([1.0, math.nan]))
    assert bounds.may_hold(torch.tensor([-math.inf]))


@pytest.mark.parametrize(
    "text", ["step > 10", "not nan > 0", "isfinite(mean)", "mean > step", "nan > 0 or log10(max) > 2"]
)
def test_of_what_is_no_comparison_of_a_statistic_nothing_is_told(text):
    assert compile_expression(text).bounds is None


@pytest.mark.parametrize(
    "tensor",
    [torch.empty(0), torch.ones(2, dtype=torch.int64), torch.ones(2, device="meta"), torch.eye(2).to_sparse()],
    ids=["empty", "integers", "meta", "sparse"],
)
def test_what_cannot_be_bounded_may_hold(tensor):
    assert compile_expression("l2_norm > 1e9").bounds.may_hold(tensor)


@pytest.mark.parametrize("elements", [10, 70_000, 300_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_tensors_of_any_size_are_ruled_out(elements, dtype):
    bounds = compile_expression("abs_max > 1e4").bounds
    assert not bounds.may_hold(torch.ones(elements, dtype=dtype))
    assert bounds.may_hold(torch.full((elements,), 2e4, dtype=dtype))
