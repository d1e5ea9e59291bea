"""Folders of pages become runs; nothing in a page is executed, and the source stays as it is."""

import json
import os
import shutil

import joblib
import numpy as np
import pytest
from hostile_pages import MARKER, Runs, command

import stepscope
from debuggers.page_files.index import write_index
from debuggers.pages import load_page, write_page
from stepscope.importing import import_runs


def fill(folder, epochs=2):
    for epoch in range(epochs):
        pages = folder / f"epoch_{epoch}" / "debugger"
        pages.mkdir(parents=True)
        records = [
            write_page(
                pages, number, {10 * number + idx: {"fm": {"values": np.full((2, 3), epoch)}} for idx in range(2)}
            )
            for number in range(2)
        ]
        if epoch:
            write_index(pages, records)


def snapshot(folder):
    return {str(path): (path.read_bytes(), path.stat().st_nlink) for path in folder.rglob("*") if path.is_file()}


def test_pages_keep_content_epoch_and_table_of_contents(tmp_path):
    fill(tmp_path / "exp")
    before = snapshot(tmp_path / "exp")
    (one,) = import_runs(tmp_path / "exp", tmp_path / "runs")
    assert one.counts == {"page": 4}
    assert one.skipped.counts == {}
    with stepscope.read_run(one.run) as record:
        pages = record.pages()
        assert [(page.name, page.step) for page in pages] == [
            ("debugger/page_0", 0), ("debugger/page_1", 0), ("debugger/page_0", 1), ("debugger/page_1", 1)
        ]  # fmt: skip
        assert [(entry.datapoint, entry.debugger, entry.summary) for entry in pages[3].contents] == [
            (10, "fm", "values int64 (2, 3)"), (11, "fm", "values int64 (2, 3)")
        ]  # fmt: skip
        shutil.rmtree(tmp_path / "exp" / "epoch_0")
        np.testing.assert_array_equal(load_page(pages[0].path)[0]["fm"]["values"], np.zeros((2, 3)))
    assert snapshot(tmp_path / "exp").items() <= before.items()


def test_joblibs_own_pages_are_read(tmp_path):
    (tmp_path / "exp" / "epoch_3" / "debugger").mkdir(parents=True)
    joblib.dump({7: {"act": {"mean": 0.5}}}, tmp_path / "exp" / "epoch_3" / "debugger" / "page_0.pkl")
    (one,) = import_runs(tmp_path / "exp", tmp_path / "runs")
    with stepscope.read_run(one.run) as record:
        (page,) = record.pages()
    assert (page.step, page.contents[0].datapoint, page.contents[0].summary) == (3, 7, "mean 0.5")


def test_a_page_that_executes_something_is_left_out_and_named(tmp_path):
    fill(tmp_path / "exp", epochs=1)
    pages = tmp_path / "exp" / "epoch_0" / "debugger"
    joblib.dump({0: {"x": Runs(os.system, command(tmp_path))}}, pages / "page_2.pkl")
    (one,) = import_runs(tmp_path / "exp", tmp_path / "runs")
    assert not (tmp_path / MARKER).exists()
    assert one.counts == {"page": 2}
    (line,) = one.skipped.lines()
    assert line.startswith("1 x a page that is damaged or could execute something")
    assert "page_2.pkl" in line


@pytest.mark.parametrize("what", ["changed", "gone", "index", "pipe"])
def test_what_does_not_match_its_index_is_left_out_and_named(tmp_path, what):
    fill(tmp_path / "exp")
    pages = tmp_path / "exp" / "epoch_1" / "debugger"
    if what == "changed":
        content = bytearray((pages / "page_1.pkl").read_bytes())
        content[-10] ^= 1
        (pages / "page_1.pkl").write_bytes(content)
    elif what == "gone":
        (pages / "page_1.pkl").unlink()
    elif what == "pipe":
        (pages / "index.json").unlink()
        os.mkfifo(pages / "index.json")
    else:
        (pages / "index.json").write_text(json.dumps({"schema_version": 99, "pages": []}))
    (one,) = import_runs(tmp_path / "exp", tmp_path / "runs")
    assert one.counts == {"page": 4 if what in ("index", "pipe") else 3}
    assert len(one.skipped.counts) == 1
    assert str(pages) in "\n".join(one.skipped.lines())


def test_experiments_side_by_side_are_runs_of_their_own(tmp_path):
    for name in ("a", "b"):
        fill(tmp_path / "exps" / name)
    write_page(tmp_path / "exps", 0, {0: {"fm": {"x": 1}}})
    found = import_runs(tmp_path / "exps", tmp_path / "runs")
    assert [(one.run.name, one.counts) for one in found] == [
        ("exps", {"page": 1}),
        ("a", {"page": 4}),
        ("b", {"page": 4}),
    ]


def test_a_link_to_a_page_is_not_followed(tmp_path):
    fill(tmp_path / "exp", epochs=1)
    fill(tmp_path / "private", epochs=1)
    pages = tmp_path / "exp" / "epoch_0" / "debugger"
    (pages / "page_2.pkl").symlink_to(tmp_path / "private" / "epoch_0" / "debugger" / "page_1.pkl")
    (one,) = import_runs(tmp_path / "exp", tmp_path / "runs")
    assert one.counts == {"page": 2}
    assert list(one.skipped.lines()) == [f"1 x a page that is a link, such as {pages / 'page_2.pkl'}"]
