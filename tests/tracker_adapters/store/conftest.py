"""A run's folder for the tests of the store."""

from __future__ import annotations

from pathlib import Path

import pytest
from tracker_adapters.artifacts import RunInfo
from tracker_adapters.store.manifest import Manifest


@pytest.fixture
def run_folder(tmp_path: Path) -> Path:
    folder = tmp_path / "run"
    folder.mkdir()
    Manifest(RunInfo(id="id", name="run")).save(folder)
    return folder
