"""The MLflow sink: the contract, and the rules that its docstrings state, read back through MLflowClient."""

import math
import subprocess
import sys
from collections import Counter
from pathlib import Path

import mlflow
import numpy as np
import pytest
from mlflow_delivery import client_of, deliver, opened, the_run, with_database
from readback_mlflow import artifact_paths, read_back
from tracker_adapters.artifacts import Alert, Histogram, Image, Page, PageEntry, Scalar, Table, Text
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import TIME_NS, SinkContract, one_of_each

MAX = 1.7976931348623157e308


class TestMLflowSink(SinkContract):
    sink_class = MLflowSink

    def options(self, folder):
        return with_database(MLflowSink.resolve({}, folder))

    def read_back(self, options):
        return read_back(options)

    @pytest.mark.parametrize(
        "values",
        [
            pytest.param([], id="empty", marks=pytest.mark.slow),
            pytest.param([-1.0, math.nan, math.inf, 4.0], id="mixed"),
            pytest.param([1e300], id="beyond-float32", marks=pytest.mark.slow),
            pytest.param([math.nan] * 3, id="all-nan", marks=pytest.mark.slow),
            pytest.param([math.inf, -math.inf], id="all-inf", marks=pytest.mark.slow),
            pytest.param([2.5] * 4, id="constant", marks=pytest.mark.slow),
            pytest.param([0.0, 0.0], id="zeros", marks=pytest.mark.slow),
        ],
    )
    def test_hard_histograms(self, run_folder, values):
        super().test_hard_histograms(run_folder, values)

    # Each takes several processes that import MLflow. make test has them with the other sinks, and make slow kills
    # trainings that deliver to all.

    @pytest.mark.slow
    def test_a_killed_sink_resumes_from_its_token(self, run_folder, sources):
        super().test_a_killed_sink_resumes_from_its_token(run_folder, sources)

    @pytest.mark.slow
    def test_a_sink_killed_before_its_first_token_starts_over(self, run_folder, sources):
        super().test_a_sink_killed_before_its_first_token_starts_over(run_folder, sources)

    @pytest.mark.slow
    def test_a_killed_delivery_is_started_again_without_gap_or_double(self, run_folder, sources):
        super().test_a_killed_delivery_is_started_again_without_gap_or_double(run_folder, sources)

    @pytest.mark.slow
    def test_a_killed_trainer_loses_nothing_and_a_resumed_one_doubles_nothing(self, run_folder, sources):
        super().test_a_killed_trainer_loses_nothing_and_a_resumed_one_doubles_nothing(run_folder, sources)

    @pytest.mark.slow
    def test_a_sink_prints_nothing_and_leaves_nothing_behind(self, run_folder, sources):
        super().test_a_sink_prints_nothing_and_leaves_nothing_behind(run_folder, sources)

    @pytest.mark.slow
    def test_odd_names_come_back_and_stay_inside_the_folder(self, run_folder, sources):
        super().test_odd_names_come_back_and_stay_inside_the_folder(run_folder, sources)


@pytest.fixture
def options(tmp_path):
    return with_database(MLflowSink.resolve({}, tmp_path / "exp1"))


@pytest.fixture
def fluent(options):
    """A client whose ``load_table`` works: it searches runs at the global tracking URI."""
    mlflow.set_tracking_uri(options["target"])
    yield client_of(options)
    mlflow.set_tracking_uri(None)


def histograms(name, steps):
    return [Histogram.from_values(name, np.arange(10) * (step + 1), step=step, time_ns=TIME_NS) for step in steps]


class TestScalars:
    def test_a_batch_of_more_metrics_than_a_request_takes(self, options):
        artifacts = [Scalar(name=f"m{i}", value=i, step=0, time_ns=TIME_NS) for i in range(1500)]
        deliver(options, artifacts)
        assert the_run(options).data.metrics == {f"m{i}": float(i) for i in range(1500)}

    def test_infinity_and_the_largest_float_are_told_apart(self, options):
        values = [np.inf, -np.inf, MAX, -MAX]
        deliver(options, [Scalar(name="x", value=v, step=i, time_ns=TIME_NS) for i, v in enumerate(values)])
        seen = [s.value for s in read_back(options)]
        assert seen == [np.inf, -np.inf, np.nextafter(MAX, 0), -np.nextafter(MAX, 0)]
        assert "1.7976931348623157e+308" in the_run(options).data.tags["stepscope.infinity"]

    def test_a_run_without_infinity_has_no_tag_about_it(self, options):
        deliver(options, [Scalar(name="x", value=v, step=i, time_ns=TIME_NS) for i, v in enumerate([1.0, np.nan])])
        assert "stepscope.infinity" not in the_run(options).data.tags


