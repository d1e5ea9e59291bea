"""The TensorBoard sink: the contract, its options, and the rules that its docstring states."""

import json
import math
import shutil
import subprocess
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from readback_tensorboard import as_rendered, read_back
from tensorboard_runs import carried, opened
from tracker_adapters.artifacts import Alert, Histogram, Scalar, Table
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkConfigError, SinkError, StartOver
from tracker_adapters.sinks.tensorboard import TensorBoardSink
from tracker_adapters.testing.contract import INFO, SinkContract, one_of_each


class TestTensorBoardSink(SinkContract):
    sink_class = TensorBoardSink
    float32 = True
    degraded: ClassVar = {"alert": "text", "table": "text", "page": "text", "file": "text", "curve": "image"}
    drops_late_steps = True

    def read_back(self, options):
        return read_back(options)

    # make test has these with the local sink, and kills a training that delivers to this one, too.

    @pytest.mark.slow
    def test_a_sink_killed_before_its_first_token_starts_over(self, run_folder, sources):
        super().test_a_sink_killed_before_its_first_token_starts_over(run_folder, sources)

    @pytest.mark.slow
    def test_a_killed_delivery_is_started_again_without_gap_or_double(self, run_folder, sources):
        super().test_a_killed_delivery_is_started_again_without_gap_or_double(run_folder, sources)

    @pytest.mark.slow
    def test_a_killed_trainer_loses_nothing_and_a_resumed_one_doubles_nothing(self, run_folder, sources):
        super().test_a_killed_trainer_loses_nothing_and_a_resumed_one_doubles_nothing(run_folder, sources)


def deliver(folder, artifacts):
    options = TensorBoardSink.resolve({}, folder)
    sink = opened(options["target"])
    unshown = Counter(sink.write(Batch.of(artifacts)))
    sink.flush()
    sink.close()
    return options, unshown


def scalars(name, steps):
    return [Scalar(name=name, value=float(step), step=step) for step in steps]


