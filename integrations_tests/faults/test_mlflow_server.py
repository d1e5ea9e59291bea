"""A tracking server that is down, slow, overloaded, silent or forgetful while a run trains."""

from dataclasses import dataclass

import pytest
from fault_training import emitted_by
from faults import training
from mlflow_faults import (
    assert_shown_exactly_once,
    position,
    runs_in,
    wait_until_delivered,
    wait_until_failing,
)
from mlflow_native import EXPERIMENT, NativeClient, native_client
from mlflow_server import TrackingServer, tracking_server
from tcp_proxy import Fault, TcpProxy, proxy_before
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.store.layout import DELIVERY_LOG, rank_folder

pytestmark = [pytest.mark.fault, pytest.mark.slow]

CREATING = [
    b"POST /api/2.0/mlflow/experiments/create",
    b"POST /api/2.0/mlflow/runs/create",
    b"POST /api/2.0/mlflow/runs/log-batch",
    b"PUT /api/2.0/mlflow-artifacts/artifacts/",
]
IMPATIENT = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "3"}
"""For tests alone: a silent server is noticed after 3 s, not 15."""


@dataclass
class Place:
    """A tracking server, the proxy before it, and a native client behind the same proxy."""

    server: TrackingServer
    proxy: TcpProxy
    native: NativeClient


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    with (
        tracking_server(tmp_path_factory.mktemp("server")) as server,
        proxy_before(server.port) as proxy,
        native_client(proxy.address) as native,
    ):
        yield Place(server, proxy, native)


@pytest.fixture
def options(place, tmp_path):
    return MLflowSink.resolve({"target": place.proxy.address, "experiment": str(tmp_path)}, tmp_path / "run")


def sink(options, **more):
    return [{"type": "mlflow", **options, **more}]


class Steps:
    """Moves a training from pause to pause."""

    def __init__(self, run, folder, size):
        self.run, self.folder, self.size = run, folder, size
        self.done = size
        run.wait_for_step(size - 1)

    def more(self):
        """Lets the training take as many steps as before the first pause."""
        self.run.go_on()
        self.done += self.size
        self.run.wait_for_step(self.done - 1)

    def delivered(self):
        """Waits until all that was emitted so far is delivered; returns the seconds that it took."""
        return wait_until_delivered(self.folder, self.done)


@pytest.mark.slow
def test_refused_silent_overloaded_and_restarted_servers(place, options, tmp_path, fault_report):
    """One fault after the other is done to one run, which recovers from each by itself."""
    size, rounds = 20, 6
    pauses = [size * number - 1 for number in range(1, rounds + 1)]
    folder = tmp_path / "run"
    with training(folder, sink(options), steps=size * rounds, pauses=pauses, environment=IMPATIENT) as run:
        steps = Steps(run, folder, size)
        steps.delivered()

        def endure(name):
            """Takes steps under the fault that now prevails; returns once the sink has failed."""
            native[name] = place.native.call("metric")
            steps.more()
            wait_until_failing(folder)

        native: dict[str, int] = {}
        place.proxy.refuse()
        endure("MLflow server: connection refused")
        place.proxy.listen()
        recovered = {"MLflow server: connection refused": steps.delivered()}

        for status in ("429 Too Many Requests", "503 Service Unavailable"):
            before, name = place.proxy.requests, f"MLflow server: {status}, Retry-After: 3600, then fine"
            place.proxy.fault = Fault(status=status)
            endure(name)
            asked = place.proxy.requests - before
            place.proxy.fault = None
            recovered[name] = steps.delivered()
            assert asked < 20, "the server was hammered"

        place.proxy.fault = Fault(black_hole=True)
        endure("MLflow server: takes requests, answers nothing")
        place.proxy.fault = None
        place.proxy.refuse()
        place.proxy.listen()
        recovered["MLflow server: takes requests, answers nothing"] = steps.delivered()

        place.server.stop()
        endure("MLflow server restarted")
        place.server.start()
        recovered["MLflow server restarted"] = steps.delivered()

        run.go_on()
        found = run.result()
    assert found["complete"]
    assert found["emitted"] == found["stored"] == emitted_by(steps.done).total()
    assert_shown_exactly_once(options, folder, steps.done)
    for name, seconds in recovered.items():
        fault_report.add(name, recovery_s=seconds, native=f"log_metric {place.native.outcome(native[name])}")


def test_answers_lost_after_the_commit(place, options, tmp_path, fault_report):
    """The server has made an experiment, a run, points and a file, and nobody hears of it: all are there once."""
    folder = tmp_path / "run"
    runs_before = runs_in(place.server.address, EXPERIMENT)
    with training(folder, sink(options), steps=40, pauses=[39]) as run:
        place.proxy.fault = Fault(cut=[*CREATING])
        lost_before = place.proxy.lost_answers
        run.wait_for_step(39)
        seconds = wait_until_delivered(folder, 40)
        lost = place.proxy.lost_answers - lost_before
        place.proxy.fault = Fault(cut=[CREATING[1]])
        call = place.native.call("run")
        assert place.native.wait(call, 60)
        place.proxy.fault = None
        run.go_on()
        found = run.result()
    assert lost == len(CREATING)
    assert found["complete"]
    assert_shown_exactly_once(options, folder, 40)
    assert runs_in(place.server.address, str(tmp_path)) == 1
    doubled = runs_in(place.server.address, EXPERIMENT) - runs_before
    native = f"create_run {place.native.outcome(call)}: {doubled} runs for one call"
    fault_report.add("MLflow server: answers lost after the commit", runs=lost, recovery_s=seconds, native=native)


@dataclass(frozen=True)
class Slow:
    """A server's delay before each answer, the sink's deadline for a call, and the steps before and after it begins."""

    delay_s: float
    deadline_s: float
    before: int
    steps: int


@pytest.mark.parametrize(
    "slow",
    [Slow(0.5, 2.0, before=0, steps=40), pytest.param(Slow(5.0, 10.0, before=21, steps=11), marks=pytest.mark.slow)],
)
def test_a_slow_server_that_answers_is_not_given_up(place, options, tmp_path, fault_report, slow):
    """One call of the sink makes more requests than its deadline has time for, and still is not started again."""
    folder, steps = tmp_path / "run", slow.before + slow.steps
    pauses = [slow.before - 1, steps - 1]
    if not slow.before:
        place.proxy.fault = Fault(delay_s=slow.delay_s)
    with training(folder, sink(options, deadline_s=slow.deadline_s), steps=steps, pauses=pauses) as run:
        if slow.before:
            run.wait_for_step(slow.before - 1)
            wait_until_delivered(folder, slow.before)
            place.proxy.fault = Fault(delay_s=slow.delay_s)
            run.go_on()
        call = place.native.call("metric")
        run.wait_for_step(steps - 1)
        seconds = wait_until_delivered(folder, steps, 200)
        assert place.native.wait(call, 60)
        place.proxy.fault = None
        run.go_on()
        assert run.result()["complete"]
    assert "did not return" not in (rank_folder(folder, 0) / DELIVERY_LOG).read_text()
    assert position(folder).failures == 0
    assert_shown_exactly_once(options, folder, steps)
    native = f"log_metric {place.native.outcome(call)}, at each call"
    fault_report.add(f"MLflow server: {slow.delay_s:g} s a request", recovery_s=seconds, native=native)
