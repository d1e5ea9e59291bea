"""An export at a URL is complete or none."""

import hashlib
import json

import fsspec
import pytest
from tracker_adapters.remote.place import RemotePlace

import stepscope
from stepscope.export import export_runs, remote_output
from stepscope.export.selection import ExportError

URL = "memory://exports/one"


@pytest.fixture(autouse=True)
def emptied():
    yield
    fsspec.filesystem("memory").store.clear()


@pytest.fixture
def run(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 0.25, step=3)
        run.text("notes", "a note", step=3)
    return tmp_path / "run"


def test_the_tables_are_there_with_the_manifest(run, tmp_path):
    exported = export_runs([run], URL, format="jsonl")
    export_runs([run], tmp_path / "here", format="jsonl")
    place = RemotePlace(URL)
    assert exported.output == URL
    assert place.names() == sorted(path.name for path in (tmp_path / "here").iterdir())
    assert place.read("scalars.jsonl") == (tmp_path / "here" / "scalars.jsonl").read_bytes()
    assert json.loads(place.read("export.json") or b"")


def test_what_is_there_is_replaced_only_when_asked(run):
    export_runs([run], URL)
    with pytest.raises(ExportError, match=r"memory://exports/one holds 'export\.json'; choose another place"):
        export_runs([run], URL)
    export_runs([run], URL, kinds=["scalar"], overwrite=True)
    assert RemotePlace(URL).names() == ["export.json", "runs.csv", "scalars.csv"]
    RemotePlace("memory://exports/two").write("theirs.txt", b"x")
    with pytest.raises(ExportError, match=r"holds 'theirs\.txt'"):
        export_runs([run], "memory://exports/two", overwrite=True)


def test_the_manifest_there_has_the_checksum_of_each_file(run, tmp_path):
    (tmp_path / "report.html").write_bytes(b"<p>hello")
    with stepscope.open_run(run, sinks=[], resume=True) as resumed:
        resumed.file(tmp_path / "report.html", media_type="text/html", step=1)
    export_runs([run], URL)
    place = RemotePlace(URL)
    files = json.loads(place.read("export.json") or b"")["files"]
    assert sorted(files) == [name for name in place.names() if name != "export.json"]
    for name, entry in files.items():
        content = place.read(name) or b""
        assert entry == {"size": len(content), "sha256": hashlib.sha256(content).hexdigest()}


def test_a_connection_that_breaks_now_and_then_is_tried_again(run, monkeypatch):
    upload, broken = RemotePlace.upload, []

    def shaky(self, source, name):
        if broken.count(name) < len(remote_output.RETRY_AFTER_S):
            broken.append(name)
            raise OSError("the connection broke")
        upload(self, source, name)

    monkeypatch.setattr(remote_output, "RETRY_AFTER_S", (0.0, 0.0))
    monkeypatch.setattr(RemotePlace, "upload", shaky)
    export_runs([run], URL)
    assert sorted(set(broken)) == RemotePlace(URL).names() == ["export.json", "runs.csv", "scalars.csv", "texts.csv"]


def test_an_export_that_is_cut_has_no_manifest(run, monkeypatch):
    monkeypatch.setattr(remote_output, "RETRY_AFTER_S", ())
    upload = RemotePlace.upload

    def cut(self, source, name):
        if name == "scalars.csv":
            raise OSError("the connection broke")
        upload(self, source, name)

    monkeypatch.setattr(RemotePlace, "upload", cut)
    with pytest.raises(ExportError, match="cannot copy the export to memory://exports/one: the connection broke"):
        export_runs([run], URL)
    assert "export.json" not in RemotePlace(URL).names()
