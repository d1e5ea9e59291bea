"""The artifact files and tags of one MLflow run."""

from __future__ import annotations

import json
import math
import posixpath
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any

from tracker_adapters.sinks.mlflow.files import Stage
from tracker_adapters.sinks.mlflow.index import IndexEnd, part_path, read_index

_TABLES_TAG = "mlflow.loggedArtifacts"
_MAX_TAG_LENGTH = 8000


class RunFiles:
    """Uploads files into a run. ``prefix`` is the folder of ours in a run of the user's, else empty."""

    def __init__(self, client: Any, run_id: str, prefix: str) -> None:
        self.run_id = run_id
        self._client = client
        self._prefix = prefix
        self._listed: list[dict[str, str]] | None = None

    @contextmanager
    def staged(self) -> Iterator[Stage]:
        """Yields an empty stage, and uploads what it then holds, in order."""
        with tempfile.TemporaryDirectory(prefix="stepscope_") as folder:
            stage = Stage(Path(folder), self.run_id, self._prefix)
            yield stage
            for path in stage.paths:
                parent = PurePosixPath(path).parent.as_posix()
                self._client.log_artifact(self.run_id, f"{folder}/{path}", None if parent == "." else parent)
        self._list_tables(stage.tables)

    def tag(self, tags: Mapping[str, str]) -> None:
        """Sets tags, replacing those of the same key."""
        from mlflow.entities import RunTag

        self._client.log_batch(self.run_id, tags=[RunTag(*item) for item in tags.items()], synchronous=True)

    def index(self, end: IndexEnd | None = None, *, budget_s: float = math.inf) -> list[dict[str, Any]]:
        """Returns the lines of the run's index up to ``end``; see ``read_index``."""
        return read_index(self._client, self.run_id, self._prefix, end=end, budget_s=budget_s)

    def index_part(self, part: int) -> bytes:
        """Returns what a part of the index holds; nothing when it is not there."""
        path = self._prefix + part_path(part)
        if not any(entry.path == path for entry in self._client.list_artifacts(self.run_id, posixpath.dirname(path))):
            return b""
        with tempfile.TemporaryDirectory(prefix="stepscope_") as folder:
            return Path(self._client.download_artifacts(self.run_id, path, folder)).read_bytes()

    def _list_tables(self, paths: list[str]) -> None:
        """MLflow shows a JSON file as a table where this tag lists it; the tag holds some eighty."""
        if not paths:
            return
        if self._listed is None:
            self._listed = json.loads(self._client.get_run(self.run_id).data.tags.get(_TABLES_TAG, "[]"))
        entries = [{"path": path, "type": "table"} for path in paths]
        new = [entry for entry in entries if entry not in self._listed]
        while new and len(json.dumps(self._listed + new)) > _MAX_TAG_LENGTH:
            new.pop()
        if new:
            self._listed += new
            self.tag({_TABLES_TAG: json.dumps(self._listed)})
