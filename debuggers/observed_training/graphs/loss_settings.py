"""What a loss of torch's own was told beside outputs and targets, as its graph has kept it."""

from debuggers.observed_training.graphs.loss_term import Term
from debuggers.signals.batch_statistics import IGNORED
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import constant_operand, number_on_host, operator


def has_weights(term: Term) -> bool:
    """Whether one of torch's own losses has got weights of classes or elements."""
    node = term.comparison
    return node is not None and any(saved_value(node, name) is not None for name in ("weight", "pos_weight"))


def positive_weight_of(term: Term) -> float:
    """The weight of positive targets; 1 where there is none, or several, or where it lies on a device."""
    weight = None if term.comparison is None else number_on_host(saved_value(term.comparison, "pos_weight"))
    return 1.0 if weight is None else weight


def limit_of(term: Term) -> float:
    """The error from which one of torch's own losses grows as the error itself; 1 where it has none."""
    name = {"huber": "delta", "smooth_l1": "beta"}.get(term.kind)
    value = None if name is None or term.comparison is None else saved_value(term.comparison, name)
    return value if isinstance(value, float) else 1.0


def temperature_of(term: Term) -> float:
    """What divides the outputs that a loss compares, as a number on the host; 1 where nothing does."""
    name = "" if term.outputs is None else operator(term.outputs)
    number = number_on_host(constant_operand(term.outputs)) if name in ("Mul", "Div") else None
    if not number:
        return 1.0
    return number if name == "Div" else 1 / number


def ignored_of(term: Term) -> int | None:
    """The class index that one of torch's own losses leaves out, where it is not the usual one."""
    value = None if term.comparison is None else saved_value(term.comparison, "ignore_index")
    if not isinstance(value, int):
        return None
    index = value - (1 << 64) if value >= 1 << 63 else value  # torch shows it as an unsigned number
    return None if index == IGNORED else index
