"""run.json: a run's identity and state, replaced atomically."""

from __future__ import annotations

import json
import operator
import secrets
import time
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import RunInfo, RunStatus
from tracker_adapters.atomic_files import write_atomically
from tracker_adapters.errors import NotARunError
from tracker_adapters.safe_files import read_file
from tracker_adapters.store.layout import MANIFEST, SCHEMA_VERSION, STORE
from tracker_adapters.values.base import check_time

FORMAT = "stepscope-run"
MAX_MANIFEST_BYTES = 64 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Manifest:
    """What run.json says.

    ``lost`` counts rank 0's artifacts of all attempts by reason, as of the last close. ``job`` is what the ranks that
    began the run have in common, empty where that is unknown; ``family`` is what a process has in common with those
    that it starts.
    """

    info: RunInfo
    lost: dict[str, int] = field(default_factory=dict)
    ended_ns: int | None = None
    job: str = ""
    family: str = ""

    def with_status(self, status: RunStatus, **changes: Any) -> Manifest:
        """Returns a copy with another status."""
        return replace(self, info=replace(self.info, status=status), **changes)

    def info_of(self, rank: int) -> RunInfo:
        """Returns what a rank is to a tracker: a run of its own, since trackers tell runs apart by their id."""
        if not rank:
            return self.info
        return replace(self.info, id=f"{self.info.id}-rank{rank}", name=f"{self.info.name} (rank {rank})")

    def save(self, run_folder: Path) -> None:
        """Replaces run.json; a reader sees the old or the new one, never a part."""
        write_atomically(run_folder, MANIFEST, self._encoded(), sync="content")

    def save_new(self, run_folder: Path) -> Manifest:
        """Writes run.json unless another rank was first; returns what it says now."""
        try:
            write_atomically(run_folder, MANIFEST, self._encoded(), sync="content", replaces=False)
        except FileExistsError:
            return load_manifest(run_folder)
        return self

    def _encoded(self) -> bytes:
        content = {
            "format": FORMAT,
            "schema_version": SCHEMA_VERSION,
            **asdict(self.info),
            "ended_ns": self.ended_ns,
            "lost": self.lost,
            "job": self.job,
            "family": self.family,
        }
        return json.dumps(content, indent=2, ensure_ascii=False).encode()


def new_run_id() -> str:
    """Returns an identifier that sorts by time: ``20260131-235959-1a2b3c4d``."""
    return f"{time.strftime('%Y%m%d-%H%M%S', time.gmtime())}-{secrets.token_hex(4)}"


def load_manifest(run_folder: Path) -> Manifest:
    """Reads a run's run.json.

    Raises:
        NotARunError: When there is none, or it is another program's or of a newer version.
    """
    path = run_folder / MANIFEST
    try:
        content = json.loads(read_file(run_folder, MANIFEST, max_bytes=MAX_MANIFEST_BYTES))
    except (FileNotFoundError, NotADirectoryError):
        what = "is not a folder" if not run_folder.is_dir() else f"holds no {MANIFEST}"
        raise NotARunError(f"{run_folder} {what}; expected the folder of a stepscope run") from None
    except (OSError, ValueError, RecursionError) as error:
        raise NotARunError(f"cannot read {path}: {error}") from error
    return manifest_of(content, path)


def manifest_of(content: Any, path: object) -> Manifest:
    """Returns the manifest with this content; ``path`` names it in errors, which are those of ``load_manifest``."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise NotARunError(f"{path} was written by another program; choose another folder for the run")
    if content.get("schema_version") != SCHEMA_VERSION:
        raise NotARunError(
            f"{path} has schema version {content.get('schema_version')!r}; this stepscope reads {SCHEMA_VERSION}"
        )
    try:
        info = RunInfo(
            id=content["id"],
            name=content["name"],
            config=content["config"],
            tags=content["tags"],
            status=content["status"],
            created_ns=check_time("run", "created_ns", content["created_ns"]),
            environment={str(name): str(value) for name, value in content.get("environment", {}).items()},
        )
        return Manifest(
            info=info,
            lost=_checked_counts(content["lost"]),
            ended_ns=_checked_time(content["ended_ns"]),
            job=str(content.get("job", "")),
            family=str(content.get("family", "")),
        )
    except (KeyError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise NotARunError(f"{path} is damaged: {error!r}") from error


def _checked_counts(lost: dict[str, int]) -> dict[str, int]:
    return {str(reason): operator.index(count) for reason, count in lost.items()}


def _checked_time(ended_ns: int | None) -> int | None:
    return None if ended_ns is None else check_time("run", "ended_ns", ended_ns)


def claim_folder(run_folder: Path) -> Manifest | None:
    """Makes the run's folder and checks that it can hold a run; returns the manifest if it holds one.

    Files that belong to the user may lie there.

    Raises:
        NotARunError: When the path is a file, cannot be written, or belongs to another program.
    """
    try:
        run_folder.mkdir(parents=True, exist_ok=True)
        probe = run_folder / f".{MANIFEST}.probe.{secrets.token_hex(4)}"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise NotARunError(f"cannot write into {run_folder}: {error.strerror}; expected a writable folder") from error
    except ValueError as error:
        raise NotARunError(f"the path {str(run_folder)!r} is impossible: {error}") from error
    # Looked for first: another rank that opens the run at this moment makes the store after the manifest.
    has_store = (run_folder / STORE).exists()
    if (run_folder / MANIFEST).exists():
        return load_manifest(run_folder)
    if has_store:
        raise NotARunError(
            f"{run_folder} has a folder {STORE!r} but no {MANIFEST}: it belongs to another program or lost its "
            "identity; choose another folder for the run"
        )
    return None
