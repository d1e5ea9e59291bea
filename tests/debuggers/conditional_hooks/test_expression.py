"""Conditions as text: what they mean, and how what cannot be understood is refused."""

import math
import operator
from types import SimpleNamespace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from debuggers import summarize
from debuggers.conditional_hooks.expression import MAX_LENGTH, compile_expression
from debuggers.errors import DebuggerConfigError

VALUES = torch.tensor([3.0, -4.0, 0.0, math.nan, math.inf])
MOMENT = SimpleNamespace(step=150, executions=2, summary=summarize([VALUES])[0])


def holds(text, moment=MOMENT):
    expression = compile_expression(text)
    return all(test(moment) for test in (*expression.of_counters, *expression.of_values))


@pytest.mark.parametrize(
    "text",
    [
        "l2_norm == 5 and l1_norm == 7 and abs_max == 4",
        "count == 5 and nan == 1 and pos_inf == 1 and neg_inf == 0 and non_finite == 2",
        "zero == 1 and positive == 1 and negative == 1",
        "min == -4 and max == 3 and abs(mean + 1/3) < 1e-12",
        "rms ** 2 > 25/3 - 1e-9 and std < rms",
        "zero_fraction == 0.2 and non_finite_fraction == 0.4",
        "step == 150 and executions == 2",
        "100 < step <= 150 != 149",
        "not step < 100 or l2_norm > 1e9",
        "(step > 200 or l2_norm > 1) and -min == +4",
        "log10(1000) == 3 and 2 + 3 * 2 == 8 and 7 - 2 / 4 == 6.5",
        "isfinite(mean) and isnan(0 / 0) and not isnan(mean)",
        "1 / 0 > 1e308 and -1 / 0 < -1e308 and log10(0) < -1e308 and isnan(log10(-1))",
        "10 ** 10 ** 10 > 1e308 and (-10) ** 999 < -1e308 and isnan((-8) ** (1 / 3)) and 0 ** -1 > 1e308",
        "not 0 / 0 > 1 and not 0 / 0 <= 1 and 0 / 0 != 0 / 0",
    ],
)
def test_what_holds_of_a_tensor_and_its_step(text):
    assert holds(text)
    assert not holds(f"not ({text})")


def test_parts_that_ask_for_no_values_stand_apart():
    expression = compile_expression("l2_norm > 10 and step > 100 and executions < 3")
    assert (len(expression.of_counters), len(expression.of_values)) == (2, 1)
    expression = compile_expression("l2_norm > 10 or step > 100")
    assert (len(expression.of_counters), len(expression.of_values)) == (0, 1)


@given(st.floats(-1e6, 1e6), st.floats(-1e6, 1e6), st.sampled_from(["<", "<=", ">", ">=", "==", "!="]))
def test_comparisons_are_those_of_python(left, right, sign):
    functions = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
    functions |= {"==": operator.eq, "!=": operator.ne}
    assert holds(f"{left!r} {sign} {right!r}") is functions[sign](left, right)


@given(st.text("l2_norm 019.+-*/()<>=!,andotrsep'\"[]{}:@\n\t\\é", max_size=40))
def test_any_text_is_compiled_or_refused_with_one_kind_of_error(text):
    try:
        expression = compile_expression(text)
    except DebuggerConfigError:
        return
    assert expression.of_counters or expression.of_values


@pytest.mark.parametrize(
    ("text", "column", "reason"),
    [
        ("l2norm > 3", 1, "unknown name 'l2norm' (nearest names: l2_norm, "),
        ("step > 3 and meen < 1", 14, "unknown name 'meen' (nearest names: mean"),
        ("l2_norm >", 10, "invalid syntax"),
        ("(l2_norm > 3", 1, "'(' was never closed"),
        ("l2_norm", 1, "'l2_norm' is not understood; expected a condition, such as l2_norm > 10"),
        ("step and mean > 1", 1, "'step' is not understood; expected a condition"),
        ("(mean > 1) > 2", 2, "'mean > 1' is not understood; expected a number or a name"),
        ("mean > True", 8, "'True' is not understood"),
        ("mean is 3", 1, "'mean is 3' is not understood; expected one of < <= > >= == !="),
        ("mean.real > 2", 1, "'mean.real' is not understood; expected a number or a name"),
        ("mean // 2 > 1", 1, "'mean // 2' is not understood"),
        ("mean > 'a'", 8, "is not understood"),
        ("[m for m in (1,)] > 2", 1, "is not understood"),
        ("__import__('os') > 3", 1, "expected a number or a name (functions: abs, log10, isnan, isfinite)"),
        ("abs(1, 2) > 2", 1, "expected one argument"),
        ("abs(x=1) > 2", 1, "expected one argument"),
        ("(lambda: 1)() > 0", 1, "is not understood"),
        ("1 if step > 1 else 0", 1, "is not understood"),
        ("(step := 1) > 0", 2, "is not understood"),
        ("é > 3 and größe > 1", 1, "unknown name 'é'"),
        ("0 < 1 and größe > 1", 11, "unknown name 'größe'"),
        (f"{'-' * 200}1 > 0", 51, "nested more than 50 deep"),
        (f"{'9' * 400} > 0", 1, "too large for float64"),
    ],
)
def test_what_is_not_understood_is_shown_at_its_place(text, column, reason):
    with pytest.raises(DebuggerConfigError) as raised:
        compile_expression(text)
    headline, shown, arrow = str(raised.value).split("\n")
    assert headline.startswith(f"condition, column {column}: ")
    assert reason in headline
    assert shown == f"  {text}"
    assert arrow == " " * (column + 1) + "^"


@pytest.mark.parametrize("text", ["", "  ", "x" * (MAX_LENGTH + 1)])
def test_a_condition_has_a_length(text):
    with pytest.raises(DebuggerConfigError, match=r"characters; expected 1 to 1000"):
        compile_expression(text)


@pytest.mark.parametrize("text", ["(" * 500, "mean > 1\0", "-" * 900 + "1 > 2"])
def test_what_python_cannot_read_is_refused(text):
    with pytest.raises(DebuggerConfigError):
        compile_expression(text)


def test_a_line_break_is_a_space():
    assert holds("step > 100\n and mean < 0")
