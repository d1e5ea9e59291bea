"""The folders of one run of ours below ``wandb/``: which ones count, and which were replaced."""

import hashlib
import json
import re
import shutil
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Self

from tracker_adapters.safe_files import read_file, write_file
from tracker_adapters.sinks.wandb.keys import LONGEST_RUN_ID

_FOLDER = re.compile(r"(?:offline-)?run-(\d{8}_\d{6})-(.+)")
_OWNER = "stepscope.json"
_SUPERSEDED = "SUPERSEDED.txt"


@dataclass(frozen=True, slots=True)
class RunFolder:
    """The folder of one ``.wandb`` file: a W&B run, or what came after its file was uploaded."""

    path: Path
    run_id: str

    @classmethod
    def of(cls, log: Path) -> Self | None:
        """Returns the folder around a file ``run-<id>.wandb``; None when it does not look like W&B's."""
        run_id = log.name.removeprefix("run-").removesuffix(".wandb")
        found = _FOLDER.fullmatch(log.parent.name)
        if found is None or not found[2].startswith(run_id):
            return None
        return cls(log.parent, run_id)

    @classmethod
    def make(cls, target: Path, run_id: str, owner: str, start_ns: int) -> Self:
        """Makes a new folder below ``target/wandb``, named as W&B names it.

        Args:
            target: The sink's target.
            run_id: The id of the W&B run.
            owner: The id of our run.
            start_ns: The time for the name, in nanoseconds since 1970. A name that is taken gets a number behind it.
        """
        name = f"offline-run-{datetime.fromtimestamp(start_ns // 10**9):%Y%m%d_%H%M%S}-{run_id}"
        path, number = target / "wandb" / name, 0
        while True:
            try:
                path.mkdir(parents=True)
                break
            except FileExistsError:
                number += 1
                path = path.with_name(f"{name}-{number}")
        folder = cls(path, run_id)
        try:
            folder.note(owner, {})
        except OSError:
            shutil.rmtree(path, ignore_errors=True)
            raise
        return folder

    @property
    def log(self) -> Path:
        """The ``.wandb`` file."""
        return self.path / f"run-{self.run_id}.wandb"

    @property
    def superseded(self) -> bool:
        """Whether another W&B run shows everything that this one should have shown."""
        return (self.path / _SUPERSEDED).exists()

    @property
    def uploaded(self) -> bool:
        """Whether ``wandb sync`` has uploaded the file, and nothing was written since.

        Its mark makes it skip the file (wandb/cli/beta_sync.py, 0.31), also when the run went on after the upload.
        """
        try:
            return self._synced.stat().st_mtime_ns >= self.log.stat().st_mtime_ns
        except FileNotFoundError:
            return False

    @property
    def _synced(self) -> Path:
        return self.path / f"run-{self.run_id}.wandb.synced"

    def note(self, owner: str, ending: dict[str, Any]) -> None:
        """Notes whose folder it is, and how it was closed."""
        write_file(self.path, _OWNER, json.dumps({"owner": owner, **ending}).encode())

    def noted(self) -> dict[str, Any]:
        """Returns what ``note`` noted; empty for a folder that is not ours."""
        with suppress(OSError, ValueError, RecursionError):
            noted = json.loads(read_file(self.path, _OWNER))
            if isinstance(noted, dict):
                return noted
        return {}

    def supersede(self, by: str) -> None:
        """Marks the folder as replaced by another W&B run; ``wandb sync`` then skips it."""
        text = f"This run was cut short. The run {by} shows all of it: do not upload this one.\n"
        write_file(self.path, _SUPERSEDED, text.encode())
        write_file(self.path, self._synced.name, b"")


def base_id(run_id: str) -> str:
    """Returns our run's id as W&B takes it; ids that differ stay different."""
    plain = re.sub(r"[^A-Za-z0-9_-]", "_", run_id)
    if plain == run_id and len(plain) <= LONGEST_RUN_ID:
        return plain
    return f"{plain[: LONGEST_RUN_ID - 9]}-{hashlib.sha256(run_id.encode()).hexdigest()[:8]}"


def find(target: Path, base: str) -> list[RunFolder]:
    """Returns the folders of all W&B runs whose id is made from ``base``, whoever made them, in no order.

    Such ids are ``base``, then ``base.2``, ``base.3`` for each start from the beginning, and with ``-a2`` behind
    for an attempt that went back.
    """
    logs = sorted((target / "wandb").glob("*run-*/run-*.wandb"))
    found = [folder for log in logs if (folder := RunFolder.of(log)) and _numbers(folder.run_id, base)]
    return [folder for folder in found if not (folder.path.is_symlink() or folder.log.is_symlink())]


def first_id(base: str, earlier: list[RunFolder]) -> str:
    """Returns the id for a start from the beginning, which none of the ``earlier`` folders has."""
    numbers = [found[0] for folder in earlier if (found := _numbers(folder.run_id, base))]
    return f"{base}.{max(numbers) + 1}" if numbers else base


def attempt_id(base: str, run_id: str, attempt: int) -> str:
    """Returns the id for an attempt that goes back, after the run ``run_id``, whose id is made from ``base``.

    ``base`` stays whole: a random one may end as an attempt does.
    """
    start = run_id[: len(base)] + re.sub(r"-a\d+$", "", run_id[len(base) :])
    return f"{start}-a{attempt}"


def _numbers(run_id: str, base: str) -> tuple[int, int] | None:
    found = re.fullmatch(rf"{re.escape(base)}(?:\.(\d+))?(?:-a(\d+))?", run_id)
    return (int(found[1] or 1), int(found[2] or 1)) if found else None
