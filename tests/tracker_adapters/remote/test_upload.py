"""What the client of a place does wrong holds up no upload for good, and is told."""

import os
import subprocess
import sys

import pytest
from tracker_adapters.artifacts import RunInfo
from tracker_adapters.remote.local_copy import Home
from tracker_adapters.remote.mirror import Mirror
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.writing.run_store import RunStore

UPLOAD = """
import os, threading
from pathlib import Path
import fsspec
from fsspec.implementations.local import LocalFileSystem
from tracker_adapters.remote import upload

class HangingOnce(LocalFileSystem):
    protocol = "hangs"

    def put_file(self, *arguments, **options):
        hung = Path(os.environ["HUNG"])
        if not hung.exists():
            hung.touch()
            upload.HANG_S = 0.1  # only from now on: on a busy machine anything else may take as long
            threading.Event().wait()
        super().put_file(*arguments, **options)

    @classmethod
    def _strip_protocol(cls, path):
        return str(path).removeprefix("hangs://")

fsspec.register_implementation("hangs", HangingOnce)
upload.HANG_S = 3600.0
upload.main()
"""


@pytest.mark.slow
def test_an_upload_that_hangs_starts_itself_again(tmp_path):
    folder, there, hung = tmp_path / "run", tmp_path / "there", tmp_path / "hung"
    folder.mkdir()
    there.mkdir()
    Manifest(RunInfo(id="r1", name="run")).save(folder)
    store = RunStore(folder)
    store.put(("loss", 0, 1, 0.5), 0)
    store.close()
    Home(f"hangs://{there}", "one").save(folder)
    script = tmp_path / "upload.py"
    script.write_text(UPLOAD)
    done = subprocess.run(
        [sys.executable, str(script), str(folder)],
        env=os.environ | {"HUNG": str(hung)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("restarts itself") == 1
    assert hung.exists()
    segment = "store/rank_00000/segment_000000.db"
    assert (there / segment).read_bytes() == (folder / segment).read_bytes()


def test_what_the_place_does_not_find_is_no_file_that_vanished_here(tmp_path, monkeypatch):
    Manifest(RunInfo(id="r1", name="run")).save(tmp_path)
    RunStore(tmp_path).close()
    url = "memory://no/bucket"
    mirror = Mirror(tmp_path, RemotePlace(url), Home(url, "one"))

    def no_such_bucket(*_):
        raise FileNotFoundError("no such bucket")

    monkeypatch.setattr(RemotePlace, "upload", no_such_bucket)
    with pytest.raises(FileNotFoundError, match="no such bucket"):
        mirror.copy()
