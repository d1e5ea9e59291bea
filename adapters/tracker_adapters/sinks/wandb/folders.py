"""The offline folders of one run of ours: which ones count, in which order, and which were cut short."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

_FOLDER = re.compile(r"(?:offline-)?run-(\d{8}_\d{6})-(.+)")
_CLOSED = "stepscope_closed.json"
_SUPERSEDED = "SUPERSEDED.txt"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """One folder that ``wandb.init`` made: a W&B run, or its continuation after a clean end.

    ``order`` sorts the folders of a W&B run by the time of their making.
    """

    path: Path
    run_id: str
    order: tuple[str, int]

    @classmethod
    def of(cls, log: Path) -> Self | None:
        """Returns the folder around a file ``run-<id>.wandb``; None when it does not look like W&B's."""
        run_id = log.name.removeprefix("run-").removesuffix(".wandb")
        found = _FOLDER.fullmatch(log.parent.name)
        if found is None or not found[2].startswith(run_id):
            return None
        number = found[2].removeprefix(run_id).removeprefix("-")
        return cls(log.parent, run_id, (found[1], int(number) if number.isdigit() else 0))

    @property
    def superseded(self) -> bool:
        """Whether another W&B run shows everything that this one should have shown."""
        return (self.path / _SUPERSEDED).exists()

    def closed_at(self) -> dict[str, Any] | None:
        """Returns what ``close`` noted; None when the folder was never closed cleanly."""
        try:
            noted: dict[str, Any] = json.loads((self.path / _CLOSED).read_text())
        except (OSError, ValueError):
            return None
        return noted

    def close(self, note: dict[str, Any]) -> None:
        """Marks the folder as complete, with what is needed to go on from here."""
        (self.path / _CLOSED).write_text(json.dumps(note))

    def supersede(self, by: str) -> None:
        """Marks the folder as replaced by another W&B run; ``wandb sync`` then skips it."""
        (self.path / _SUPERSEDED).write_text(
            f"This run was cut short. The run {by} shows all of it from the beginning: do not upload this one.\n"
        )
        # wandb's own mark of a file that was uploaded (wandb/cli/beta_sync.py, 0.31).
        (self.path / f"run-{self.run_id}.wandb.synced").touch()


def find(target: Path, base: str) -> list[RunFolder]:
    """Returns the folders of the W&B runs ``base``, ``base.2``, ``base.3``, in order."""
    logs = (target / "wandb").glob("*run-*/run-*.wandb")
    mine = re.compile(rf"{re.escape(base)}(?:\.\d+)?")
    found = [folder for log in logs if (folder := RunFolder.of(log)) and mine.fullmatch(folder.run_id)]
    return sorted(found, key=lambda folder: (_number(folder.run_id, base), folder.order))


def next_run_id(base: str, earlier: list[RunFolder]) -> str:
    """Returns ``base`` for the first W&B run of a run, then ``base.2``, ``base.3``."""
    number = max((_number(folder.run_id, base) for folder in earlier), default=0) + 1
    return base if number == 1 else f"{base}.{number}"


def _number(run_id: str, base: str) -> int:
    return int(run_id.removeprefix(base).removeprefix(".") or 1)
