"""Checks every operator of a forward and a backward pass, and tracks non-finite values from their origin."""

import sys
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from debuggers.first_nan.events import Direction, NonFiniteEvent, OperatorCall, Origin, non_finite_rows, sample
from debuggers.first_nan.module_calls import ModuleCall, ModuleCalls
from debuggers.first_nan.node_calls import NodeCalls
from debuggers.first_nan.operands import (
    Operand,
    arguments_by_role,
    describe,
    describe_number,
    holds_non_finite,
    plain,
    tensors_in,
)
from debuggers.first_nan.operator_kinds import OperatorKind, kind_of
from debuggers.first_nan.replay_memory import StorageRecords, UntouchedMemory, UnwrittenMemory
from debuggers.first_nan.source_lines import Place, user_place
from debuggers.first_nan.value_flow import (
    Argument,
    OperatorRun,
    combined_kinds,
    different,
    fills_its_memory,
    is_meant,
    is_written,
)
from debuggers.instrumentation.quiet_computation import outside_modes
from debuggers.torch_import import torch
from debuggers.torch_internals.dispatch import OperatorMode

MAX_EVENTS = 500
"""Later events of a replay are not described."""
_MAX_SAMPLES = 8
_LAST_FEW = 5
_UNWRITTEN = "uninitialised memory, as of torch.empty"

Named = tuple[Origin, str]
"""The origin and name of a tensor from outside of the replay."""


