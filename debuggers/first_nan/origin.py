"""The origin of NaN and infinities: one operator, with its source line, its values and a suggestion."""

from __future__ import annotations

import reprlib
from dataclasses import dataclass, field, replace
from typing import Any

from debuggers.first_nan.events import Direction, NonFiniteEvent, Origin
from debuggers.first_nan.operands import Operand
from debuggers.first_nan.source_lines import SourceLine, source_line
from debuggers.first_nan.suggestions import suggestion_for
from debuggers.torch_import import torch

THE_LOSS = "the loss"
UNKNOWN_PLACE = "the model or the loss"
_ROWS_IN_TEXT = 10
_OPERANDS_IN_TEXT = 8


@dataclass(frozen=True, slots=True)
class NonFiniteOrigin:
    """The operator that produced the first non-finite values that reached the loss or a gradient.

    Attributes:
        module: The dotted path of the innermost module that called the operator; the model's class for the model
            itself, ``the loss`` for code outside of the model, and ``the model or the loss`` if nothing could be
            repeated.
        module_type: The class of the module; empty outside of the model.
        call: The number of the module's call in this step, from 1.
        calls: How often the module was called.
        operator: Such as ``aten::log``. In a backward pass, the operator of the forward pass whose gradient is not
            finite; empty if only the module is known.
        direction: The pass that produced the values.
        node: In a backward pass, the autograd node, such as ``SqrtBackward0``.
        kernel: The operator that ran; in a forward pass the same as ``operator``.
        source: The line of user code that called it; None if none did.
        origin: What produced the values; see ``Origin``.
        held_by: The parameter, buffer or argument that held them before, if no operator produced them.
        inputs: The inputs of the kernel.
        outputs: The non-finite outputs of the kernel.
        rows: The rows of the batch that trigger it; None if they cannot be determined.
        datapoints: The indices of these datapoints, if they were given.
        suggestion: What to do.
        notes: Further notes, such as how the replay differed from the step.
        samples: Truncated copies of inputs and outputs on the host, by role.
    """

    module: str
    module_type: str = ""
    call: int = 1
    calls: int = 1
    operator: str = ""
    direction: Direction = "forward"
    node: str | None = None
    kernel: str = ""
    source: SourceLine | None = None
    origin: Origin = "operator"
    held_by: str = ""
    inputs: tuple[Operand, ...] = ()
    outputs: tuple[Operand, ...] = ()
    rows: tuple[int, ...] | None = None
    datapoints: tuple[int, ...] | None = None
    suggestion: str = ""
    notes: tuple[str, ...] = ()
    samples: dict[str, torch.Tensor] = field(default_factory=dict, repr=False, compare=False)

    @classmethod
    def of(cls, event: NonFiniteEvent, model: torch.nn.Module, calls: int) -> NonFiniteOrigin:
        """Returns the origin of an event.

        Args:
            event: The event.
            model: The model, whose class replaces the empty path.
            calls: How often the module was called.
        """
        module = event.call.module
        return cls(
            module=THE_LOSS if module is None else module.name or type(model).__name__,
            module_type="" if module is None else module.type_name,
            call=1 if module is None else module.number,
            calls=max(1, calls),
            operator=event.call.operator,
            direction=event.direction,
            node=event.node,
            kernel=event.kernel,
            source=source_line(event.call.place),
            origin=event.origin,
            held_by=event.source,
            inputs=event.inputs,
            outputs=event.outputs,
            rows=event.rows,
            suggestion=suggestion_for(event),
            samples=event.samples,
        )

    def with_datapoints(self, indices: Any) -> NonFiniteOrigin:
        """Returns a copy with the rows' datapoints, ``indices[row]``, or a note if one is no integer."""
        if indices is None or self.rows is None:
            return self
        try:
            return replace(self, datapoints=tuple(int(indices[row]) for row in self.rows))
        except (IndexError, KeyError, TypeError, ValueError) as error:
            note = f"the datapoints are {reprlib.repr(indices)}; expected an integer for each row of the batch: {error}"
            return replace(self, notes=(*self.notes, note))

    @property
    def title(self) -> str:
        """One line: module, operator and direction."""
        call = f", call {self.call} of {self.calls}" if self.calls > 1 else ""
        kind = f" ({self.module_type}{call})" if self.module_type else ""
        if not self.operator:
            return f"{self.module}{kind}"
        node = f" (in {self.node}, {self.kernel})" if self.node else ""
        return f"{self.module}{kind}: {self.operator} in the {self.direction} pass{node}"

    def __str__(self) -> str:
        lines = [self.title]
        if self.source is not None:
            lines.append(f"at {self.source}")
        if self.held_by:
            lines.append(f"already in {self.held_by}")
        for operands, title in ((self.inputs, "input "), (self.outputs, "")):
            lines += [f"{title}{operand}" for operand in operands[:_OPERANDS_IN_TEXT]]
            if len(operands) > _OPERANDS_IN_TEXT:
                lines.append(f"and {len(operands) - _OPERANDS_IN_TEXT} more")
        for what, found in (("rows of the batch", self.rows), ("datapoints", self.datapoints)):
            if found is not None:
                shown = ", ".join(map(str, found[:_ROWS_IN_TEXT]))
                lines.append(f"{what}: {shown}{' ...' if len(found) > _ROWS_IN_TEXT else ''} ({len(found)})")
        if self.suggestion:
            lines.append(self.suggestion)
        return "\n".join([*lines, *self.notes])

    def as_dict(self) -> dict[str, Any]:
        """Returns all fields but the samples as plain values."""
        return {
            "module": self.module,
            "module_type": self.module_type,
            "call": self.call,
            "calls": self.calls,
            "operator": self.operator,
            "direction": self.direction,
            "node": self.node,
            "kernel": self.kernel,
            "source": None if self.source is None else str(self.source),
            "origin": self.origin,
            "held_by": self.held_by,
            "inputs": [operand.as_dict() for operand in self.inputs],
            "outputs": [operand.as_dict() for operand in self.outputs],
            "rows": None if self.rows is None else list(self.rows),
            "datapoints": None if self.datapoints is None else list(self.datapoints),
            "suggestion": self.suggestion,
            "notes": list(self.notes),
        }
