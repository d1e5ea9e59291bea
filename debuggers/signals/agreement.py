"""How outputs agree with targets: accuracy, the class that is predicted most, correlation."""

from dataclasses import dataclass

from debuggers.signals.batch_statistics import IGNORED, Statistics, sampled_positions
from debuggers.torch_import import torch

MOST_VALUES = 1 << 16
PROBABILITIES = frozenset({"bce"})
"""Kinds of losses whose outputs are probabilities: a sign says nothing there."""


@dataclass(frozen=True, slots=True, eq=False)
class Aligned:
    """Outputs beside the targets of the same positions.

    Attributes:
        outputs: (n, classes), or (n, columns) of values.
        targets: (n,) integers for classes, or (n, columns) of values.
    """

    outputs: torch.Tensor
    targets: torch.Tensor

    @property
    def by_class(self) -> bool:
        """Whether targets are class indices."""
        return self.targets.ndim == 1


def align(outputs: torch.Tensor, targets: torch.Tensor, *, soft: bool) -> Aligned | None:
    """Puts outputs and targets beside each other; None where their shapes do not fit.

    Args:
        outputs: Floating-point values.
        targets: Class indices without the outputs' dimension of classes, or as many values as outputs; -100 among
            indices is ignored.
        soft: Whether values of the outputs' shape are probabilities of classes.
    """
    if outputs.device != targets.device or not outputs.ndim:
        return None
    if not targets.is_floating_point() and outputs.numel() != targets.numel():
        classes_at = _classes_at(outputs, targets)
        if classes_at is None:
            return None
        rows = sampled_positions(outputs, classes_at)
        # The same positions of the targets, as if they had one class.
        shaped = targets.reshape(*outputs.shape[:classes_at], 1, *outputs.shape[classes_at + 1 :])
        kept = sampled_positions(shaped, classes_at, _most(outputs.shape[classes_at]))
        return Aligned(rows, kept.reshape(-1))
    if outputs.numel() != targets.numel():
        return None
    if soft and targets.is_floating_point() and outputs.ndim > 1:
        classes_at = 1
        rows, goals = sampled_positions(outputs, classes_at), sampled_positions(targets.reshape(outputs.shape), 1)
        return Aligned(rows, goals.argmax(1))
    length = outputs.shape[0]
    stride = -(-outputs.numel() // MOST_VALUES)
    rows = outputs.reshape(length, -1)[::stride]
    return Aligned(rows, targets.reshape(length, -1)[::stride])


def agreement(aligned: Aligned, loss_kind: str) -> Statistics:
    """Returns the signals of ``debuggers.diagnosis.signals`` that compare outputs with targets.

    NaN where any output is NaN or infinite.
    """
    finite = torch.isfinite(aligned.outputs.sum(dtype=torch.float64))
    return {name: torch.where(finite, value, torch.nan) for name, value in _agreement(aligned, loss_kind).items()}


def _agreement(aligned: Aligned, loss_kind: str) -> dict[str, torch.Tensor]:
    if aligned.by_class:
        return _of_classes(aligned.outputs.argmax(1), aligned.targets) | _of_two(aligned.outputs, aligned.targets)
    outputs, targets = aligned.outputs.double(), aligned.targets.double()
    binary = ((targets == 0) | (targets == 1)).all()
    between = ((outputs >= 0) & (outputs <= 1)).all()
    # A probability is compared with 1/2, and what is none by its sign.
    limit = torch.where(between, 0.5, 0.0).double() if loss_kind not in PROBABILITIES else 0.5
    chosen = outputs > limit
    right = (chosen == (targets > 0.5)).double().mean()
    ones = chosen.double().mean()
    minority = (targets > 0.5) != (targets.mean() > 0.5)
    found_of_them = ((chosen == (targets > 0.5)) & minority).sum() / minority.sum()
    found = {
        "accuracy": torch.where(binary, right, torch.nan),
        "top_predicted_share": torch.where(binary, torch.maximum(ones, 1 - ones), torch.nan),
        "minority_accuracy": torch.where(binary, found_of_them, torch.nan),
    }
    if len(outputs) > 1:
        related = _correlation(outputs, targets)
        found["correlation"] = torch.where(binary, torch.nan, related)
        found["binary_correlation"] = torch.where(binary, related, torch.nan)
        found["r2"] = torch.where(binary, torch.nan, _explained(outputs, targets))
    return found


def mean_entropy(logits: torch.Tensor) -> torch.Tensor:
    """Returns the mean entropy in nats of the probabilities that logits (n, classes) stand for."""
    logarithms = logits.double().log_softmax(1)
    return -(logarithms.exp() * logarithms).sum(1).mean()


def _of_classes(predicted: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    counts = targets != IGNORED
    right = ((predicted == targets) & counts).sum()
    runs, answers = _frequencies(torch.where(counts, predicted, IGNORED))
    runs = torch.where(answers != IGNORED, runs, 0)
    known, classes = _frequencies(targets)
    others = counts & (targets != classes[torch.where(classes != IGNORED, known, 0).argmax()])
    found_of_them = ((predicted == targets) & others).sum() / others.sum()
    return {
        "accuracy": right / counts.sum(),
        "top_predicted_share": runs.amax() / counts.sum(),
        "minority_accuracy": found_of_them,
    }


def _of_two(outputs: torch.Tensor, targets: torch.Tensor) -> dict[str, torch.Tensor]:
    """The correlation of one of two classes with what its output exceeds the other one's by."""
    if outputs.shape[1] != 2 or len(outputs) < 2:
        return {}
    related = _correlation((outputs[:, 1:] - outputs[:, :1]).double(), targets[:, None].double())
    return {"binary_correlation": torch.where((targets == IGNORED).any(), torch.nan, related)}


def _frequencies(classes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """How often each of some class indices is among them, and they, in order."""
    ordered = classes.sort().values
    return torch.searchsorted(ordered, ordered, right=True) - torch.searchsorted(ordered, ordered), ordered


def _correlation(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """Pearson's, over all columns together, each without its mean; NaN where one of the two is constant."""
    outputs, targets = outputs - outputs.mean(0), targets - targets.mean(0)
    spread = outputs.square().sum().sqrt() * targets.square().sum().sqrt()
    return torch.where(spread > 0, (outputs * targets).sum() / spread, torch.nan)


def _explained(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    """The coefficient of determination, over all columns together; NaN where the targets are constant."""
    spread = (targets - targets.mean(0)).square().sum()
    return torch.where(spread > 0, 1 - (outputs - targets).square().sum() / spread, torch.nan)


def _classes_at(outputs: torch.Tensor, targets: torch.Tensor) -> int | None:
    """The dimension of classes, which the targets lack."""
    shape = tuple(outputs.shape)
    if outputs.ndim > 1:
        if shape[:1] + shape[2:] == tuple(targets.shape):
            return 1
        if targets.numel() * shape[-1] == outputs.numel():
            return outputs.ndim - 1
        if targets.numel() * shape[1] == outputs.numel():
            return 1
    return None


def _most(classes: int) -> int:
    return max(64, (1 << 16) // max(1, classes))
