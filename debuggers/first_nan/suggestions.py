"""What to do about an operator that produced NaN or infinities."""

import math

from debuggers.first_nan.events import NonFiniteEvent
from debuggers.first_nan.operands import Operand
from debuggers.first_nan.operator_kinds import plain_name, words

_HUGE = 1e10
"""Parameters of a healthy training stay far below: within a few powers of ten of one."""
_GROWN = 1e15
_PRODUCTS = words(
    "_convolution _scaled_dot_product_efficient_attention _scaled_dot_product_flash_attention_for_cpu "
    "_thnn_fused_gru_cell _thnn_fused_lstm_cell addmm addmv baddbmm bmm convolution dot linear lstm matmul "
    "mkldnn_rnn_layer mm mv"
)
_NO_TARGET = "the mean over no target is NaN: every target has the ignored index, or its class has weight 0"
_BY_OPERATOR = {
    "log": "log of 0 is -inf and log of a negative number NaN: clamp from below, or use log_softmax or logsigmoid",
    "log2": "log2 of 0 is -inf and of a negative number NaN: clamp from below",
    "log10": "log10 of 0 is -inf and of a negative number NaN: clamp from below",
    "log1p": "log1p of -1 is -inf and below NaN: clamp from below",
    "logit": "logit of 0 and 1 is infinite: pass eps to it",
    "sqrt": "sqrt of a negative number is NaN, and its slope at 0 is infinite: add a small eps inside the root",
    "rsqrt": "rsqrt of 0 is infinite and of a negative number NaN: add a small eps inside the root",
    "div": "division by 0: add a small eps to the denominator, or mask it before dividing",
    "reciprocal": "division by 0: add a small eps to the denominator, or mask it before dividing",
    "remainder": "a remainder of division by 0 is NaN: check the divisor",
    "fmod": "a remainder of division by 0 is NaN: check the divisor",
    "exp": "exp overflows (above 88.7 in float32, 11.1 in float16): subtract the maximum first, or clamp",
    "expm1": "expm1 overflows (above 88.7 in float32, 11.1 in float16): clamp its argument",
    "sinh": "sinh overflows (beyond 89 in float32): clamp its argument",
    "cosh": "cosh overflows (beyond 89 in float32): clamp its argument",
    "pow": "a negative base with a fractional exponent is NaN, 0 with a negative exponent and the slope at 0 below "
    "exponent 1 are infinite, and large powers overflow: clamp the base",
    "acos": "acos beyond [-1, 1] is NaN, and its slope at both ends infinite: clamp a little inside",
    "asin": "asin beyond [-1, 1] is NaN, and its slope at both ends infinite: clamp a little inside",
    "acosh": "acosh below 1 is NaN, and its slope at 1 infinite: clamp a little above",
    "atanh": "atanh at -1 and 1 is infinite, and NaN beyond: clamp a little inside",
    "erfinv": "erfinv at -1 and 1 is infinite, and NaN beyond: clamp a little inside",
    "atan2": "atan2 has no slope where both arguments are 0: add a small eps to one of them",
    "hypot": "hypot has no slope at 0: add a small eps",
    "linalg_vector_norm": "a norm has no slope at 0 for this order, or overflowed: add a small eps to its argument",
    "_cdist_forward": "a distance has no slope at 0: add a small eps",
    "mean": "a mean over no values is 0 / 0: check for empty selections",
    "std": "a deviation of fewer than two values is NaN: check the shape, or use correction=0",
    "var": "a variance of fewer than two values is NaN: check the shape, or use correction=0",
    "nll_loss_forward": _NO_TARGET,
    "nll_loss2d_forward": _NO_TARGET,
    "lgamma": "lgamma has poles at 0 and the negative integers: clamp from below",
    "tan": "tan has poles at odd multiples of pi / 2",
    "cumprod": "a product of many values overflows: add logarithms instead",
    "prod": "a product of many values overflows: add logarithms instead",
    "square": "squares overflow: normalise the values first",
}
_SOFTMAX = (
    "softmax over nothing but -inf is NaN: a row is masked completely; leave one entry, or set such rows to 0 after"
)
_LOG_SUMS = words("logaddexp logaddexp2 logcumsumexp logsumexp")
_NO_TERM = (
    "a log of a sum over nothing but -inf has no slope: leave one finite term, or fill in a large negative number "
    "instead of -inf"
)


