"""One term of a loss, and what is passed on the way to it from the loss."""

from dataclasses import dataclass
from typing import Any, Literal

from debuggers.observed_training.graphs.contrasts import Contrast
from debuggers.observed_training.graphs.margins import Margin

_ROOTS = {"mse": "rmse"}
"""What the root of a loss is called."""
_LOGARITHMS = {"mse": "log_mse", "rmse": "log_mse"}
"""What the logarithm of a loss is called."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Term:
    """One term of a loss, from the loss down to the outputs.

    Attributes:
        kind: As in ``LossFacts``; ``""`` for one that is not known.
        factor: What it is multiplied with, with its sign.
        reduction: ``mean``, ``sum``, or ``""`` where nothing was reduced on the way.
        nodes: The nodes passed, down to the comparison.
        outputs: The node of what is compared with the targets; None if it was not found.
        comparison: The node that compares, multiplies with the targets, picks the targets' class, or is applied to the
            difference of outputs and targets.
        difference_sign: 1 where ``comparison`` saved outputs minus targets, -1 for the opposite, 0 for neither.
        shape: The shape of that difference, else ().
        weighted: Whether single elements are multiplied with weights of their own.
        paired: The shape of what an operator combined with a constant so that each of its elements met each of the
            constant's, else ().
        smoothing, confidence_penalty, levels: As in ``LossFacts``.
        weighs_the_sure, one_sided: As in ``LossFacts``.
        is_drawn: Whether it is log-probabilities that are picked, times such weights, as those of a policy's choices.
        complementary: Whether what it multiplies with is 1 minus the targets.
        margin, contrast: What it is as a loss of margins, or of pairs of two kinds; None for another one.
    """

    kind: str = ""
    factor: float = 1.0
    reduction: str = ""
    nodes: tuple[Any, ...] = ()
    outputs: Any = None
    comparison: Any = None
    difference_sign: int = 0
    shape: tuple[int, ...] = ()
    weighted: bool = False
    paired: tuple[int, ...] = ()
    smoothing: float = 0.0
    confidence_penalty: float = 0.0
    weighs_the_sure: Literal["", "trained", "constant"] = ""
    one_sided: bool = False
    complementary: bool = False
    is_drawn: bool = False
    margin: Margin | None = None
    contrast: Contrast | None = None
    levels: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class Way:
    """What was passed on the way from the loss to a node.

    ``root`` is a square root of a single number, ``logarithm`` one of whatever is compared: its order is the same.
    """

    factor: float = 1.0
    reduction: str = ""
    opaque: bool = False
    root: bool = False
    logarithm: bool = False
    weighted: bool = False
    paired: tuple[int, ...] = ()
    nodes: tuple[Any, ...] = ()

    def ends(self, kind: str, outputs: Any, comparison: Any, *, sign: float = 1.0, **known: Any) -> Term:
        """Returns the term that it leads to."""
        if self.root:
            kind = _ROOTS.get(kind, "")
        if self.logarithm:
            kind = _LOGARITHMS.get(kind, "")
        return Term(
            kind="" if self.opaque else kind,
            factor=self.factor * sign,
            reduction=self.reduction,
            nodes=self.nodes,
            outputs=outputs,
            comparison=comparison,
            weighted=self.weighted,
            paired=self.paired,
            **known,
        )