class TestOptions:
    def test_the_default_is_the_folder_of_the_run(self, tmp_path, monkeypatch):
        monkeypatch.delenv("TENSORBOARD_LOGGING_DIR", raising=False)
        assert TensorBoardSink.resolve({}, tmp_path / "exp1") == {"target": str(tmp_path / "exp1")}

    def test_the_environment_names_a_shared_folder(self, tmp_path, monkeypatch):
        monkeypatch.setenv("TENSORBOARD_LOGGING_DIR", str(tmp_path / "shared"))
        assert TensorBoardSink.resolve({}, tmp_path / "exp1") == {"target": str(tmp_path / "shared/exp1")}
        given = {"target": str(tmp_path / "mine")}
        assert TensorBoardSink.resolve(given, tmp_path / "exp1") == given

    def test_a_relative_target_becomes_absolute(self, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        assert TensorBoardSink.resolve({"target": "a/../b"}, tmp_path) == {"target": str(tmp_path / "b")}

    @pytest.mark.parametrize("target", ["", "s3://bucket/run", "a\0b"])
    def test_a_target_that_is_no_local_folder_is_refused(self, tmp_path, target):
        with pytest.raises(SinkConfigError, match="expected a local folder"):
            TensorBoardSink.resolve({"target": target}, tmp_path)

    def test_resolving_imports_no_tensorboard(self, tmp_path):
        script = (
            "import sys, pathlib; from tracker_adapters.sinks.tensorboard import TensorBoardSink as Sink;"
            f"Sink(**Sink.resolve({{}}, pathlib.Path({str(tmp_path)!r})));"
            "print([name for name in sys.modules if name.split('.')[0] in ('tensorboard', 'google_crc32c')])"
        )
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("[]\n", "")


class TestNames:
    def test_a_name_of_one_kind_is_the_tag_and_other_kinds_say_what_they_are(self, tmp_path):
        sources = tmp_path / "sources"
        sources.mkdir()
        scalar, histogram, *_ = one_of_each(sources, name="fc1")
        clash = Scalar(name="fc1 (scalar)", value=1.0, step=0)
        options, _ = deliver(tmp_path, [clash, histogram, scalar, *scalars("loss", [0])])
        (path,) = Path(options["target"]).glob("events*")
        content = path.read_bytes()
        assert content.count(b"fc1 (scalar 2)") == 1
        assert b"fc1 (histogram)" not in content
        assert {(s.kind, s.name) for s in read_back(options)} == {
            ("scalar", "fc1 (scalar)"), ("histogram", "fc1"), ("scalar", "fc1"), ("scalar", "loss"),
        }  # fmt: skip


class TestSteps:
    def test_a_late_step_is_counted_and_erases_nothing(self, tmp_path):
        options, unshown = deliver(tmp_path, [*scalars("loss", range(100)), *scalars("loss", [10, 99, 100])])
        assert unshown == {"late_step": 2}
        assert [s.step for s in read_back(options)] == list(range(101))

    def test_texts_of_one_step_share_an_entry(self, tmp_path):
        """Ten layers that explode at one step are ten alerts, not one alert and nine losses."""
        alerts = [Alert(name="exploding_gradient", message=f"fc{i}: norm 3e5", step=7) for i in range(10)]
        options, unshown = deliver(tmp_path, alerts)
        assert not unshown
        assert [s.value.strip() for s in read_back(options)] == [f"WARNING {alert.message}" for alert in alerts]

    def test_texts_of_one_step_that_come_in_several_batches_are_all_shown(self, tmp_path):
        """Where a batch ends is not for the user to see: what comes later at the same step has a tag of its own."""
        alerts = [Alert(name="exploding", message=f"fc{i}", step=7) for i in range(4)]
        after = Alert(name="exploding", message="fc9", step=8)
        sink = opened(tmp_path)
        for batch in (alerts[:2], alerts[2:3], [alerts[3], after]):
            assert sink.write(Batch.of(batch)) == {}
            token = sink.flush()
            sink.close()
            sink = opened(tmp_path, token)
        assert sink.write(Batch.of([replace(after, step=6)])) == {"late_step": 1}
        sink.close()
        seen = read_back({"target": str(tmp_path)})
        assert sorted((s.name, s.step, s.value.split()[1]) for s in seen) == [
            ("exploding", 7, "fc0"), ("exploding", 7, "fc1"), ("exploding", 7, "fc2"), ("exploding", 7, "fc3"),
            ("exploding", 8, "fc9"),
        ]  # fmt: skip
        (path,) = tmp_path.iterdir()
        assert path.read_bytes().count(b"exploding (alert)") == 1
        assert path.read_bytes().count(b"exploding (alert 2)") == 1


class TestFolders:
    def test_another_run_with_the_same_target_gets_a_folder_in_there(self, tmp_path):
        """TensorBoard shows a folder as one run: two runs in one would erase each other's points."""
        first, second = INFO, replace(INFO, id="other", name="../other run")
        tokens = {}
        for info, value in ((first, 1.0), (second, 2.0)):
            tokens[info.id] = carried(tmp_path, Batch.of([Scalar(name="loss", value=value, step=0)]), info=info)
        (own,) = (path for path in tmp_path.iterdir() if path.is_dir())
        assert own.name.startswith("other_run-")
        assert [s.value for s in read_back({"target": str(own)})] == [2.0]
        again = Batch.of([Scalar(name="loss", value=3.0, step=0)], attempt=2)
        carried(tmp_path, again, tokens["other"], info=replace(second, name="renamed"), status="finished")
        assert [s.value for s in read_back({"target": str(own)})] == [3.0]
        (event_file,) = (path for path in tmp_path.iterdir() if path.is_file())
        own.rename(tmp_path.with_name("moved away"))
        assert [s.value for s in read_back({"target": str(tmp_path)})] == [1.0]
        assert event_file.exists()

    def test_runs_that_begin_at_the_same_moment_never_share_a_folder(self, tmp_path):
        runs = [replace(INFO, id=f"run {number}", name=f"run {number}") for number in range(8)]
        together = threading.Barrier(len(runs))

        def begin(info):
            sink = TensorBoardSink(str(tmp_path))
            together.wait(60)
            sink.open(info, None)
            sink.close()

        with ThreadPoolExecutor(len(runs)) as threads:
            list(threads.map(begin, runs))
        folders = Counter(path.parent for path in tmp_path.rglob("*tfevents*"))
        assert folders == dict.fromkeys(folders, 1)
        assert len(folders) == len(runs)

    def test_a_folder_that_is_removed_is_noticed(self, tmp_path):
        """What is written to a removed file is seen by nobody; delivery then starts over."""
        target = tmp_path / "board"
        sink = opened(target)
        token = sink.flush()
        shutil.rmtree(target)
        sink.write(Batch.of(scalars("loss", [0])))
        with pytest.raises(SinkError, match="was removed"):
            sink.flush()
        sink.close()
        with pytest.raises(StartOver, match="is gone"):
            TensorBoardSink(str(target)).open(INFO, token)


class TestValues:
    @pytest.mark.filterwarnings("error")
    def test_a_scalar_beyond_float32_shows_as_infinity(self, tmp_path):
        pair = [Scalar(name="loss", value=sign * 1e300, step=step) for step, sign in enumerate((1, -1))]
        options, _ = deliver(tmp_path, pair)
        assert [s.value for s in read_back(options)] == [math.inf, -math.inf]

    @pytest.mark.filterwarnings("error")
    def test_a_histogram_over_all_of_float32_keeps_its_count_and_ends(self, tmp_path):
        bits = np.random.default_rng(0).integers(0, 2**32, 200_000, dtype=np.uint64).astype(np.uint32)
        histogram = Histogram.from_values("h", bits.view(np.float32), step=0)
        options, _ = deliver(tmp_path, [histogram])
        (seen,) = read_back(options)
        assert seen.value == (histogram.finite_count, histogram.min, histogram.max)
        assert next(Path(options["target"]).glob("events*")).stat().st_size < 10_000


class TestErrors:
    def test_a_folder_that_cannot_be_made_is_named(self, tmp_path):
        (tmp_path / "taken").write_text("a file")
        sink = TensorBoardSink(target=str(tmp_path / "taken/tensorboard"))
        with pytest.raises(SinkError, match=r"cannot write to .*taken/tensorboard: Not a directory"):
            sink.open(INFO, None)
        sink.close()

    def test_writing_before_opening_is_refused(self, tmp_path):
        sink = TensorBoardSink(target=str(tmp_path))
        for call in (sink.flush, lambda: sink.write(Batch.of(scalars("loss", [0])))):
            with pytest.raises(SinkError, match="not open"):
                call()


def test_nothing_is_printed_and_no_thread_stays(tmp_path, capfd):
    before = set(threading.enumerate())
    deliver(tmp_path, one_of_each(tmp_path))
    assert set(threading.enumerate()) <= before
    assert capfd.readouterr() == ("", "")


def test_the_token_names_file_and_size(tmp_path):
    sink = opened(tmp_path)
    (path,) = tmp_path.iterdir()
    place = json.loads(sink.flush())
    assert (place["file"], place["offset"]) == (path.name, path.stat().st_size)
    assert "tfevents" in path.name
    sink.close()


# TensorBoard itself shows control characters as question marks.
visible = st.characters(exclude_categories=["Cs", "Cc"])
words = st.text(visible, max_size=20) | st.text("*_`|\\[](){}<>&#!~-+=:;.1a \n\"'", max_size=20)


@given(words, st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats()))
def test_table_cells_show_as_they_are(text, cell):
    from tracker_adapters.sinks.tensorboard.markdown import to_markdown

    table = Table(name="t", columns=("layer", "value"), rows=((text, cell),), step=0)
    wanted = f"layer value {text} {'' if cell is None else cell}".split()
    assert as_rendered(to_markdown(table)).split() == wanted


@given(words)
def test_alerts_show_as_they_are(text):
    from tracker_adapters.sinks.tensorboard.markdown import to_markdown

    alert = Alert(name="nan", message=text, level="error", step=0)
    assert as_rendered(to_markdown(alert)).split() == ["ERROR", *text.split()]
