"""The W&B sink: the contract, its options, and the rules that its docstring states."""

import json
import math
import subprocess
import sys

import numpy as np
import pytest
from readback_wandb import history, read_back, records, run_folders
from tracker_adapters.artifacts import Curve, Histogram, RunInfo, Scalar, Table, Text
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkConfigError
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO, SinkContract, one_of_each


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch):
    for variable in ("DIR", "PROJECT", "ENTITY", "RUN_GROUP", "NAME", "MODE", "TAGS", "RUN_ID"):
        monkeypatch.delenv(f"WANDB_{variable}", raising=False)


class TestWandbSink(SinkContract):
    sink_class = WandbSink

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

    @pytest.mark.slow  # test_wandb_process.py has more of it
    def test_a_sink_prints_nothing_and_leaves_nothing_behind(self, run_folder, sources):
        super().test_a_sink_prints_nothing_and_leaves_nothing_behind(run_folder, sources)


def deliver(folder, artifacts, *, status="finished", info=INFO):
    """Delivers a run in one go; returns the folder that W&B made."""
    options = WandbSink.resolve({}, folder)
    sink = WandbSink(**options)
    sink.open(info, None)
    try:
        sink.write(Batch.of(artifacts))
        sink.flush()
        sink.finish(status)
    finally:
        sink.close()
    return run_folders(options)[-1]


def record_of(folder, kind):
    return next(getattr(record, kind) for record in records(folder) if record.WhichOneof("record_type") == kind)


