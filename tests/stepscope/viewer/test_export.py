"""An export without a browser: what is in the page, what beside it, and what is left out."""

import base64
import gzip
import hashlib
import html
import json
import re
import shutil
from urllib.parse import parse_qsl

import numpy as np
import pytest
from click.testing import CliRunner
from tracker_adapters.artifacts import PageEntry
from tracker_adapters.reports import PAGE_NAME, is_page_name

import stepscope
from debuggers.page_files.saving import write_page
from stepscope.cli import main
from stepscope.viewer.export import export_page
from stepscope.viewer.export_addresses import spread
from stepscope.viewer.watched_runs import RunList

HOSTILE = "</script><script>alert(1)</script><!--"


@pytest.fixture(autouse=True)
def built(tmp_path, monkeypatch):
    """A page that is as small as can be."""
    folder = tmp_path / "built"
    folder.mkdir()
    (folder / "page.js").write_text('console.log("</script>")')
    (folder / "page.css").write_text("body { margin: 0 }")
    monkeypatch.setattr("stepscope.viewer.export.BUILT", folder)
    return folder


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    folder = tmp_path_factory.mktemp("made")
    for number in range(2):
        with stepscope.open_run(folder / f"exp{number}", sinks=[], config={HOSTILE: HOSTILE}) as run:
            for step in range(50):
                run.scalar("loss", 1 / (step + 1 + number), step=step)
            run.scalar(HOSTILE, 1.0, step=0)
            for step in range(16):
                noise = np.random.default_rng(step).integers(0, 256, (128, 128, 3), np.uint8)
                run.image("noise", noise, step=step, layout="HWC")
    return folder


@pytest.fixture
def runs(made, tmp_path):
    return shutil.copytree(made, tmp_path / "runs")


def parts(page):
    """The scripts and the style of a page, as a browser finds them, and its policy."""
    text = page.read_text()
    scripts = re.findall(r"<script[^>]*>(.*?)</script>", text, re.DOTALL)
    [style] = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    [policy] = re.findall(r'Content-Security-Policy" content="([^"]*)"', text)
    return scripts, style, html.unescape(policy)


def digest(text):
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


def decoded(entry):
    _, encoding, data = entry
    return {"text": str.encode, "base64": base64.b64decode, "gzip": lambda d: gzip.decompress(base64.b64decode(d))}[
        encoding
    ](data)


def test_nothing_in_a_run_ends_the_data_and_the_policy_allows_the_pages_own_parts_alone(runs, tmp_path):
    made = export_page(runs, tmp_path / "out")
    scripts, style, policy = parts(made.page)
    assert len(scripts) == 2
    assert f"script-src 'sha256-{digest(scripts[1])}' 'strict-dynamic'" in policy
    assert f"style-src 'sha256-{digest(style)}'" in policy
    assert "unsafe" not in policy
    assert policy.startswith("default-src 'none'; ")
    answers = json.loads(scripts[0])
    listed = json.loads(decoded(answers["runs"]))["runs"]
    assert {run["name"] for run in listed} == {"exp0", "exp1"}
    key = listed[0]["key"]
    names = json.loads(decoded(answers[f"names?run={key}"]))["names"]
    assert HOSTILE in [one["name"] for one in names]
    assert f"series?run={key}&name=loss&width=800" in answers
    assert f"parting?a={key}&b={listed[1]['key']}" in answers


@pytest.mark.slow
def test_what_has_no_room_in_the_page_lies_beside_it_and_each_is_named_in_it(runs, tmp_path):
    made = export_page(runs, tmp_path / "out", page_bytes=1_000_000)
    assert made.page_bytes <= 1_000_000
    answers = json.loads(parts(made.page)[0][0])
    beside = {data for _, encoding, data in answers.values() if encoding in ("file", "script")}
    assert beside == {f"data/{path.name}" for path in (tmp_path / "out" / "data").iterdir()}
    assert made.left_out == {}
    assert sum(address.startswith("image?") for address in answers) == 32
    # The next export replaces what this one left.
    export_page(runs, tmp_path / "out")
    assert not (tmp_path / "out" / "data").exists()


