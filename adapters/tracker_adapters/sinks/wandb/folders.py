"""The offline folders of one run of ours: which ones count, in which order, and which were cut short."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from tracker_adapters.sinks.wandb.keys import LONGEST_RUN_ID

_FOLDER = re.compile(r"(?:offline-)?run-(\d{8}_\d{6})-(.+)")
_ATTEMPT = re.compile(r"-a\d+$")
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


def base_id(run_id: str) -> str:
    """Returns our run's id as W&B takes it; ids that differ stay different."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", run_id)
    if plain == run_id and len(plain) <= LONGEST_RUN_ID:
        return plain
    return f"{plain[: LONGEST_RUN_ID - 9]}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def find(target: Path, base: str) -> list[RunFolder]:
    """Returns the folders of all W&B runs of one run of ours, in order.

    Their ids are ``base``, then ``base.2``, ``base.3`` for each start from the beginning, and with ``-a2``
    behind for an attempt that went back.
    """
    logs = (target / "wandb").glob("*run-*/run-*.wandb")
    found = [folder for log in logs if (folder := RunFolder.of(log)) and _numbers(folder.run_id, base)]
    return sorted(found, key=lambda folder: (_numbers(folder.run_id, base), folder.order))


def first_id(base: str, earlier: list[RunFolder]) -> str:
    """Returns the id for a start from the beginning."""
    numbers = [found[0] for folder in earlier if (found := _numbers(folder.run_id, base))]
    return f"{base}.{max(numbers) + 1}" if numbers else base


def attempt_id(run_id: str, attempt: int) -> str:
    """Returns the id for an attempt that goes back, after the run ``run_id``."""
    return f"{_ATTEMPT.sub('', run_id)}-a{attempt}"


def _numbers(run_id: str, base: str) -> tuple[int, int] | None:
    found = re.fullmatch(rf"{re.escape(base)}(?:\.(\d+))?(?:-a(\d+))?", run_id)
    return (int(found[1] or 1), int(found[2] or 1)) if found else None
