"""What a manager remembers of its steps."""

import csv
import json
import math
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any, overload

from tracker_adapters.atomic_files import write_atomically

from stability.errors import StabilityError
from stability.reporting.files import plain_json
from stability.results.step import AnomalyKind, StabilityResult

HISTORY_LENGTH = 10_000


@dataclass(frozen=True, slots=True)
class StepRecord:
    """A step in the manager's history.

    Attributes:
        step: Its number.
        loss: As it was given.
        gradient_norm: Before clipping.
        clip_coefficient: The smallest factor that was applied to a gradient; 1.0 when all were left as they are.
        non_finite_gradients: How many elements of the gradients were NaN or infinite.
        stability_score: From 0 (broken) to 1 (calm).
        anomalies: Their kinds.
        rss_mb: Resident memory of the process in MB of 2**20 bytes; None unless a debug session tracks it.
        clipped_norm: The gradient norm after clipping; None where nobody measured it.
    """

    step: int
    loss: float
    gradient_norm: float
    clip_coefficient: float
    non_finite_gradients: int
    stability_score: float
    anomalies: tuple[AnomalyKind, ...] = ()
    rss_mb: float | None = None
    clipped_norm: float | None = None


class History(Sequence[StepRecord]):
    """The last 10,000 steps."""

    def __init__(self) -> None:
        self._records: deque[StepRecord] = deque(maxlen=HISTORY_LENGTH)

    def __iter__(self) -> Iterator[StepRecord]:
        return iter(self._records)

    @overload
    def __getitem__(self, index: int) -> StepRecord: ...
    @overload
    def __getitem__(self, index: slice) -> list[StepRecord]: ...
    def __getitem__(self, index: int | slice) -> StepRecord | list[StepRecord]:
        return list(self._records)[index] if isinstance(index, slice) else self._records[index]

    def __len__(self) -> int:
        return len(self._records)

    def add_unfinished(self, step: int, loss: float) -> StepRecord:
        """Takes a step whose backward pass raised a NaN: there is one at least, and no norm."""
        record = StepRecord(step, loss, math.nan, 1.0, 1, 0.0, ("nan_gradient",))
        self._records.append(record)
        return record

    def add(self, result: StabilityResult) -> None:
        """Takes what a step returned."""
        info = result["debug_info"]
        memory = info.get("memory_info")
        self._records.append(
            StepRecord(
                step=result["step"],
                loss=result["loss"],
                gradient_norm=result["clipping_stats"]["total_norm"],
                clip_coefficient=result["clipping_stats"]["clip_coefficient"],
                non_finite_gradients=result["nan_stats"]["nan_count"] + result["nan_stats"]["inf_count"],
                stability_score=result["stability_score"],
                anomalies=tuple(anomaly["kind"] for anomaly in info["anomaly_details"]),
                rss_mb=None if memory is None else memory["cpu_memory"]["rss"],
                clipped_norm=result["clipping_stats"]["clipped_norm"],
            )
        )

    def save(self, path: str | Path) -> Path:
        """Writes the steps to a file: ``.json`` a list of objects, ``.csv`` a table; it appears when it is complete.

        Returns its path.

        In JSON, NaN and infinities are the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``.

        Raises:
            StabilityError: For another suffix.
            OSError: When the folder cannot be made or written to.
        """
        path = Path(path)
        rows = [asdict(record) for record in self._records]
        if path.suffix == ".json":
            text = json.dumps(plain_json([row | {"anomalies": list(row["anomalies"])} for row in rows]), indent=1)
        elif path.suffix == ".csv":
            text = _table(rows)
        else:
            raise StabilityError(f"histories cannot be saved to {path}; expected a name that ends in .json or .csv")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path.parent, path.name, text.encode(), sync="name")
        return path


def _table(rows: list[dict[str, Any]]) -> str:
    text = StringIO()
    writer = csv.DictWriter(text, [field.name for field in fields(StepRecord)], lineterminator="\n")
    writer.writeheader()
    writer.writerows(row | {"anomalies": " ".join(row["anomalies"])} for row in rows)
    return text.getvalue()