@pytest.mark.slow
def test_files_beside_an_export_stay(runs, tmp_path):
    export_page(runs, tmp_path / "out", page_bytes=1_000_000)
    others = [tmp_path / "out" / name for name in ("data/cat.png", "data/0001.json", "data/00001.js", "notes.js")]
    for path in others:
        path.write_text("mine")
    export_page(runs, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out" / "data").iterdir()} == {"cat.png", "0001.json", "00001.js"}
    assert [path.read_text() for path in others] == ["mine"] * 4


@pytest.mark.parametrize("name", ["index.html", "data/0001.png", "data/0001.js", "data"])
def test_a_folder_that_holds_something_else_is_refused_and_left_as_it_is(runs, tmp_path, name):
    path = tmp_path / "site" / name
    path.parent.mkdir(parents=True)
    path.write_text("mine")
    with pytest.raises(stepscope.RunError, match=r"is not of an export; expected an empty folder, or one with an ear"):
        export_page(runs, tmp_path / "site")
    assert path.read_text() == "mine"
    assert [found for found in (tmp_path / "site").rglob("*") if found.is_file()] == [path]


def test_a_link_where_the_page_goes_is_refused(runs, tmp_path):
    made = export_page(runs, tmp_path / "out")
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "index.html").symlink_to(made.page)
    with pytest.raises(stepscope.RunError, match=r"linked/index\.html is not of an export"):
        export_page(runs, tmp_path / "linked")


