"""How many requests a tracking server is asked: with a server that is far away, each one is a wait."""

import re
from collections import Counter

import numpy as np
import pytest
from mlflow_delivery import opened
from mlflow_server import tracking_server
from readback_mlflow import read_back
from tcp_proxy import Fault, proxy_before
from tracker_adapters.artifacts import Histogram, Image, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import TIME_NS, one_of_each

pytestmark = pytest.mark.slow
UPLOAD = "PUT artifacts"
LOG_BATCH = "POST runs/log-batch"
SHORTENED = re.compile(r"/api/\d\.\d/mlflow(?:-artifacts)?/|(?<=artifacts)/.*")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with tracking_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.fixture
def options(server, tmp_path):
    return MLflowSink.resolve({"target": server.address, "experiment": str(tmp_path)}, tmp_path / "run")


class Requests:
    """Counts a server's requests by method and endpoint."""

    def __init__(self, server):
        self._server = server
        self._seen = len(server.requests())

    def new(self):
        """Returns the requests since it was last asked."""
        found = self._server.requests()
        new, self._seen = found[self._seen :], len(found)
        return Counter(SHORTENED.sub("", request) for request in new)


def scalars(step, names=("loss", "accuracy")):
    return [Scalar(name=name, value=step / 8, step=step, time_ns=TIME_NS + step * 10**6) for name in names]


def scalars_histogram_and_image(step):
    return [
        *scalars(step),
        Histogram.from_values("grad", np.arange(9.0), step=step, time_ns=TIME_NS),
        Image.from_array("input", np.zeros((8, 8), np.uint8), step=step, layout="HW", time_ns=TIME_NS),
    ]


def test_a_new_run_and_its_writes(server, options, tmp_path):
    requests = Requests(server)
    sink = opened(options)
    sink.write(Batch.of(scalars_histogram_and_image(0)))
    sink.flush()
    found = requests.new()
    assert found == {
        "GET experiments/get-by-name": 1,
        "POST experiments/create": 1,
        "POST runs/search": 1,
        "POST runs/create": 1,
        LOG_BATCH: 2,  # configuration and tags; scalars
        "GET runs/get": 1,  # by MLflow's client, once for a run
        UPLOAD: 3,  # an image is two files; one file of the index
    }
    sink.write(Batch.of(scalars_histogram_and_image(1), first_seq=5))
    sink.flush()
    assert requests.new() == {LOG_BATCH: 1, UPLOAD: 3}
    sink.write(Batch.of(scalars(2), first_seq=9))
    sink.flush()
    assert requests.new() == {LOG_BATCH: 1}
    sink.write(Batch.of(scalars(3, [f"{number}{'x' * 300}" for number in range(9)]), first_seq=11))
    assert requests.new() == {LOG_BATCH: 1}, "names that have to be cut are sent one by one"
    sink.write(Batch.of(one_of_each(tmp_path, step=4), first_seq=20))
    assert requests.new() == {LOG_BATCH: 1, UPLOAD: 11, "GET runs/get": 1, "POST runs/set-tag": 1}
    sink.write(Batch.of(one_of_each(tmp_path, step=5), first_seq=29))
    assert requests.new() == {LOG_BATCH: 1, UPLOAD: 11, "POST runs/set-tag": 1}


def test_a_request_on_a_connection_that_the_server_has_just_ended_is_made_again(server, tmp_path):
    with proxy_before(server.port) as proxy:
        options = MLflowSink.resolve({"target": proxy.address, "experiment": str(tmp_path)}, tmp_path / "run")
        sink = opened(options)
        requests = Requests(server)
        proxy.fault = Fault()
        for step in range(3):
            proxy.fault.closes_kept += 1
            sink.write(Batch.of(scalars_histogram_and_image(step), first_seq=1 + 4 * step))
            sink.flush()
            assert proxy.fault.closes_kept == 0
        proxy.fault = None
        assert requests.new() == {LOG_BATCH: 3, "GET runs/get": 1, UPLOAD: 9}, "each reached the server once"
        assert len(read_back(options)) == 12


def test_the_first_write_after_opening_again_reads_the_index_once(server, options):
    sink = opened(options)
    sink.write(Batch.of(scalars_histogram_and_image(0)))
    token = sink.flush()
    requests = Requests(server)
    sink = opened(options, token)
    assert requests.new() == {"GET runs/get": 1}
    sink.write(Batch.of(scalars_histogram_and_image(1), first_seq=5))
    found = requests.new()
    found.pop("GET server-info", None)  # by MLflow's client, at most once a minute
    assert found == {LOG_BATCH: 1, "GET artifacts": 3, UPLOAD: 3}
    sink.finish("finished")
    assert [seen.step for seen in read_back(options) if seen.kind == "histogram"] == [0, 1]


def test_the_end_lists_all_tables_of_histograms_at_once(server, options):
    sink = opened(options)
    sink.write(Batch.of([Histogram.from_values(f"h{number}", np.arange(9.0), step=0) for number in range(3)]))
    sink.flush()
    requests = Requests(server)
    sink.finish("finished")
    assert requests.new() == {"POST runs/update": 1, UPLOAD: 6, "GET runs/get": 1, "POST runs/set-tag": 1}
