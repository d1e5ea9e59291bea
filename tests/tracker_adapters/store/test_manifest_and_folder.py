"""The run's folder: what it may hold, and what is refused."""

import json
from pathlib import Path

import pytest
from tracker_adapters.artifacts import RunInfo
from tracker_adapters.errors import NotARunError
from tracker_adapters.store.manifest import Manifest, claim_folder, load_manifest
from tracker_adapters.store.reading.record import RunRecord


def test_identity_configuration_and_status_come_back(tmp_path):
    info = RunInfo(id="i", name="n", config={"a": {"b": 1}, "path": tmp_path, "nan": float("nan")}, tags=["x"])
    Manifest(info, lost={"queue_full": 3}).with_status("failed").save(tmp_path)
    loaded = load_manifest(tmp_path)
    assert loaded.info.config == {"a": {"b": 1}, "path": str(tmp_path), "nan": "nan"}
    assert (loaded.info.tags, loaded.info.status, loaded.lost) == (("x",), "failed", {"queue_full": 3})
    assert json.loads((tmp_path / "run.json").read_text())["schema_version"] == 5


def test_a_configuration_that_was_made_private_stays_so(tmp_path):
    manifest = Manifest(RunInfo(id="i", name="n"))
    manifest.save_new(tmp_path)
    (tmp_path / "run.json").chmod(0o600)
    manifest.with_status("finished").save(tmp_path)
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o600


def test_a_new_folder_is_made_and_user_files_may_lie_there(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "config.yaml").write_text("lr: 1")
    assert claim_folder(tmp_path / "a") is None
    assert claim_folder(tmp_path / "deep" / "er") is None
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"format": "other"}', "written by another program"),
        ("[]", "written by another program"),
        ("{", "cannot read"),
        ('{"format": "stepscope-run", "schema_version": 99}', "schema version 99"),
        ('{"format": "stepscope-run", "schema_version": 5}', "damaged"),
    ],
)
def test_a_folder_of_something_else_is_refused(tmp_path, content, message):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(NotARunError, match=message):
        claim_folder(tmp_path)
    assert (tmp_path / "run.json").read_text() == content


def test_a_store_without_identity_is_refused(tmp_path):
    (tmp_path / "store").mkdir()
    with pytest.raises(NotARunError, match="belongs to another program"):
        claim_folder(tmp_path)


def test_a_file_in_place_of_the_folder_is_refused(tmp_path):
    (tmp_path / "f").touch()
    with pytest.raises(NotARunError, match="expected a writable folder"):
        claim_folder(tmp_path / "f")


def test_a_folder_that_cannot_be_written_is_refused():
    with pytest.raises(NotARunError, match="cannot write into /proc/stepscope"):
        claim_folder(Path("/proc/stepscope"))


def test_reading_what_is_no_run_says_so(tmp_path):
    with pytest.raises(NotARunError, match="is not a folder"):
        RunRecord(tmp_path / "missing")
    with pytest.raises(NotARunError, match=r"holds no run\.json"):
        RunRecord(tmp_path)
