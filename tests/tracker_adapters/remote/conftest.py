"""A place in memory for the tests of remote runs; local copies lie below the test's own folder."""

import fsspec
import pytest
from tracker_adapters.remote.place import RemotePlace


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    yield RemotePlace("memory://bucket/runs/exp1")
    fsspec.filesystem("memory").store.clear()
