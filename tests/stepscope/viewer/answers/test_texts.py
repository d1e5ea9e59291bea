import json
import math

import pytest

import stepscope
from stepscope.viewer.answers import texts
from stepscope.viewer.answers.answer import NotFound, TooLarge
from stepscope.viewer.answers.table import answer
from stepscope.viewer.watched_runs import RunList


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    (folder / "notes.html").write_text("<script>alert(1)</script>")
    with stepscope.open_run(folder / "run", sinks=[]) as run:
        for step in range(3):
            run.at(step).text("notes", f"# step {step}\n<b>bold</b>")
            run.at(step).table("table", ["name", "value"], [["a", float(step)], ["b", math.nan]])
            run.at(step).curve("roc", [0.0, 0.5, 1.0], [0.0, math.inf, step], title="ROC", x_label="fpr", y_label="tpr")
        for step in range(8):
            run.at(step).text("long", f"{step}" * 100_000)
        run.at(2).file(folder / "notes.html", media_type="text/html")
    return run.path


@pytest.fixture(scope="module")
def runs(folder):
    runs = RunList([folder])
    yield runs
    runs.close()


def _json(runs, path, query=""):
    (run,) = runs.all()
    return json.loads(answer(runs, f"{path}?run={run.key}{query}").body)


def test_texts_tables_and_curves_come_by_step(runs):
    assert [one["text"] for one in _json(runs, "texts", "&name=notes")["texts"]] == [
        f"# step {step}\n<b>bold</b>" for step in range(3)
    ]
    table = _json(runs, "tables", "&name=table")["tables"][2]
    assert (table["columns"], table["rows"], table["row_count"]) == (["name", "value"], [["a", 2.0], ["b", "NaN"]], 2)
    curve = _json(runs, "curves", "&name=roc")["curves"][1]
    assert (curve["x"], curve["y"]) == ([0.0, 0.5, 1.0], [0.0, "Infinity", 1.0])
    assert (curve["title"], curve["x_label"], curve["y_label"]) == ("ROC", "fpr", "tpr")


def test_of_much_text_the_newest_comes_along_and_the_rest_by_its_number(runs):
    found = _json(runs, "texts", "&name=long")["texts"]
    assert [one["step"] for one in found if "text" in one] == [5, 6, 7]
    assert _json(runs, "texts", f"&name=long&seq={found[0]['seq']}")["text"] == "0" * 100_000


def test_a_file_is_handed_out_to_be_saved_and_never_as_what_it_says_it_is(runs):
    (file,) = _json(runs, "files")["files"]
    assert (file["filename"], file["media_type"], file["step"]) == ("notes.html", "text/html", 2)
    (run,) = runs.all()
    found = answer(runs, f"file?run={run.key}&sha256={file['sha256']}")
    assert found.body == b"<script>alert(1)</script>"
    assert (found.media_type, found.download) == ("application/octet-stream", "notes.html")


def test_a_file_that_is_not_the_runs_is_not_found_and_a_large_one_is_told_where_it_lies(runs, monkeypatch):
    (run,) = runs.all()
    for wanted in ("0" * 64, "../../../etc/passwd"):
        with pytest.raises(NotFound):
            answer(runs, f"file?run={run.key}&sha256={wanted}")
    (file,) = _json(runs, "files")["files"]
    monkeypatch.setattr(texts, "MOST_FILE_BYTES", 10)
    with pytest.raises(TooLarge, match="lies in the run's folder as blobs/"):
        answer(runs, f"file?run={run.key}&sha256={file['sha256']}")


def test_a_file_that_was_replaced_by_a_link_is_not_followed(runs, folder, tmp_path):
    (file,) = _json(runs, "files")["files"]
    blob = folder / "blobs" / file["sha256"][:2] / file["sha256"]
    content = blob.read_bytes()
    (tmp_path / "secret").write_text("secret")
    blob.unlink()
    blob.symlink_to(tmp_path / "secret")
    (run,) = runs.all()
    try:
        with pytest.raises(NotFound):
            answer(runs, f"file?run={run.key}&sha256={file['sha256']}")
    finally:
        blob.unlink()
        blob.write_bytes(content)
