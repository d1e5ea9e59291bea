"""What a tracking server refuses: the entries of a description one by one, drawings never at the cost of a batch."""

import json
import logging
from collections import Counter

import numpy as np
import pytest
from drawn_examples import examples
from faults import accounts
from hypothesis import given, settings
from hypothesis import strategies as st
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INTERNAL_ERROR, INVALID_PARAMETER_VALUE
from mlflow_delivery import client_of, opened, scalars, the_run, with_database
from readback_mlflow import artifact_paths, read_back
from tracker_adapters.artifacts import Histogram, Page
from tracker_adapters.batch import Batch
from tracker_adapters.delivery.worker import DeliveryWorker
from tracker_adapters.errors import MissingPackageError
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.sinks.mlflow.entries import Entry, send_entries, tag_entries
from tracker_adapters.testing.contract import TIME_NS

import stepscope

LIMIT_OF_AN_OLD_SERVER = 500


class OldServer:
    """Takes what a server takes: 100 entries and 1 MB a request, values of 500 characters, no key of ours."""

    def __init__(self):
        self.shown: dict[str, str] = {}

    def take(self, entries):
        too_large = len(entries) > 100 or len(json.dumps(entries)) > 1_000_000
        bad = [key for _, key, value in entries if len(value) > LIMIT_OF_AN_OLD_SERVER or key.startswith("bad")]
        if too_large or bad:
            raise MlflowException(f"refused {bad}", error_code=INVALID_PARAMETER_VALUE)
        self.shown |= {key: value for _, key, value in entries}


@settings(max_examples=examples(50))
@given(
    st.dictionaries(st.text(min_size=1, max_size=8), st.sampled_from(["", "v", "ü" * 500, "x" * 6000]), max_size=250)
)
def test_every_entry_that_a_server_can_take_is_shown(entries):
    server = OldServer()
    send_entries([*tag_entries(entries), Entry("param", "bad", "v")], server.take)
    assert server.shown.keys() == {key for key in entries if not key.startswith("bad")}
    for key, value in server.shown.items():
        assert value == entries[key] or (len(value) == 250 and value.endswith("(6000 characters)"))


def test_an_entry_that_is_left_out_is_named(caplog):
    with caplog.at_level(logging.WARNING):
        send_entries([Entry("param", "bad param", "v"), Entry("tag", "bad tag", "v")], OldServer().take)
    assert "refuses the param 'bad param'" in caplog.text
    assert "refuses the tag 'bad tag'" in caplog.text


def test_a_server_that_is_down_is_not_taken_for_one_that_refuses():
    def down(_):
        raise MlflowException("down", error_code=INTERNAL_ERROR)

    with pytest.raises(MlflowException, match="down"):
        send_entries(tag_entries({"lr": "0.1", "wd": "0"}), down)


@pytest.fixture
def options(tmp_path):
    return with_database(MLflowSink.resolve({}, tmp_path / "exp1"))


def histograms(steps):
    return [Histogram.from_values("h", np.arange(9.0), step=step, time_ns=TIME_NS) for step in steps]


class TestDrawing:
    @pytest.fixture(autouse=True)
    def _always_due(self, monkeypatch):
        monkeypatch.setattr("tracker_adapters.sinks.mlflow.heat_maps.INTERVAL_S", 0.0)

    def test_a_heat_map_that_cannot_be_stored_costs_no_histogram(self, options, tmp_path):
        sink = opened(options)
        sink.write(Batch.of(histograms(range(3))))
        [artifacts] = (tmp_path / "mlartifacts").glob("*/artifacts")
        (artifacts / "histograms").write_text("a file where a folder has to be")
        assert sink.flush()
        (artifacts / "histograms").unlink()
        sink.finish("finished")
        assert "histograms/h.png" in artifact_paths(client_of(options), the_run(options).info.run_id)
        assert len(read_back(options)) == 3

    def test_a_table_that_could_not_be_listed_is_listed_by_the_next_drawing(self, options):
        sink = opened(options)
        sink.write(Batch.of(histograms(range(3))))
        client, run_id = client_of(options), the_run(options).info.run_id
        client.delete_run(run_id)  # MLflow then refuses tags, and takes files
        sink.flush()
        client.restore_run(run_id)
        assert "mlflow.loggedArtifacts" not in the_run(options).data.tags
        sink.finish("finished")
        assert "histograms/h.json" in the_run(options).data.tags["mlflow.loggedArtifacts"]

    @pytest.mark.slow
    def test_a_name_is_drawn_again_only_when_it_has_grown(self, options, tmp_path):
        sink = opened(options)
        drawn = []
        for step in range(60):
            sink.write(Batch.of(histograms(range(step, step + 1)), first_seq=step + 1))
            sink.flush()
            [picture] = (tmp_path / "mlartifacts").glob("*/artifacts/histograms/h.png")
            drawn.append(picture.stat().st_mtime_ns)
        assert len(set(drawn)) < 20


def test_a_page_whose_file_is_gone_fails_alone(options, tmp_path):
    """So that bisection finds it, and what was written with it stays."""
    path = tmp_path / "page_0.pkl"
    path.write_bytes(b"page")
    page = Page(name="page", path=path, step=1)
    path.unlink()
    sink = opened(options)
    with pytest.raises(FileNotFoundError):
        sink.write(Batch.of([*scalars("loss", [1]), page, *histograms(range(2))]))
    sink = opened(options)
    sink.write(Batch.of(scalars("loss", [1])))
    sink.write(Batch.of(histograms(range(2)), first_seq=3))
    sink.flush()
    assert sorted(seen.kind for seen in read_back(options)) == ["histogram", "histogram", "scalar"]


def test_delivery_skips_the_one_artifact_that_cannot_be_shown(options, tmp_path):
    folder = tmp_path / "exp1"
    with stepscope.open_run(folder, sinks=[]) as run:
        for step in range(30):
            run.scalar("loss", step / 8, step=step)
            (tmp_path / "notes").write_text(f"notes of step {step}")
            run.file(tmp_path / "notes", name="notes", step=step)
    with stepscope.read_run(folder) as record:
        stored = record.files()
    stored[17].path.unlink()
    assert DeliveryWorker(folder, 0, "mlflow", options["target"], lambda: MLflowSink(**options)).run() == "done"
    assert accounts(folder)["mlflow"].failed == {"refused": 1}
    seen = Counter((one.kind, one.step) for one in read_back(options))
    expected = Counter((kind, step) for kind in ("scalar", "file") for step in range(30))
    assert seen == expected - Counter([("file", 17)])


def test_a_file_of_somebody_elses_in_the_index_is_left_alone(options):
    sink = opened(options)
    sink.write(Batch.of(histograms(range(2))))
    token = sink.flush()
    client_of(options).log_text(the_run(options).info.run_id, "not ours", "index/notes.txt")
    sink = opened(options, token)
    sink.write(Batch.of(histograms(range(2, 3)), first_seq=3))
    sink.finish("finished")
    assert [seen.step for seen in read_back(options)] == [0, 1, 2]


def test_a_database_whose_driver_is_not_installed_is_named(tmp_path):
    target = "mssql+pymssql://user:hunter2secret@127.0.0.1/mlflow"
    with pytest.raises(MissingPackageError, match="No module named 'pymssql'") as raised:
        opened(MLflowSink.resolve({"target": target}, tmp_path))
    assert "hunter2secret" not in str(raised.value)