class OperatorTrace(OperatorMode):  # type: ignore[no-untyped-call]
    """Checks the operators that run while it is entered, in order.

    An operator causes a non-finite event if its output is not finite although its inputs are. So does one that turns
    intended infinities into NaN, such as a softmax over a row that a mask filled with -inf. All other operators
    propagate: each non-finite tensor carries the events that it originates from, through views and in-place changes,
    until it is overwritten or the values are masked out.

    An operator in a backward pass is attributed to the operator of the forward pass that it differentiates, by the
    number of the autograd node.

    Attributes:
        events: All events, in order.
        batch: The number of datapoints, if known.
        caller: The line that called the model: the place of operators that no user code calls.
    """

    def __init__(self, calls: ModuleCalls, untouched: UntouchedMemory) -> None:
        super().__init__()
        self.events: list[NonFiniteEvent] = []
        self.batch: int | None = None
        self.caller: Place | None = None
        self._calls = calls
        self._untouched = untouched
        self._carried: StorageRecords[frozenset[int]] = StorageRecords()
        self._names: StorageRecords[Named] = StorageRecords()
        self._nodes = NodeCalls(calls)
        self._unwritten = UnwrittenMemory()
        self._looks: deque[tuple[OperatorRun, tuple[ModuleCall, ...]]] = deque(maxlen=_LAST_FEW)
        self._operators = 0

    def name(self, tensor: torch.Tensor, origin: Origin, name: str) -> None:
        """Names a tensor from outside of the replay."""
        if plain(tensor) is tensor and tensor not in self._names:
            self._names.put(tensor, (origin, name))

    def events_in(self, tensors: Iterable[torch.Tensor]) -> set[int]:
        """Returns the indices of the events that values in these tensors originate from."""
        found: set[int] = set()
        with outside_modes():
            for tensor in map(plain, tensors):
                if tensor is not None and holds_non_finite(tensor):
                    found |= self._carried.get(tensor) or frozenset()
        return found

    def events_read(self) -> set[int]:
        """Returns the events whose values the last operators read, which may have caused an exception.

        An operator reads its inputs if it returns anything but floating-point tensors, such as a comparison, a number
        or the status of a factorisation, or if it raised.
        """
        found: set[int] = set()
        with outside_modes(), torch.no_grad():
            for run, running in self._looks:
                for tensor in run.values():
                    if holds_non_finite(tensor):
                        found |= self._carried_in(tensor, run, running)
        return found

    def module_ends(self) -> None:
        """Notes that a module's forward is about to end."""
        self._nodes.module_ends()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called by torch for each operator, below autograd and autocast."""
        keywords = dict(kwargs or {})
        kind = kind_of(func)
        self._operators += 1
        place = user_place(sys._getframe(1))
        self._nodes.note(kind, place)
        if kind.is_view:
            return func(*args, **keywords)
        arguments = arguments_by_role(kind.roles, args, keywords)
        with torch.no_grad():
            before = self._before_writing(kind, arguments)
        earlier = [(role, before.get(role, value)) for role, value in arguments]
        run = OperatorRun(kind, earlier, [], place)
        self._looks.append((run, tuple(self._calls.running)))
        if keywords.get("generator") is not None:
            self._untouched.keep_generator(keywords["generator"])
        result = func(*args, **keywords)
        with torch.no_grad():
            results = list(dict.fromkeys(tensors_in(result)))
            if results and all(tensor.is_floating_point() or tensor.is_complex() for tensor in results):
                self._looks.pop()
            for tensor in results:
                self._untouched.made(tensor)
                if kind.allocates and plain(tensor) is tensor:
                    self.name(tensor, "elsewhere", _UNWRITTEN)
                    self._unwritten.allocated(tensor)
            written = [value for role, value in arguments if isinstance(value, torch.Tensor) and is_written(kind, role)]
            if not kind.allocates:
                self._check(run, [*results, *different(written, results)])
        return result

    def _before_writing(self, kind: OperatorKind, arguments: Sequence[Argument]) -> dict[str, torch.Tensor]:
        copies = {}
        for role, tensor in arguments:
            if isinstance(tensor, torch.Tensor) and is_written(kind, role):
                self._untouched.keep(tensor)
                if plain(tensor) is tensor:
                    copies[role] = tensor.clone()
                    if (carried := self._carried.get(tensor)) is not None:
                        self._carried.put(copies[role], carried)
                    self._copy_name([tensor], [copies[role]])
                    self._forget_unwritten(kind, tensor)
        return copies

    def _forget_unwritten(self, kind: OperatorKind, tensor: torch.Tensor) -> None:
        if kind.overwrites and tensor in self._unwritten:
            self._unwritten.wrote(tensor)
            if tensor not in self._unwritten and self._names.get(tensor) == ("elsewhere", _UNWRITTEN):
                self._names.forget(tensor)

    def _check(self, run: OperatorRun, results: Sequence[torch.Tensor]) -> None:
        values = [tensor for tensor in map(plain, results) if tensor is not None]
        run.outputs.extend(tensor for tensor in values if holds_non_finite(tensor))
        for tensor in different(values, run.outputs):
            if fills_its_memory(tensor):
                self._carried.forget(tensor)
        if run.kind.copies:
            self._copy_name(run.values()[:1], values)
        if run.outputs:
            events = self._explain(run)
            self._note_rows(run, events)
            for tensor in run.outputs:
                self._carried.put(tensor, events)

    def _note_rows(self, run: OperatorRun, events: frozenset[int]) -> None:
        for event in events if run.kind.keeps_rows else ():
            if self.events[event].rows is None:
                self.events[event].rows = non_finite_rows(run.outputs, self.batch)

    def _copy_name(self, sources: Sequence[torch.Tensor], copies: Sequence[torch.Tensor]) -> None:
        for source in sources:
            if (named := self._names.get(source)) is not None:
                for tensor in copies:
                    self._names.put(tensor, named)

    def _explain(self, run: OperatorRun) -> frozenset[int]:
        """Returns the events that non-finite outputs originate from, including new ones."""
        own: Origin = "placed" if run.kind.places else "operator"
        faulty = [tensor for tensor in run.values() if holds_non_finite(tensor) and run.reached_by(tensor)]
        if not faulty:
            return self._add(run, own)
        passed = frozenset[int]().union(*(self._carried_in(tensor, run) for tensor in faulty))
        came, made = combined_kinds(faulty), combined_kinds(run.outputs)
        only_meant = all(self.events[event].is_meant for event in passed)
        absorbed = run.kind.absorbs and not came.positive_inf
        if run.kind.absorbs and came.positive_inf:
            passed = self._beside_minus_infinity(passed)
        if made.nan and not came.nan and (only_meant or absorbed):
            return self._add(run, "operator")
        return passed | self._add(run, own) if only_meant and run.makes_some() else passed

    def _beside_minus_infinity(self, events: frozenset[int]) -> frozenset[int]:
        """Returns the events with more than -inf, if any: the operator absorbs -inf, so they are the cause."""
        others = {
            event for event in events if any(output.nan or output.positive_inf for output in self.events[event].outputs)
        }
        return frozenset(others) or events

    def _carried_in(
        self, tensor: torch.Tensor, run: OperatorRun, running: Sequence[ModuleCall] | None = None
    ) -> frozenset[int]:
        carried = self._carried.get(tensor)
        if carried is not None:
            return carried
        origin, name = self._names.get(tensor) or ("elsewhere", "a tensor from outside of the replay")
        if is_meant(tensor, origin, run.kind):
            origin = "placed"
        events = self._add(run, origin, name, running)
        self._carried.put(tensor, events)
        return events

    def _add(
        self, run: OperatorRun, origin: Origin, source: str = "", running: Sequence[ModuleCall] | None = None
    ) -> frozenset[int]:
        if len(self.events) >= MAX_EVENTS:
            return frozenset([MAX_EVENTS - 1])
        running = self._calls.running if running is None else running
        direction: Direction = "forward"
        call = OperatorCall(run.kind.name, running[-1] if running else None, run.place or self.caller)
        node, differentiated = self._nodes.differentiated()
        if node is not None and not self._calls.compute_a_forward():
            direction = "backward"
            if differentiated is not None:
                own_code = run.place is not None or not differentiated.operator
                place = run.place or differentiated.place or self.caller
                call = replace(call if own_code else differentiated, module=differentiated.module, place=place)
        results = [
            ("output" if len(run.outputs) == 1 else f"output {index}", tensor)
            for index, tensor in enumerate(run.outputs)
        ]
        values = run.values()
        rows = non_finite_rows([*(run.outputs if run.is_row_by_row(self.batch) else ()), *values], self.batch)
        inputs = [(role, value) for role, value in run.arguments if isinstance(value, torch.Tensor)]
        tensors = [*inputs[:_MAX_SAMPLES], *results[:_MAX_SAMPLES]]
        self.events.append(
            NonFiniteEvent(
                call=call,
                kernel=run.kind.name,
                direction=direction,
                node=None if direction == "forward" else node.name(),
                origin=origin,
                source=source,
                inputs=tuple(self._operand(role, value) for role, value in run.arguments),
                outputs=tuple(describe(role, "", tensor) for role, tensor in results),
                samples={role: sample(tensor, rows) for role, tensor in tensors if tensor.layout == torch.strided},
                rows=rows,
                running=tuple(running) if direction == "forward" else (),
                number=self._operators,
            )
        )
        return frozenset([len(self.events) - 1])

    def _operand(self, role: str, value: torch.Tensor | float) -> Operand:
        if not isinstance(value, torch.Tensor):
            return describe_number(role, value)
        values = plain(value)
        named = None if values is None else self._names.get(values)
        return describe(role, "" if named is None else named[1], value if values is None else values)