def test_what_is_no_folder_is_refused(runs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("mine")
    (tmp_path / "dangling").symlink_to("nowhere")
    for given, said in (
        ("", "''; expected the name of a folder"),
        ("s3://bucket/out", "'s3://bucket/out'; expected the name of a folder on this machine"),
        ("file", "file is no folder; expected"),
        ("dangling", "dangling is a link to nowhere, where no folder is; expected"),
    ):
        with pytest.raises(stepscope.RunError, match=re.escape(said)):
            export_page(runs, given)
        told = CliRunner().invoke(main, ["view", "runs", "--export", given])
        assert (told.exit_code, said in told.output) == (2, True)
    assert {path.name for path in tmp_path.iterdir()} == {"built", "runs", "file", "dangling"}
    (tmp_path / "linked").symlink_to("runs", target_is_directory=True)
    assert export_page(runs, "linked").page.is_file()


def test_places_without_runs_are_named(tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(stepscope.RunError, match=r"there is no run at .*/empty, .*/empty; expected"):
        export_page([tmp_path / "empty"] * 2, tmp_path / "out")


@pytest.mark.slow
def test_an_export_that_was_interrupted_says_so_and_is_made_again(runs, tmp_path, monkeypatch):
    def interrupted(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("stepscope.viewer.export._page", interrupted)
        with pytest.raises(KeyboardInterrupt):
            export_page(runs, tmp_path / "out", page_bytes=1_000_000)
    assert "was not finished" in (tmp_path / "out" / "index.html").read_text()
    assert list((tmp_path / "out" / "data").iterdir())
    made = export_page(runs, tmp_path / "out")
    assert "stepscope-answers" in made.page.read_text()
    assert not (tmp_path / "out" / "data").exists()


def test_what_has_no_room_at_all_is_counted(runs, tmp_path):
    made = export_page(runs, tmp_path / "out", page_bytes=1_000_000, data_bytes=0)
    answers = json.loads(parts(made.page)[0][0])
    there = sum(address.startswith("image?") for address in answers)
    assert made.left_out["images"] == 32 - there
    assert json.loads(answers["export"][2])["left_out"] == made.left_out
    # Of each run as many: what is left shows both.
    assert f"{made.left_out['images']:,} images" in str(made)


def exported_note(made):
    return json.loads(decoded(json.loads(parts(made.page)[0][0])["export"]))


@pytest.mark.slow
def test_it_opens_with_the_run_that_was_named_first(runs, tmp_path):
    keys = {name: RunList([runs / name]).all()[0].key for name in ("exp0", "exp1")}
    for given, first in ([runs / "exp0"], "exp0"), ([runs / "exp1", runs / "exp0"], "exp1"), (runs, "exp1"):
        assert exported_note(export_page(given, tmp_path / "out"))["first"] == keys[first]


@pytest.mark.slow
def test_other_scopes_and_ranks_are_there(tmp_path):
    for rank in (1, 2):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank) as run:
            for scope in ("", "G/"):
                for step in range(3):
                    run.scalar(f"{scope}gradient_norm/fc1.weight", 1.0, step=step)
                    run.text("note", f"rank {rank}", step=step)
                    run.image("map", np.zeros((2, 2), np.uint8), step=step, layout="HW")
                    run.histogram(f"{scope}gradients/fc1.weight", np.ones(3), step=step)
                run.scalar(f"{scope}total_norm/gradients", 1.0, step=3)
    made = export_page(tmp_path / "run", tmp_path / "out")
    answers = json.loads(parts(made.page)[0][0])
    key = json.loads(decoded(answers["runs"]))["runs"][0]["key"]
    for rank in (1, 2):
        asked = f"run={key}&name=G%2Fgradient_norm%2Ffc1.weight&rank={rank}"
        assert f"series?{asked}&width=800" in answers
        assert f"histograms?{asked.replace('gradient_norm', 'gradients')}" in answers
        assert f"names?run={key}&rank={rank}" in answers
        assert f"texts?run={key}&name=note&rank={rank}" in answers
        images = json.loads(decoded(answers[f"images?run={key}&name=map&rank={rank}"]))["images"]
        assert len(images) == 6
        assert all(f"image?run={key}&name=map&rank={rank}&seq={one['seq']}" in answers for one in images)
        for scope in ("", "scope=G&"):
            assert f"layers?run={key}&{scope}rank={rank}" in answers
            assert f"layers?run={key}&{scope}rank={rank}&statistic=gradient_norm&width=800" in answers
    assert made.left_out == {}


@pytest.fixture
def epochs(tmp_path):
    """A run with the pages of two epochs, a part of their datapoints wrong."""
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for epoch in range(2):
            kept = {
                idx: {
                    "stats": {"mean": float(idx + epoch)},
                    "datapoint": {"outputs": np.float32([0, 1]), "labels": int(idx % (epoch + 9) > 0)},
                }
                for idx in range(130)
            }
            folder = tmp_path / f"pages_{epoch}"
            folder.mkdir()
            record = write_page(folder, 0, kept)
            contents = [PageEntry(datapoint=idx, debugger="stats", summary="") for idx in kept]
            run.at(epoch).page(folder / record.page, contents=contents, sha256=record.sha256)
    return run.path


def test_epochs_have_the_same_datapoints_and_what_changed_in_them(epochs, tmp_path):
    made = export_page(epochs, tmp_path / "out")
    assert made.left_out == {"datapoints": 60}
    answers = json.loads(parts(made.page)[0][0])
    asked = [dict(parse_qsl(address.partition("?")[2])) for address in answers if address.startswith("datapoint?")]
    of_epoch = {one["epoch"]: {int(other["idx"]) for other in asked if other["epoch"] == one["epoch"]} for one in asked}
    first, last = (of_epoch[key] for key in sorted(of_epoch))
    assert len(first) == len(last) == 100
    assert first >= set(range(0, 130, 9))
    assert last >= set(range(0, 130, 10))
    changes = [address for address in answers if address.startswith("changes?")]
    assert 2 * (1 + 6) <= len(changes) <= 2 * (1 + 12)


def test_an_export_that_has_to_end_soon_opens_no_large_pages_as_a_whole(epochs, tmp_path, monkeypatch):
    monkeypatch.setattr("stepscope.viewer.export_datapoints.QUICK_BYTES", 0)
    made = export_page(epochs, tmp_path / "out", seconds=60)
    assert {part: made.left_out[part] for part in made.left_out if part != "datapoints"} == {
        "judgements of epochs": 2,
        "changes of datapoints": 2,
    }
    asked = {address.partition("?")[0] for address in json.loads(parts(made.page)[0][0])}
    assert asked >= {"datapoints", "datapoint"}
    assert not asked & {"judged", "changes"}


def test_after_its_time_an_export_leaves_out_the_rest(runs, tmp_path):
    made = export_page(runs, tmp_path / "out", seconds=0)
    assert made.left_out["series"] == 4


def test_a_page_that_was_not_built_is_said(runs, tmp_path, built):
    (built / "page.js").unlink()
    with pytest.raises(stepscope.RunError, match=r"the page is not built; expected npm at installation"):
        export_page(runs, tmp_path / "out")


@pytest.mark.parametrize(("option", "value"), [("page_bytes", 10), ("data_bytes", -1), ("page_bytes", "10MB")])
def test_a_wrong_size_is_named(runs, tmp_path, option, value):
    with pytest.raises(stepscope.RunError, match=rf"{option} is {value!r}; expected an integer of at least"):
        export_page(runs, tmp_path / "out", **{option: value})


def test_a_run_records_its_page_when_it_closes(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=["local"], delivery="thread", page=True) as run:
        run.scalar("loss", 1.0, step=7)
    with stepscope.read_run(tmp_path / "run") as record:
        [file] = record.files()
    assert (file.name, file.step, file.media_type) == (PAGE_NAME, 7, "text/html")
    assert "series?run=" in parts(file.path)[0][0]
    [shown] = (tmp_path / "run" / "local" / "files").rglob("*.html")
    assert shown.read_bytes() == file.path.read_bytes()


@pytest.mark.parametrize("status", ["finished", "failed"])
def test_the_page_of_a_run_says_how_it_ended(tmp_path, status):
    run = stepscope.open_run(tmp_path / "run", sinks=[], page=True)
    run.scalar("loss", 1.0, step=7)
    run.finish(status)
    with stepscope.read_run(tmp_path / "run") as record:
        [file] = record.files()
    answers = json.loads(parts(file.path)[0][0])
    [listed] = json.loads(decoded(answers["runs"]))["runs"]
    assert (listed["status"], listed["live"]) == (status, False)
    assert listed["finished_ms"] > listed["created_ms"]
    about = json.loads(decoded(answers[f"run?run={listed['key']}"]))
    assert (about["status"], about["live"]) == (status, False)
    assert [one["state"] for one in about["ranks"][0]["attempts"]] == [status]


def test_each_attempt_of_a_run_has_a_page(tmp_path):
    for attempt in range(2):
        with stepscope.open_run(tmp_path / "run", sinks=[], page=True, resume=attempt > 0) as run:
            run.scalar("loss", 1.0, step=7 + attempt)
    with stepscope.read_run(tmp_path / "run") as record:
        files = record.files()
    assert [file.name for file in files] == [PAGE_NAME, f"{PAGE_NAME}/attempt_2"]
    assert all(is_page_name(file.name) for file in files)


def test_what_takes_too_long_at_the_end_of_a_run_is_left_out_of_its_page(tmp_path, monkeypatch):
    monkeypatch.setattr("stepscope.viewer.run_page.SECONDS", 0.0)
    with stepscope.open_run(tmp_path / "run", sinks=[], page=True) as run:
        for name in "abc":
            run.scalar(name, 1.0, step=0)
        run.flush_store()
    with stepscope.read_run(tmp_path / "run") as record:
        [file] = record.files()
    answers = json.loads(parts(file.path)[0][0])
    assert json.loads(decoded(answers["export"]))["left_out"]["series"] == 3
    assert any(address.startswith("verdict?") for address in answers)


def test_a_run_closes_without_a_page_that_cannot_be_made(tmp_path, built, caplog):
    (built / "page.css").unlink()
    with stepscope.open_run(tmp_path / "run", sinks=[], page=True) as run:
        run.scalar("loss", 1.0, step=0)
    assert f"no page is recorded for the run {run.path}: the page is not built" in caplog.text
    assert run.stats.stored == 1


@pytest.mark.parametrize("count", range(12))
def test_spreading_names_each_once_with_both_ends_first(count):
    found = list(spread(range(count)))
    assert sorted(found) == list(range(count))
    assert found[:2] == ([count - 1, 0] if count > 1 else list(range(count)))
