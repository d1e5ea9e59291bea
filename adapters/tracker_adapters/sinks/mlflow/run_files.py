"""The artifact files of one MLflow run."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import PurePosixPath
from typing import Any

from tracker_adapters.fork_safe import TemporaryFolder
from tracker_adapters.sinks.mlflow.files import Stage

_TABLES_TAG = "mlflow.loggedArtifacts"
_MAX_TAG_LENGTH = 8000


class RunFiles:
    """Uploads files into a run. ``prefix`` is the folder of ours in a run of the user's, else empty."""

    def __init__(self, client: Any, run: Any, prefix: str) -> None:
        self._client = client
        self._run = run
        self._run_id = str(run.info.run_id)
        self._prefix = prefix
        self._listed: list[dict[str, str]] | None = None

    @contextmanager
    def staged(self) -> Iterator[Stage]:
        """Yields an empty stage, and uploads what it then holds, in order."""
        with TemporaryFolder("stepscope_") as folder:
            stage = Stage(folder.path, self._run_id, self._prefix)
            yield stage
            for path in stage.paths:
                parent = PurePosixPath(path).parent.as_posix()
                self._client.log_artifact(self._run_id, f"{folder.path}/{path}", None if parent == "." else parent)

    def names(self, folder: str) -> list[str]:
        """Returns the names of what lies in a folder; none when it is not there."""
        names: list[str] = self._client.names_of_artifacts(self._run, self._prefix + folder)
        return names

    def read(self, path: str) -> bytes:
        """Returns the content of a file."""
        content: bytes = self._client.read_artifact(self._run, self._prefix + path)
        return content

    def list_tables(self, paths: Sequence[str]) -> None:
        """MLflow shows a JSON file as a table where this tag lists it; the tag holds some eighty."""
        if not paths:
            return
        if self._listed is None or self._prefix:  # in a run of the user's, their own code lists tables, too
            self._listed = json.loads(self._client.get_run(self._run_id).data.tags.get(_TABLES_TAG, "[]"))
        entries = [{"path": path, "type": "table"} for path in paths]
        new = [entry for entry in entries if entry not in self._listed]
        while new and len(json.dumps(self._listed + new)) > _MAX_TAG_LENGTH:
            new.pop()
        if new:
            listed = self._listed + new
            self._client.set_tag(self._run_id, _TABLES_TAG, json.dumps(listed), synchronous=True)
            self._listed = listed
