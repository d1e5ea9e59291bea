"""What a run records of its machine: plausible numbers, in a thread that ends with the run."""

import gc
import os
import subprocess
import sys
import threading

import psutil
import pytest
from waiting import until

import stepscope
from stepscope.runs import opening, system_metrics
from stepscope.runs.system_metrics import Host, Processes, SystemMetrics

pytestmark = pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
OFTEN_S = 0.02


@pytest.fixture(autouse=True)
def _on(monkeypatch):
    monkeypatch.delenv("STEPSCOPE_SYSTEM_METRICS")
    monkeypatch.delenv("LOCAL_RANK", raising=False)


def busy_s(process):
    """The seconds that a process has used of processors."""
    return sum(process.cpu_times()[:2])


def sampling():
    return [thread for thread in threading.enumerate() if thread.name == "stepscope-system"]


def recorded(folder):
    with stepscope.read_run(folder) as record:
        return {info.name: record.scalars(info.name) for info in record.names(0) if info.name.startswith("system/")}


def test_a_run_holds_what_its_machine_and_process_use(tmp_path, monkeypatch):
    monkeypatch.setattr(opening, "EVERY_S", OFTEN_S)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        until(lambda: run.stats.stored >= 40)
    found = recorded(tmp_path / "run")
    assert {
        "system/cpu_percent",
        "system/memory_percent",
        "system/process/cpu_percent",
        "system/process/memory_bytes",
        "system/process/threads",
    } <= found.keys()
    assert 0 < found["system/memory_percent"].values[-1] < 100
    own = psutil.Process().memory_info().rss
    assert 0.5 * own < found["system/process/memory_bytes"].values[-1]
    assert all((series.steps < 60).all() for series in found.values())  # seconds since the run was created
    assert not sampling()


def test_a_run_samples_every_ten_seconds_unless_it_is_told_not_to(tmp_path, monkeypatch):
    with stepscope.open_run(tmp_path / "on", sinks=[]) as run:
        assert len(sampling()) == 1
        assert run.stats.stored == 0
    with stepscope.open_run(tmp_path / "off", sinks=[], system_metrics=False):
        assert not sampling()
    monkeypatch.setenv("STEPSCOPE_SYSTEM_METRICS", "off")
    with stepscope.open_run(tmp_path / "env", sinks=[]):
        assert not sampling()


def test_wrong_switches_are_named_before_anything_is_written(tmp_path, monkeypatch):
    with pytest.raises(stepscope.RunError, match=r"system_metrics is 10; expected True or False"):
        stepscope.open_run(tmp_path / "run", sinks=[], system_metrics=10)
    monkeypatch.setenv("STEPSCOPE_SYSTEM_METRICS", "sometimes")
    with pytest.raises(stepscope.RunError, match=r"STEPSCOPE_SYSTEM_METRICS is 'sometimes'; expected on or off"):
        stepscope.open_run(tmp_path / "run", sinks=[])
    assert not (tmp_path / "run").exists()


def test_a_run_that_nobody_holds_is_sampled_no_more(tmp_path):
    run = stepscope.open_run(tmp_path / "run", sinks=[], system_metrics=False)
    SystemMetrics(run, OFTEN_S)
    run.close()
    del run
    gc.collect()
    until(lambda: not sampling())


def test_of_several_ranks_on_a_machine_one_tells_of_the_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    monkeypatch.setattr(opening, "EVERY_S", OFTEN_S)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        until(lambda: run.stats.stored >= 6)
    assert all(name.startswith("system/process/") for name in recorded(tmp_path / "run"))


def test_processes_that_this_one_started_count():
    processes, own = Processes(), psutil.Process()
    dict(processes.sample(1.0))
    begun_s = busy_s(own)
    alone = dict(processes.sample(1.0))
    busy = "import sys, time\nwhile time.process_time() < 0.1: pass\nprint('up', flush=True)\nsys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        child.stdout.readline()
        least_s = busy_s(psutil.Process(child.pid))
        both = dict(processes.sample(1.0))
        most_s = busy_s(own) - begun_s + busy_s(psutil.Process(child.pid))
    finally:
        child.communicate()
    assert both["process/threads"] == alone["process/threads"] + 1
    assert both["process/memory_bytes"] > alone["process/memory_bytes"]
    assert least_s > 0.05
    assert 100 * least_s - 1 < both["process/cpu_percent"] < 100 * most_s + 1


def test_time_on_processors_is_that_since_the_sample_before():
    processes, own = Processes(), psutil.Process()
    begun_s = busy_s(own)
    dict(processes.sample(1.0))
    before_s = busy_s(own)
    while busy_s(own) - before_s < 0.1:
        sum(range(10_000))
    least_s = busy_s(own) - before_s
    found = dict(processes.sample(0.5))["process/cpu_percent"]
    assert 200 * least_s - 1 < found < 200 * (busy_s(own) - begun_s) + 1


def test_rates_of_the_machine_begin_with_the_second_sample():
    host = Host()
    assert not [name for name, _ in host.sample(1.0) if name.endswith("_per_s")]
    rates = {name: value for name, value in host.sample(2.0) if name.endswith("_per_s")}
    assert rates
    assert all(value >= 0 for value in rates.values())


def test_a_source_that_fails_ends_alone(tmp_path, monkeypatch, caplog):
    class Failing:
        samples = 0

        def sample(self, seconds):
            Failing.samples += 1
            if Failing.samples > 1:
                raise OSError("the sensor is gone")
            yield "process/broken", 1.0

    monkeypatch.setattr(system_metrics, "nvidia_devices", Failing)
    monkeypatch.setattr(opening, "EVERY_S", OFTEN_S)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        until(lambda: run.stats.stored >= 20)
    assert Failing.samples == 2
    assert caplog.text.count("system metrics of Failing end: OSError('the sensor is gone')") == 1


def test_a_child_of_a_fork_closes_its_copy_without_waiting(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        child = os.fork()
        if not child:
            run.close()
            os._exit(7)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
        assert len(sampling()) == 1