class TestHistograms:
    def test_each_name_has_a_heat_map_and_a_table_over_all_steps(self, options, fluent):
        sink = opened(options)
        sink.write(Batch.of([*histograms("fc1/weight", range(3)), *histograms("Odd [0]", range(3))]))
        token = sink.flush()
        sink = opened(options, token)
        sink.write(Batch.of(histograms("fc1/weight", range(3, 7)), first_seq=7))
        sink.flush()
        sink.finish("finished")
        run_id, experiment_id = the_run(options).info.run_id, the_run(options).info.experiment_id
        paths = artifact_paths(client_of(options), run_id, "histograms")
        assert sum(path.endswith(".png") for path in paths) == 2
        table = fluent.load_table(experiment_id, "histograms/fc1~weight.json", run_ids=[run_id])
        assert table["step"].tolist() == list(range(7))
        assert table["max"].tolist() == [9.0 * (step + 1) for step in range(7)]
        assert all(sum(counts) == 10 for counts in table["counts"])

    def test_a_heat_map_is_drawn_during_the_run_when_it_is_due(self, options, monkeypatch):
        monkeypatch.setattr("tracker_adapters.sinks.mlflow.heat_maps.INTERVAL_S", 0.0)
        sink = opened(options)
        sink.write(Batch.of(histograms("h", range(3))))
        sink.flush()
        assert "histograms/h.png" in artifact_paths(client_of(options), the_run(options).info.run_id)


class TestFiles:
    def test_the_last_alert_and_their_number_are_tags_and_a_replay_counts_once(self, options):
        sink = opened(options)
        sink.write(Batch.of([Alert(name="nan loss", message="first", step=1)]))
        token = sink.flush()
        rest = Batch.of([Alert(name="nan loss", message="second", step=2, level="error")], first_seq=2)
        for _ in range(2):
            sink = opened(options, token)
            sink.write(rest)
        tags = the_run(options).data.tags
        assert tags["stepscope.alert.nan loss"] == "2 so far; the last at step 2: error: second"

    def test_a_replay_in_other_batches_doubles_nothing(self, options, tmp_path):
        artifacts = [a for step in range(4) for a in one_of_each(tmp_path, step=step)]
        sink = opened(options)
        for cut in (9, 18, 27):
            sink.write(Batch.of(artifacts[cut - 9 : cut], first_seq=cut - 8))
        sink = opened(options)
        sink.write(Batch.of(artifacts[:13]))
        sink.write(Batch.of(artifacts[13:], first_seq=14))
        assert Counter((s.kind, s.step) for s in read_back(options)) == Counter((a.kind, a.step) for a in artifacts)

    def test_files_are_listed_by_step(self, options):
        steps = [0, 9, 50, 100, 123_456_789]
        deliver(options, [Text(name="note", text=str(step), step=step) for step in reversed(steps)])
        run_id = the_run(options).info.run_id
        paths = artifact_paths(client_of(options), run_id, "texts/note")
        assert [int(Path(path).stem.split("_")[1]) for path in paths] == steps

    def test_images_are_named_for_the_image_grid(self, options):
        large = Image.from_array("in/0", np.zeros((4, 600), np.uint8), step=7, layout="HW", time_ns=TIME_NS)
        deliver(options, [large])
        run = the_run(options)
        [thumbnail, full] = sorted(artifact_paths(client_of(options), run.info.run_id, "images"))
        stem = f"images/in~0+step+7+timestamp+{TIME_NS // 1_000_000}+"
        assert full.startswith(stem)
        assert thumbnail == full.replace(".png", "+compressed.webp")
        assert run.data.tags["mlflow.loggedImages"] == "True"

    def test_tables_open_as_tables(self, options, fluent):
        deliver(options, [Table(name="norms", columns=("layer", "norm"), rows=(("fc1", 0.5),), step=1)])
        run = the_run(options)
        table = fluent.load_table(run.info.experiment_id, "tables/norms/step_000000001_1.json")
        assert table.to_dict("records") == [{"layer": "fc1", "norm": 0.5}]

    def test_a_page_has_an_escaped_summary_beside_it(self, options, tmp_path):
        path = tmp_path / "page_0.pkl"
        path.write_bytes(b"page")
        entries = (PageEntry(datapoint=7, debugger="<script>alert(1)</script>", summary="a & b"),)
        deliver(options, [Page(name="<b>", path=path, contents=entries, step=1)])
        run_id = the_run(options).info.run_id
        [summary] = [p for p in artifact_paths(client_of(options), run_id, "pages") if p.endswith(".html")]
        html = Path(client_of(options).download_artifacts(run_id, summary)).read_text()
        assert "&lt;script&gt;alert(1)&lt;/script&gt;" in html
        assert "a &amp; b" in html
        assert "<script" not in html

    def test_a_name_never_leads_out_of_the_artifacts(self, options, tmp_path):
        path = tmp_path / "x"
        path.write_bytes(b"page")
        page = Page(name="../../../../up", path=path, filename="../../../../escaped", step=1)
        deliver(options, [page])
        assert not [p for p in tmp_path.rglob("*escaped*") if "artifacts" not in p.parts]
        assert [s.value for s in read_back(options)] == [page.sha256]


QUIET = """
import signal, sys, threading
from pathlib import Path
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import INFO, ODD_NAMES, one_of_each
folder = Path(sys.argv[1])
options = MLflowSink.resolve({}, folder / "exp1")
assert not {"mlflow", "matplotlib", "sqlalchemy"} & sys.modules.keys()
handlers = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
sink = MLflowSink(**options)
sink.open(INFO, None)
sink.write(Batch.of([artifact for name in ODD_NAMES for artifact in one_of_each(folder, name=name)]))
sink.flush()
sink.finish("finished")
sink.close()
assert handlers == [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)]
assert threading.enumerate() == [threading.main_thread()]
"""


@pytest.mark.slow
def test_resolving_imports_no_sdk_and_delivering_is_silent_and_leaves_nothing_behind(tmp_path):
    result = subprocess.run([sys.executable, "-c", QUIET, str(tmp_path)], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (0, "", "")
