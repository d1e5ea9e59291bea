"""W&B's artifacts: named groups of files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError
from tracker_adapters.fork_safe import TemporaryFolder

from stepscope.compat.errors import missing, refuse


class Artifact:
    """Files under one name; ``run.log_artifact`` records them as ``artifact/<name>/<file>``."""

    def __init__(
        self,
        name: str,
        type: str,
        description: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        incremental: bool = False,
        use_as: str | None = None,
        storage_region: str | None = None,
        digest_algorithm: Any = "MD5",
    ) -> None:
        """Makes one without files; description and metadata are recorded as a text beside them."""
        refuse("Artifact", {"incremental": incremental, "storage_region": storage_region}, "record a whole artifact")
        self.name, self.type = name, type
        self.description, self.metadata = description, dict(metadata or {})
        self._files: dict[str, Path] = {}
        self._folders: list[TemporaryFolder] = []

    def add_file(self, local_path: str | Path, name: str | None = None) -> None:
        """Adds a file, which is read when the artifact is recorded."""
        path = Path(local_path)
        if not path.is_file():
            raise ArtifactError(f"artifact {self.name!r}: {local_path} is no file")
        self._files[name or path.name] = path

    def add_dir(self, local_path: str | Path, name: str | None = None) -> None:
        """Adds all files of a folder, at any depth."""
        folder = Path(local_path)
        if not folder.is_dir():
            raise ArtifactError(f"artifact {self.name!r}: {local_path} is no folder")
        for path in sorted(path for path in folder.rglob("*") if path.is_file()):
            self.add_file(path, "/".join(filter(None, [name, path.relative_to(folder).as_posix()])))

    @contextmanager
    def new_file(self, name: str) -> Iterator[TextIO]:
        """Opens a new file of the artifact for the block."""
        folder = TemporaryFolder("stepscope_")
        self._folders.append(folder)
        path = folder.path / "file"
        with path.open("w", encoding="utf-8") as stream:
            yield stream
        self.add_file(path, name)

    def put(self, emitter: Emitter, step: int) -> None:
        """Emits each file, and what is known of the artifact."""
        about = {"type": self.type, "description": self.description, "metadata": self.metadata}
        emitter.text(f"artifact/{self.name}", f"```json\n{json.dumps(about, default=str, indent=2)}\n```", step=step)
        for name, path in self._files.items():
            emitter.file(path, name=f"artifact/{self.name}/{name}", step=step)

    def __getattr__(self, name: str) -> Any:
        raise missing("stepscope.compat.wandb.Artifact", name, dir(type(self)))