class TestOptions:
    def test_the_default_is_offline_in_the_runs_folder(self, tmp_path):
        assert WandbSink.resolve({}, tmp_path) == {
            "target": str(tmp_path), "mode": "offline", "project": "stepscope"
        }  # fmt: skip

    def test_an_argument_goes_before_the_environment(self, tmp_path, monkeypatch):
        for variable, value in {
            "DIR": str(tmp_path / "shared"), "PROJECT": "p", "ENTITY": "e", "RUN_GROUP": "g", "NAME": "n",
            "MODE": "dryrun", "TAGS": "a,b", "RUN_ID": "r1",
        }.items():  # fmt: skip
            monkeypatch.setenv(f"WANDB_{variable}", value)
        from_environment = {
            "target": str(tmp_path / "shared"), "project": "p", "entity": "e", "group": "g", "name": "n",
            "mode": "offline", "tags": ["a", "b"], "run_id": "r1",
        }  # fmt: skip
        assert WandbSink.resolve({}, tmp_path) == from_environment
        assert WandbSink.resolve({"project": "mine"}, tmp_path) == from_environment | {"project": "mine"}

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({"mode": "disabled"}, "mode is 'disabled'; expected offline or online"),
            ({"project": "a/b"}, "project is 'a/b'; expected"),
            ({"run_id": "x" * 41}, "at most 40 characters"),
            ({"run_id": " x "}, "with no space around them"),
            ({"run_id": "a\nb"}, "expected printable characters"),
            ({"run_id": "a\0b"}, "expected printable characters"),
            ({"tags": [1]}, "expected a list of str"),
        ],
    )
    def test_what_wandb_refuses_is_refused_early(self, tmp_path, options, message):
        with pytest.raises(SinkConfigError, match=message):
            WandbSink.resolve(options, tmp_path)

    def test_a_variable_that_holds_what_is_refused_is_named(self, tmp_path, monkeypatch):
        monkeypatch.setenv("WANDB_MODE", "disabled")
        with pytest.raises(SinkConfigError, match="mode is 'disabled', from WANDB_MODE; expected offline or online"):
            WandbSink.resolve({}, tmp_path)

    def test_bytes_that_are_no_text_in_a_variable_stop_no_delivery(self, tmp_path, monkeypatch):
        for variable in ("ENTITY", "RUN_GROUP", "NAME", "TAGS", "RUN_ID"):
            monkeypatch.setenv(f"WANDB_{variable}", "a\udcff")
        run = record_of(deliver(tmp_path, []), "run")
        shown = (run.entity, run.run_group, run.display_name, run.tags[-1], run.run_id)
        assert shown == ("a\\udcff",) * 5

    def test_tags_may_be_a_tuple(self, tmp_path):
        assert WandbSink.resolve({"tags": ("a", "", "b")}, tmp_path)["tags"] == ["a", "b"]

    def test_resolving_imports_no_sdk(self, tmp_path):
        script = (
            "import sys, pathlib; from tracker_adapters.sinks.wandb import WandbSink as Sink;"
            "Sink(**Sink.resolve({}, pathlib.Path(sys.argv[1])));"
            "print([name for name in sys.modules if name.split('.')[0] == 'wandb'])"
        )
        done = subprocess.run([sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("[]\n", "")

    def test_the_upload_command_names_the_folder(self, tmp_path):
        assert WandbSink.look(WandbSink.resolve({}, tmp_path / "a b")) == f"wandb sync '{tmp_path / 'a b'}/wandb'"


class TestRows:
    def test_the_step_metric_is_our_own_field(self, tmp_path):
        folder = deliver(tmp_path, [Scalar(name="loss", value=1.0, step=7)])
        metric = record_of(folder, "metric")
        assert (metric.glob_name, metric.step_metric) == ("*", "step")

    def test_scalars_of_one_step_share_a_row_until_a_name_comes_again(self, tmp_path):
        named = [("a", 0), ("b", 0), ("a", 0), ("a", 1), ("b", 0)]
        scalars = [Scalar(name=name, value=float(i), step=step) for i, (name, step) in enumerate(named)]
        rows = history(deliver(tmp_path, scalars))
        plain = [{key: value for key, value in row.items() if not key.startswith("_")} for row in rows]
        assert plain == [
            {"step": 0, "a": 0, "b": 1}, {"step": 0, "a": 2}, {"step": 1, "a": 3}, {"step": 0, "b": 4}
        ]  # fmt: skip

    def test_rows_are_counted_over_kinds_and_batches_and_the_last_values_are_the_summary(self, tmp_path):
        options = WandbSink.resolve({}, tmp_path)
        sink = WandbSink(**options)
        sink.open(INFO, None)
        for steps in (range(3), range(3, 5)):
            scalars = [Scalar(name="loss", value=step / 2, step=step) for step in steps]
            histograms = [Histogram.from_values("h", [step], step=step) for step in steps]
            sink.write(Batch.of([*scalars, *histograms, Text(name="notes", text="t", step=steps[-1])]))
            sink.flush()
        sink.close()
        (folder,) = run_folders(options)
        rows = history(folder)
        assert [row["_step"] for row in rows] == list(range(12))
        summary = [record.summary for record in records(folder) if record.WhichOneof("record_type") == "summary"][-1]
        last = {tuple(item.nested_key): json.loads(item.value_json) for item in summary.update}
        assert (last["loss",], last["h", "bins"], last["step",], last["_step",]) == (2.0, rows[-2]["h"]["bins"], 4, 11)

    def test_rows_have_the_time_of_the_emit(self, tmp_path):
        (row,) = history(deliver(tmp_path, [Scalar(name="a", value=0.0, step=0, time_ns=1_500_000_000_250_000_000)]))
        assert row["_timestamp"] == pytest.approx(1_500_000_000.25, abs=1e-6)

    def test_non_finite_elements_of_a_histogram_are_counted_beside_it(self, tmp_path):
        values = [1.0, 2.0, math.nan, math.nan, math.inf, -math.inf]
        (row,) = history(deliver(tmp_path, [Histogram.from_values("h", values, step=0)]))
        assert sum(row["h"]["values"]) == 2
        assert (row["h (nan)"], row["h (+inf)"], row["h (-inf)"]) == (2, 1, 1)

    def test_a_wide_histogram_keeps_every_element_in_512_bins(self, tmp_path):
        values = [sign * 10.0**exponent for exponent in range(-37, 38) for sign in (1, -1)]
        (row,) = history(deliver(tmp_path, [Histogram.from_values("h", values, step=0)]))
        assert len(row["h"]["values"]) <= 512
        assert sum(row["h"]["values"]) == len(values)

    @pytest.mark.parametrize(
        "rows",
        [(), ((math.nan, math.inf),), ((1, "x"), ("y", None), (True, 2.5)), tuple((i, i / 2) for i in range(20_001))],
        ids=["empty", "non-finite", "mixed", "longer-than-W&B-shows"],
    )
    def test_tables_keep_every_cell(self, tmp_path, rows):
        deliver(tmp_path, [Table(name="t" * 300, columns=("a", "a"), rows=rows, step=0)])
        (seen,) = read_back(WandbSink.resolve({}, tmp_path))
        assert repr(seen.value) == repr((("a", "a"), rows))

    def test_texts_keep_every_character(self, tmp_path):
        text = "<script>alert('x')</script> &amp;\r\n\ttab\rreturn \x00\x7f\u2028 😀"
        deliver(tmp_path, [Text(name="notes", text=text, step=0)])
        assert [seen.value for seen in read_back(WandbSink.resolve({}, tmp_path))] == [text]


class TestCurves:
    def test_the_chart_is_described_as_the_sdk_describes_it(self, tmp_path):
        import wandb

        curve = Curve(name="val/roc", x=[0, 1], y=[0.5, math.nan], x_label="fpr", y_label="tpr", title="ROC", step=3)
        folder = deliver(tmp_path, [curve])
        table = wandb.Table(columns=["fpr", "tpr"], data=[[0.0, 0.5]])
        chart = wandb.plot.line(table, "fpr", "tpr", title="ROC", split_table=True)
        chart.set_key("val/roc")
        (item,) = record_of(folder, "config").update
        assert (tuple(item.nested_key), json.loads(item.value_json)) == (chart.spec.config_key, chart.spec.config_value)
        (row,) = history(folder)
        assert row[chart.spec.table_key]["_type"] == "table-file"

    def test_of_a_long_one_ten_thousand_points_are_shown_with_both_ends(self, tmp_path):
        deliver(tmp_path, [Curve(name="c", x=np.arange(25_000), y=np.zeros(25_000), step=0)])
        (seen,) = read_back(WandbSink.resolve({}, tmp_path))
        x, _ = seen.value
        assert (len(x), x[0], x[-1]) == (10_000, 0.0, 24_999.0)
        assert (np.diff(x) > 0).all()


class TestRun:
    @pytest.mark.parametrize(("status", "exit_code"), [("finished", 0), ("failed", 1)])
    def test_the_run_ends_as_ours_did(self, tmp_path, status, exit_code):
        assert record_of(deliver(tmp_path, [], status=status), "exit").exit_code == exit_code

    def test_each_start_from_the_beginning_has_an_id_of_its_own(self, tmp_path):
        ids = [record_of(deliver(tmp_path, []), "run").run_id for _ in range(3)]
        assert ids == ["contract", "contract.2", "contract.3"]
        assert len(run_folders(WandbSink.resolve({}, tmp_path), superseded=True)) == 2

    def test_id_name_tags_and_configuration_arrive(self, tmp_path):
        info = RunInfo(id="a/b:" + "x" * 90, name="my run", config={"optim": {"lr": 0.1}}, tags=("t" * 70, "u", "u"))
        run = record_of(deliver(tmp_path, [], info=info), "run")
        config = {item.key: json.loads(item.value_json) for item in run.config.update}
        assert (run.display_name, list(run.tags), config["optim"]) == ("my run", ["t" * 64, "u"], {"lr": 0.1})
        assert run.run_id.startswith("a_b_xxx")
        assert len(run.run_id) <= 40

    def test_a_page_is_referred_to_where_it_lies(self, tmp_path):
        artifacts = one_of_each(tmp_path)
        tracked = [
            r.artifact for r in records(deliver(tmp_path, artifacts)) if r.WhichOneof("record_type") == "artifact"
        ]
        paths = {artifact.type: artifact.manifest.contents[0].local_path for artifact in tracked}
        assert paths["page"] == str(tmp_path / "page_0.pkl")
        assert paths["file"] == str(tmp_path / "notes.bin")

    def test_a_page_that_was_removed_is_counted(self, tmp_path):
        page = next(artifact for artifact in one_of_each(tmp_path) if artifact.kind == "page")
        (tmp_path / "page_0.pkl").unlink()
        sink = WandbSink(**WandbSink.resolve({}, tmp_path))
        sink.open(INFO, None)
        assert sink.write(Batch.of([page])) == {"missing_file": 1}
        sink.close()
