"""W&B's ``plot``: each line becomes a curve; other charts become the table that they are drawn from."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError

from stepscope.compat.errors import missing
from stepscope.compat.wandb.data_types import DataType, Histogram, Table


class Lines(DataType):
    """Lines by their names; the only one has the name under which it is logged."""

    def __init__(self, lines: Mapping[str, tuple[Any, Any]], title: str, x_label: str, y_label: str) -> None:
        """Copies the points, ``x`` and ``y`` of each line."""
        self._lines = {name: (np.array(x), np.array(y)) for name, (x, y) in lines.items()}
        self._about = {"title": title, "x_label": x_label, "y_label": y_label}

    def put(self, emitter: Emitter, name: str, step: int) -> None:
        """Emits a curve for each line."""
        for line, (x, y) in self._lines.items():
            emitter.curve(f"{name}/{line}" if len(self._lines) > 1 else name, x, y, step=step, **self._about)


def line(table: Table, x: str, y: str, stroke: str | None = None, title: str = "", split_table: bool = False) -> Lines:
    """Returns a line through the rows of a table in their order, one for each value of ``stroke``."""
    xs, ys = table.get_column(x), table.get_column(y)
    names = [""] * len(xs) if stroke is None else [str(cell) for cell in table.get_column(stroke)]
    lines: dict[str, tuple[list[Any], list[Any]]] = {}
    for name, left, right in zip(names, xs, ys, strict=True):
        points = lines.setdefault(name, ([], []))
        points[0].append(left)
        points[1].append(right)
    return Lines(lines, title, x, y)


def line_series(
    xs: Iterable[Any],
    ys: Iterable[Iterable[Any]],
    keys: Iterable[str] | None = None,
    title: str = "",
    xname: str = "x",
    split_table: bool = False,
) -> Lines:
    """Returns a line for each of ``ys``; ``xs`` are theirs, or common to all."""
    xs, lists = list(xs), [list(one) for one in ys]
    common = not (xs and isinstance(xs[0], Iterable))
    names = [str(key) for key in keys] if keys is not None else [f"line_{index}" for index in range(len(lists))]
    if len(names) != len(lists) or (not common and len(xs) != len(lists)):
        raise ArtifactError(f"line_series got {len(lists)} lines, and {len(xs)} xs and {len(names)} keys for them")
    lines = {name: (xs if common else list(xs[index]), lists[index]) for index, name in enumerate(names)}
    return Lines(lines, title, xname, "y")


def scatter(table: Table, x: str, y: str, title: str = "", split_table: bool = False) -> Table:
    """Returns two columns of a table: its points are not joined."""
    return Table(columns=[x, y], data=list(zip(table.get_column(x), table.get_column(y), strict=True)))


def bar(table: Table, label: str, value: str, title: str = "", split_table: bool = False) -> Table:
    """Returns two columns of a table."""
    return scatter(table, label, value)


def histogram(table: Table, value: str, title: str = "", split_table: bool = False) -> Histogram:
    """Returns the distribution of a column."""
    return Histogram(table.get_column(value))


def roc_curve(
    y_true: Sequence[Any],
    y_probas: Sequence[Sequence[float]] | None = None,
    labels: Sequence[str] | None = None,
    classes_to_plot: Sequence[Any] | None = None,
    title: str = "ROC Curve",
    split_table: bool = False,
) -> Lines:
    """Returns for each class true positives over false positives, at each of its probabilities.

    Args:
        y_true: The class of each sample.
        y_probas: Its probabilities, (samples, classes), in the order of the sorted classes.
        labels: The names of the classes.
        classes_to_plot: All by default.
        title: The title.
        split_table: Without effect.
    """
    lines = _by_class(y_true, y_probas, labels, classes_to_plot, _rates)
    return Lines(lines, title, "false positive rate", "true positive rate")


def pr_curve(
    y_true: Sequence[Any] | None = None,
    y_probas: Sequence[Sequence[float]] | None = None,
    labels: Sequence[str] | None = None,
    classes_to_plot: Sequence[Any] | None = None,
    interp_size: int = 21,
    title: str = "Precision-Recall Curve",
    split_table: bool = False,
) -> Lines:
    """Returns for each class precision over recall; see ``roc_curve``. Nothing is interpolated."""
    lines = _by_class(y_true, y_probas, labels, classes_to_plot, _recall_and_precision)
    return Lines(lines, title, "recall", "precision")


def confusion_matrix(
    probs: Sequence[Sequence[float]] | None = None,
    y_true: Sequence[Any] | None = None,
    preds: Sequence[Any] | None = None,
    class_names: Sequence[str] | None = None,
    title: str = "Confusion Matrix Curve",
    split_table: bool = False,
) -> Table:
    """Returns how often each class was predicted for each, of ``probs`` the likeliest: all pairs, in rows."""
    if (probs is None) == (preds is None) or y_true is None:
        raise ArtifactError("confusion_matrix expects y_true, and either probs or preds")
    found = np.argmax(np.asarray(probs), axis=1).tolist() if preds is None else [_plain(one) for one in preds]
    true = [_plain(one) for one in y_true]
    if len(found) != len(true):
        raise ArtifactError(f"confusion_matrix got {len(found)} predictions; expected {len(true)}, as y_true has")
    classes = list(range(len(class_names))) if class_names is not None else sorted({*found, *true})
    names = list(class_names) if class_names is not None else [f"Class_{place + 1}" for place in range(len(classes))]
    pairs = list(zip(true, found, strict=True))
    rows = [
        [names[i], names[j], pairs.count((classes[i], classes[j]))]
        for i in range(len(classes))
        for j in range(len(classes))
    ]
    return Table(columns=["Actual", "Predicted", "nPredictions"], data=rows)


def _plain(value: Any) -> Any:
    return value.item() if hasattr(value, "item") else value


def _by_class(
    y_true: Any,
    y_probas: Any,
    labels: Sequence[str] | None,
    wanted: Sequence[Any] | None,
    points: Callable[[npt.NDArray[Any], npt.NDArray[Any]], tuple[Any, Any]],
) -> dict[str, tuple[Any, Any]]:
    true, probabilities = np.asarray(y_true), np.asarray(y_probas, np.float64)
    classes = np.unique(true)
    if true.ndim != 1 or probabilities.shape != (len(true), len(classes)):
        raise ArtifactError(
            f"got y_true of shape {true.shape} with {len(classes)} classes, and y_probas of shape "
            f"{probabilities.shape}; expected (samples,) and (samples, classes)"
        )
    if len(classes) < 2:
        raise ArtifactError(f"y_true holds {len(classes)} classes; expected at least two")
    lines: dict[str, tuple[Any, Any]] = {}
    for place, one in enumerate(classes.tolist()):
        if wanted is None or one in wanted:
            name = str(labels[one] if labels is not None and isinstance(one, int) else one)
            lines[name] = points(true == classes[place], probabilities[:, place])
    return lines


def _counts(is_one: npt.NDArray[Any], score: npt.NDArray[Any]) -> tuple[Any, Any]:
    """True and false positives at each distinct score, the highest first."""
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order])), len(score) - 1)
    positives = np.cumsum(is_one[order])[ends]
    return positives, 1 + ends - positives


def _rates(is_one: npt.NDArray[Any], score: npt.NDArray[Any]) -> tuple[Any, Any]:
    true, false = _counts(is_one, score)
    return np.append(0, false / false[-1]), np.append(0, true / true[-1])


def _recall_and_precision(is_one: npt.NDArray[Any], score: npt.NDArray[Any]) -> tuple[Any, Any]:
    true, false = _counts(is_one, score)
    return np.append(0, true / true[-1]), np.append(1, true / (true + false))


_CALLS = ("bar", "confusion_matrix", "histogram", "line", "line_series", "pr_curve", "roc_curve", "scatter")


def __getattr__(name: str) -> Any:
    raise missing(__name__, name, _CALLS)