def suggestion_for(event: NonFiniteEvent) -> str:
    """Returns one sentence that fits an event."""
    if already := _already_there(event):
        return already
    name = plain_name(event.call.operator)
    if "softmax" in name or name.startswith("_scaled_dot_product"):
        if any(operand.negative_inf for operand in event.inputs):
            return _SOFTMAX
        return _overflow(event) or "softmax received values that it cannot normalise: check its inputs"
    if name in _LOG_SUMS and event.direction == "backward":
        return _NO_TERM
    if blown_up := _blown_up(event):
        return blown_up
    for operand in event.inputs:
        if operand.non_finite and not operand.shape:
            return f"the number {operand.role} is not finite: check where it comes from"
    if name in _BY_OPERATOR:
        return _overflow(event) if _only_overflowed(event, name) else _BY_OPERATOR[name]
    if overflow := _overflow(event):
        return overflow
    if any(operand.positive_inf or operand.negative_inf for operand in event.inputs):
        return "an operation turned intended infinities into NaN (0 * inf, inf - inf)"
    return f"the {event.direction} pass of {event.call.operator} is not finite for these inputs"


def _already_there(event: NonFiniteEvent) -> str:
    if event.origin == "parameter":
        return (
            f"{event.source} was not finite before this step: in the initialisation or what was loaded, or after an "
            "update; restore a checkpoint"
        )
    if event.origin in ("input", "buffer", "elsewhere"):
        what = "the input data are" if event.origin == "input" else f"{event.source} is"
        return f"{what} not finite already: check where they come from"
    if event.origin == "loss":
        return "the gradient of the outputs is not finite: the fault is in the loss"
    if event.origin == "placed":
        return "an intended infinity reaches the loss or a gradient: mask it out before reducing"
    return ""


def _blown_up(event: NonFiniteEvent) -> str:
    parameters = [operand for operand in event.inputs if operand.name.startswith("parameter")]
    for operand in sorted(parameters, key=lambda operand: -operand.magnitude)[:1]:
        if operand.magnitude > _HUGE:
            return (
                f"{operand.name} has grown to {operand.magnitude:.3g}: the learning rate is too high; lower it, warm "
                "it up, clip the gradients"
            )
    return ""


def _only_overflowed(event: NonFiniteEvent, name: str) -> bool:
    """Whether the inputs were in the operator's domain, and the result is too large for the dtype."""
    if name not in ("div", "pow", "square") or not any(operand.positive_inf for operand in event.outputs):
        return False
    return event.direction == "forward" and not any(operand.zeros or operand.negatives for operand in event.inputs[1:])


def _overflow(event: NonFiniteEvent) -> str:
    infinite = [operand for operand in event.outputs if operand.positive_inf or operand.negative_inf]
    if any(operand.dtype == "float16" for operand in infinite):
        scaled = " or lower the loss scale" if event.direction == "backward" else ""
        return (
            f"beyond 65504, the largest float16 (inputs up to {_largest(event.inputs):.3g}): run it "
            f"in float32 under autocast(enabled=False), use bfloat16, scale the values down{scaled}"
        )
    largest = _largest(event.inputs)
    if infinite and largest > _GROWN:
        return f"values have grown to {largest:.3g}: lower the learning rate, clip the gradients, normalise the values"
    if infinite and plain_name(event.kernel) in _PRODUCTS:
        return f"a product beyond the range of {infinite[0].dtype}: check the ranges of both factors"
    return "the result is beyond the range of its dtype: scale the values down" if infinite else ""


def _largest(operands: tuple[Operand, ...]) -> float:
    return max((operand.magnitude for operand in operands), default=math.nan)
