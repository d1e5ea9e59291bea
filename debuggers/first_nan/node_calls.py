"""Maps autograd nodes to the operators of the forward pass that made them."""

from typing import Any

from debuggers.first_nan.events import OperatorCall
from debuggers.first_nan.module_calls import ModuleCalls
from debuggers.first_nan.operator_kinds import OperatorKind
from debuggers.first_nan.source_lines import Place
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import current_node, next_node_number, node_number


class NodeCalls:
    """The operator calls, by the numbers that autograd gives its nodes in the order of their creation.

    An operator's node is created right before the operator runs, with two exceptions. A custom function's node is
    created before its forward, which runs without gradients; its call has no operator name. An in-place change adds
    nodes to the graph afterwards.
    """

    def __init__(self, calls: ModuleCalls) -> None:
        self._calls = calls
        self._by_number: dict[int, OperatorCall] = {}
        self._next = next_node_number()
        self._changed_in_place: OperatorCall | None = None

    def note(self, kind: OperatorKind, place: Place | None) -> None:
        """Notes that an operator is about to run, called from ``place``."""
        number = next_node_number()
        has_gradients = torch.is_grad_enabled()
        if number > self._next:
            call = self._call(kind.name if has_gradients else "", place)
            self._by_number[number - 1] = call
            self._claim(number - 1, self._changed_in_place or self._call("", place))
            self._next = number
        self._changed_in_place = self._call(kind.name, place) if has_gradients and kind.written else None

    def module_ends(self) -> None:
        """Notes that the innermost running module is about to end, and attributes the remaining nodes to it."""
        number = next_node_number()
        if number > self._next:
            self._claim(number, self._changed_in_place or self._call("", None))
        self._changed_in_place = None

    def differentiated(self) -> tuple[Any, OperatorCall | None]:
        """Returns the node whose backward runs, or None, and the call that created it, if known."""
        node = current_node()
        return node, None if node is None else self._by_number.get(node_number(node))

    def _claim(self, number: int, call: OperatorCall) -> None:
        self._by_number.update((made, call) for made in range(self._next, number))
        self._next = number

    def _call(self, operator: str, place: Place | None) -> OperatorCall:
        running = self._calls.running
        return OperatorCall(operator, running[-1] if running else None, place)
