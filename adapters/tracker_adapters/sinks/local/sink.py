"""The local sink: plain files that any editor, spreadsheet and script opens."""

import json
import os
import shutil
from collections.abc import Mapping
from itertools import repeat
from pathlib import Path
from typing import Any, ClassVar

from tracker_adapters.artifacts import Alert, Page, StoredFile
from tracker_adapters.formats.file_names import safe_component
from tracker_adapters.safe_files import open_file, write_file
from tracker_adapters.sink import (
    BASIC_KINDS,
    Batch,
    HistogramRows,
    RunInfo,
    RunStatus,
    SinkError,
    StartOver,
    Unshown,
    checked_options,
    folder_errors,
    local_folder,
)
from tracker_adapters.sinks.local.folder import ALERTS, FOLDERS, HISTOGRAMS, INDEX, SCALARS, STREAMS, OutputFolder
from tracker_adapters.sinks.local.histograms import histogram_lines
from tracker_adapters.sinks.local.lines import alert_line, file_of, index_line, scalar_lines


class LocalSink:
    """Writes CSV, JSON lines, PNG and text files; ``README.txt`` among them says what is what.

    Scalars, histograms and alerts are lines of one file a kind, in the order of emission. Every other artifact is a
    file ``<kind>/<name>/<step>-<sequence number>`` with a line in ``artifacts.jsonl``, from which its name can be
    read back whatever the file system does to names. Nothing is rounded, dropped or sampled, except that histograms
    have at most 128 bins here.

    A resumed run adds its lines to those that are there, also where it goes back to an earlier step; ``attempt`` in
    each line says which opening of the run wrote it. The latest attempt at a step is the one that counts.

    Pages are hard links where the file system has them; files are copies, since people edit those.

    Args:
        target: The folder, absolute; one run has it for itself.
    """

    kinds: ClassVar[frozenset[str]] = BASIC_KINDS | {"curve"}
    folder_per_run: ClassVar[bool] = True

    def __init__(self, target: str) -> None:
        self.target = target
        self._info: RunInfo | None = None
        self._folder: OutputFolder | None = None

    @classmethod
    def resolve(cls, options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
        """Completes ``target``, a folder; by default ``local`` in the run's folder."""
        target = checked_options("local", options, {"target": str}).get("target", str(run_folder / "local"))
        return {"target": local_folder("local", target, run_folder)}

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> str:
        """Returns the folder's path."""
        return str(options["target"])

    def open(self, info: RunInfo, token: bytes | None) -> None:
        """Cuts the files back to ``token``, or removes what an earlier opening of this run left.

        Raises:
            StartOver: When the folder is gone or holds less than the token says.
            SinkConfigError: When it holds anything that is not of this run.
            SinkError: When it cannot be written.
        """
        folder = OutputFolder(Path(self.target))
        with folder_errors("local", self.target):
            if token is not None and not folder.belongs_to(info):
                raise StartOver(f"{self.target} holds nothing of run {info.name!r}")
            folder.claim(info)
            self._info, self._folder = info, folder
            folder.rewind({} if token is None else _sizes(token))
            folder.describe(info)  # last: going back has made room on a full disk

    def write(self, batch: Batch) -> Unshown:
        """Appends a batch.

        Returns:
            ``missing_file``: pages and files that are no longer where they were stored.
        """
        folder = self._opened()
        with folder_errors("local", self.target):
            if len(batch.scalars):
                folder.append(SCALARS, scalar_lines(batch.scalars, batch.attempt))
            histograms, alerts = batch.histograms, batch.alerts
            if histograms:
                rows = HistogramRows.of(histograms.artifacts)
                folder.append(HISTOGRAMS, histogram_lines(histograms.seqs, rows, batch.attempt))
            if alerts:
                folder.append(ALERTS, b"".join(map(alert_line, alerts.seqs, alerts.artifacts, repeat(batch.attempt))))
            return self._write_files(folder, batch)

    def flush(self) -> bytes:
        """Puts everything on the disk; the token is the sizes of the files that grow.

        Raises:
            SinkError: When they cannot be put there, or were removed meanwhile.
        """
        with folder_errors("local", self.target):
            return json.dumps(self._opened().sync()).encode()

    def describe(self, info: RunInfo) -> None:
        """Writes what the run says of itself into ``run_info.json``."""
        with folder_errors("local", self.target):
            self._opened().describe(info)
        self._info = info

    def finish(self, status: RunStatus) -> None:
        """Writes the status into ``run_info.json``."""
        folder = self._opened()
        assert self._info is not None
        with folder_errors("local", self.target):
            folder.save_info(self._info, status)

    def close(self) -> None:
        """Closes the files."""
        if self._folder is not None:
            self._folder.close()
        self._folder = None

    def _write_files(self, folder: OutputFolder, batch: Batch) -> Unshown:
        missing = 0
        planned: list[tuple[str, bytes | StoredFile]] = []
        lines: list[bytes] = []
        for seq, artifact in batch.singles():
            if isinstance(artifact, Alert):  # a line of their own file
                continue
            if isinstance(artifact, StoredFile) and not artifact.path.exists():
                missing += 1
                continue
            suffix, content = file_of(artifact)
            place = f"{FOLDERS[artifact.kind]}/{safe_component(artifact.name)}"
            relative = f"{place}/{artifact.step:09d}-{seq}{suffix}"
            planned.append((relative, content))
            lines.append(index_line(seq, artifact, relative, batch.attempt))
        if lines:
            folder.append(INDEX, b"".join(lines))
        for relative, content in planned:
            _write_file(folder.new_file(relative), content)
        return {"missing_file": missing} if missing else {}

    def _opened(self) -> OutputFolder:
        if self._folder is None:
            raise SinkError("sink 'local' is not open")
        return self._folder


def _sizes(token: bytes) -> dict[str, int]:
    """How long each stream was."""
    try:
        return {name: max(0, int(json.loads(token).get(name, 0))) for name in STREAMS}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError) as error:
        raise StartOver(f"no sizes of files: {token!r}") from error


def _write_file(path: Path, content: bytes | StoredFile) -> None:
    if isinstance(content, bytes):
        write_file(path.parent, path.name, content)
    elif isinstance(content, Page):
        try:
            os.link(content.path, path, follow_symlinks=False)
        except OSError:  # another file system, or one without links
            _copy(content.path, path)
    else:
        _copy(content.path, path)


def _copy(source: Path, target: Path) -> None:
    """Copies a file; nobody can read the copy who could not read the file."""
    with open_file(source.parent, source.name) as reading:
        permissions = os.fstat(reading.fileno()).st_mode & 0o644
        with open_file(target.parent, target.name, "xb", permissions=permissions) as writing:
            shutil.copyfileobj(reading, writing, 1024 * 1024)
