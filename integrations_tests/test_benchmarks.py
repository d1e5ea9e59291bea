"""The benchmarks, on tiny models and few values, as their commands run them."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from browser import chromium
from viewer_pages import BUILT
from watched.cases import GROUPS
from watched.our_sides import OURS
from watched.sides import THEIRS

BENCHMARKS = Path(__file__).parent.parent / "benchmarks"
STEPS = 2
SIDES = [*THEIRS, *OURS]
TIMEOUT_S = 900
SHORT_S = 240


def run(folder, name, *arguments, timeout_s=SHORT_S, code=0):
    """Runs a benchmark; returns what it prints and its errors."""
    command = [sys.executable, str(BENCHMARKS / name), *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=timeout_s, check=False)
    assert done.returncode == code, done.stderr
    return done.stdout, done.stderr


def watched_step(folder, *arguments):
    """Runs the benchmark of a watched step; returns what it prints, and the cases of its file."""
    few = ["--tiny", "--steps", str(STEPS), "--threads", "1", "--json", "found.json"]
    printed, _ = run(folder, "watched_step.py", *few, *arguments, timeout_s=TIMEOUT_S)
    assert [path.name for path in folder.iterdir()] == ["found.json"]
    return printed, json.loads((folder / "found.json").read_text(encoding="utf-8"))["cases"]


def last_line(folder, name, *arguments):
    """Runs a benchmark that leaves no file and ends with a line of JSON; returns that."""
    printed, _ = run(folder, name, "--tiny", "--threads", "1", *arguments)
    assert list(folder.iterdir()) == []
    found: dict[str, Any] = json.loads(printed.splitlines()[-1])
    return found


def test_stores_of_ranks_are_made_and_merged(tmp_path):
    printed, _ = run(tmp_path, "ranks.py", "--ranks", "3", "--points", "20")
    found = json.loads(printed)
    assert (found["ranks"], found["spread_points"], found["norm_points"], found["histogram_points"]) == (
        3, 20, 20, 3 * 4096,
    )  # fmt: skip
    assert found["files"] == 3 * 2 + 1


@pytest.mark.slow
def test_what_observed_losses_cost_is_measured(tmp_path):
    printed, _ = run(tmp_path, "loss_calls.py", "--blocks", "2")
    rows = [line.rsplit(None, 2) for line in printed.splitlines()[2:]]
    assert len(rows) == 8 + 3
    assert all(float(plain) > 0 and added[0] in "+-" for _, plain, added in rows)


@pytest.mark.slow
def test_what_a_diagnosis_and_telling_a_batch_add_is_measured(tmp_path):
    printed, _ = run(tmp_path, "diagnosis.py", "--cases", "2 layers", "--steps", "150")
    row, title, rules = printed.splitlines()[-3:]
    assert row.startswith("2 layers")
    assert len(row.split()) == 2 + 8
    assert float(row.split()[2]) > 0
    assert title.startswith("of these") and rules.startswith("2 layers")
    assert all(float(figure) > 0 for figure in rules.split()[2:])


@pytest.mark.slow
def test_what_a_diagnosis_of_a_store_takes_is_measured(tmp_path):
    printed, _ = run(tmp_path, "stored_diagnosis.py", "--layers", "20", "--values", "5000", "--rounds", "1")
    *_, ours, theirs, ratio = printed.splitlines()
    assert ours.startswith("stepscope diagnose") and theirs.startswith("TensorBoard")
    assert all(float(figure) > 0 for line in (ours, theirs) for figure in line.split()[-3:])
    assert ratio.endswith("times as long")


@pytest.mark.slow
def test_what_hooks_that_do_not_fire_add_is_measured(tmp_path):
    printed, _ = run(tmp_path, "conditional_hooks.py", "--steps", "140")
    rows = dict(line.rsplit(None, 1) for line in printed.splitlines()[2:])
    assert [name.rstrip() for name in rows] == [
        "step > 1e9, forward", "step > 1e9, backward", "every 1e9 steps", "at step 1e9", "l2_norm > 1e9",
        "torch's, empty", "torch's, norm() > 1e9",
    ]  # fmt: skip
    assert all(abs(float(added)) < 5000 for added in rows.values())


@pytest.mark.slow
def test_what_integrations_add_is_measured(tmp_path):
    printed, _ = run(tmp_path, "integrations.py", "--steps", "103")
    rows = [line.rsplit(None, 4) for line in printed.splitlines()]
    measured = {row[0].strip(): list(map(float, row[1:])) for row in rows if row[1:2] and row[1].isdecimal()}
    frameworks = {"lightning", "lightning, clipping", "lightning, clipping by value"}
    frameworks |= {"transformers", "accelerate", "ignite", "keras", "mmengine"}
    assert measured.keys() - {"torchtitan"} == frameworks  # that one is not installed beside them
    assert {steps for steps, *_ in measured.values()} == {2}  # of three, one has empty hooks
    assert all(abs(median) < 5000 and empty >= 0 for _, median, _, empty in measured.values())


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """What one command prints and measures of all sides."""
    folder = tmp_path_factory.mktemp("sides")
    return watched_step(folder, "--forked", "--model", "transformer", "--sides", ",".join(SIDES))


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
@pytest.mark.parametrize("side", SIDES)
def test_a_side_watches_a_step(side, measured):
    _, cases = measured
    row = cases["transformer"][side]
    assert "error" not in row
    assert [pair["ratio"] for pair in row["pairs"]] == [
        pytest.approx(pair["watched_ms"] / pair["plain_ms"]) for pair in row["pairs"]
    ]
    assert len(row["pairs"]) == STEPS
    assert row["same_weights"]


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_all_models_in_one_run(tmp_path):
    printed, cases = watched_step(tmp_path, "--forked", "--model", "all", "--sides", "gradients")
    assert list(cases) == GROUPS["all"]
    assert all(f"\n{name}" in printed for name in cases)
    for rows in cases.values():
        assert "error" not in rows["gradients"]
        assert rows["gradients"]["stored_bytes_a_histogram"] > 0


@pytest.mark.slow
def test_a_side_is_measured_in_a_process_of_its_own(tmp_path):
    _, cases = watched_step(tmp_path, "--model", "many", "--sides", "gradients")
    assert cases["many"]["gradients"]["same_weights"]


def test_an_unknown_side_is_named(tmp_path, warm_python):
    benchmark = [str(BENCHMARKS / "watched_step.py"), "--sides", "floor,flor"]
    done = warm_python.run(benchmark, folder=tmp_path, environment=os.environ)
    assert done.returncode == 2
    assert "unknown sides flor; expected some of floor, clip," in done.stderr


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_the_first_minute_is_measured_with_nothing_and_with_everything_cached(tmp_path):
    printed, errors = run(
        tmp_path, "first_minute.py", "--rounds", "1", "--sinks", "local", "--tiny", timeout_s=TIMEOUT_S
    )
    rows = [line.split("|")[1:-1] for line in printed.splitlines() if line.startswith("| this checkout")]
    assert [row[1].strip() for row in rows] == ["nothing", "bytecode", "everything"]
    assert all(float(cell) > 0 for row in rows for cell in [*row[2:5], row[6]])
    assert len(errors.splitlines()) == 12


@pytest.mark.slow
@pytest.mark.timeout(TIMEOUT_S)
def test_very_short_steps_are_all_looked_at(tmp_path):
    printed, _ = run(tmp_path, "small_step.py", "--steps", "200", timeout_s=TIMEOUT_S)
    rows = [line.split() for line in printed.splitlines()[-3:]]
    assert [row[0] for row in rows] == ["economy", "standard", "full"]
    assert [row[-2:] for row in rows] == [["100.0", "yes"]] * 3


@pytest.mark.slow
def test_the_watch_stands_beside_detect_anomaly_and_the_replay_is_counted_in_steps(tmp_path):
    printed, _ = run(tmp_path, "first_nan.py", "--tiny", "--turns", "2")
    sides = re.findall(r"^(.+?) +[+-][0-9.]+ ms a step, +[+-][0-9.]+%", printed, re.MULTILINE)
    assert sides == ["watch", "watch and capture", "detect_anomaly"]
    found = re.findall(r"^replay, NaN in (\S+) +[0-9.]+ steps .*; (\w+) ", printed, re.MULTILINE)
    assert found == [("embedding.weight", "embedding"), ("head.weight", "head")]


@pytest.mark.slow
def test_every_way_of_clipping_stands_beside_clip_grad_norm(tmp_path):
    printed, _ = run(tmp_path, "stability_step.py", "--turns", "1", "--values", "40000")
    ratios = re.findall(r"^(clipped|below the bound) +(.+?) +[0-9.]+ ms +([0-9.]+) x$", printed, re.MULTILINE)
    names = [name for _, name, _ in ratios]
    assert names[-6:] == ["clip_grad_norm_", "value", "global_norm", "layer_wise", "agc", "percentile"]
    (off,) = re.findall(r"exact [0-9.e-]+: ([0-9.]+) % off", printed)
    assert float(off) < 7.0


@pytest.mark.slow  # eleven processes, each of which imports torch
def test_pages_are_compared_with_joblib(tmp_path):
    *written, read, saved = last_line(tmp_path, "pages.py").values()
    assert len(written) == 2
    for found in written:
        assert found["joblib.dump / a page"] == pytest.approx(found["joblib.dump, ms"] / found["a page, ms"])
        assert 0 < found["  the caller is held up, ms"] < found["a page, ms"]
    assert 0 < read["one datapoint, new MB at most"] < read["all pages by joblib.load, new MB"]
    assert saved["pages: growth of the peak, in pages"] > 0


@pytest.mark.slow
def test_debuggers_are_compared_with_plain_steps_and_bare_copies(tmp_path):
    off, maps = last_line(tmp_path, "debuggers_step.py").values()
    assert 0 < off["share of the step, %"] < 100
    assert maps["feature maps of a step, MB"] == pytest.approx(
        2 * 4 * sum((4 << k) * (8 >> k) ** 2 * 4 for k in range(4)) / 2**20
    )
    assert maps["captures / clones, alone"] > 0


def test_without_a_gpu_its_benchmark_says_so_in_a_line(tmp_path, warm_python):
    hidden = os.environ | {"CUDA_VISIBLE_DEVICES": ""}
    done = warm_python.run([str(BENCHMARKS / "on_gpu.py")], folder=tmp_path, environment=hidden)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "no CUDA device: nothing to measure on a GPU here\n"


@pytest.mark.slow
def test_viewers_answer_on_the_same_data(tmp_path):
    found = last_line(tmp_path, "viewer.py", "--sides", "stepscope,trackio")
    assert found["points"] == 2000
    for side in {"stepscope", "trackio"} & found.keys():
        assert found[side]["first chart, s"] > 0
        assert found[side]["bytes of a chart"] > 100
    assert found["stepscope"]["memory of the server, MB"] < 300
    assert found["a training"]["CPU of a step alone, µs"] > 0


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.skipif(chromium() is None or not BUILT.is_file(), reason="no chromium here, or the page is not built")
def test_our_page_is_measured_beside_another(tmp_path):
    run(tmp_path, "viewer_page.py", "--tiny", "--json", "found.json")
    sides = json.loads((tmp_path / "found.json").read_text(encoding="utf-8"))["sides"]
    assert {"from_start_s", "reload_s", "switch_s"} == set(sides["tensorboard"])
    assert set(sides["tensorboard"]) < set(sides["stepscope"])
    assert all(value > 0 for side in sides.values() for value in side.values())
