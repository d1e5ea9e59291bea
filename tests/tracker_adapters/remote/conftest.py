"""A place in memory for the tests of remote runs; local copies lie below the test's own folder."""

from collections.abc import Iterator
from pathlib import Path

import fsspec
import pytest
from tracker_adapters.remote.place import RemotePlace


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[RemotePlace]:
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    yield RemotePlace("memory://bucket/runs/exp1")
    fsspec.filesystem("memory").store.clear()
