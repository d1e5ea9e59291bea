"""A process beside the training takes the lowest priority, and its parent's while that waits for it."""

import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from delivery_processes import delivery_processes
from tracker_adapters.child_process import NICENESS, answer_of, import_path, python_environment, set_niceness
from tracker_adapters.config import PRIORITY_VARIABLE
from tracker_adapters.sink import SCRIPT_VARIABLE
from waiting import until

import stepscope

CHILD = """
import sys, threading
from tracker_adapters.child_process import step_back
gate = threading.Event()
step_back()
thread = threading.Thread(target=gate.wait)
thread.start()
print("ready", flush=True)
sys.stdin.readline()
gate.set()
"""


@pytest.fixture(autouse=True)
def lowest_priority(monkeypatch):
    monkeypatch.delenv(PRIORITY_VARIABLE, raising=False)


@pytest.fixture
def child():
    process = subprocess.Popen(
        [sys.executable, "-c", CHILD],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=python_environment(),
        start_new_session=True,
    )
    assert process.stdout.readline() == b"ready\n"
    yield process
    if process.poll() is None:
        process.communicate(b"\n", timeout=30)


def priorities(process):
    """Returns the niceness of each thread; on Linux, the only system that keeps one for each."""
    threads = [int(entry.name) for entry in Path(f"/proc/{process.pid}/task").glob("*")] or [process.pid]
    return {os.getpriority(os.PRIO_PROCESS, thread) for thread in threads}


def may_raise_priorities():
    return subprocess.run([sys.executable, "-c", "import os; os.nice(1); os.nice(-1)"], check=False).returncode == 0


def test_every_thread_comes_forward_while_it_is_waited_for_and_goes_back(child):
    own = os.getpriority(os.PRIO_PROCESS, 0)
    assert priorities(child) == {NICENESS}
    set_niceness(child.pid, own)
    assert priorities(child) == ({own} if may_raise_priorities() else {NICENESS})
    set_niceness(child.pid, NICENESS)
    assert priorities(child) == {NICENESS}


def test_a_child_keeps_the_priority_of_its_parent_where_the_environment_says_so(monkeypatch, request):
    monkeypatch.setenv(PRIORITY_VARIABLE, "same")
    own = os.getpriority(os.PRIO_PROCESS, 0)
    child = request.getfixturevalue("child")
    assert priorities(child) == {own}
    set_niceness(child.pid, NICENESS)
    assert priorities(child) == {own}


def test_a_process_that_has_gone_is_no_error(child):
    child.communicate(b"\n", timeout=30)
    set_niceness(child.pid, 0)


def test_what_import_passes_over_is_left_out(monkeypatch):
    monkeypatch.setattr(sys, "path", ["", Path("/of a/notebook"), b"/bytes", None, "/plain"])

    assert import_path() == [str(Path.cwd()), "/plain"]


def test_a_program_without_arguments_has_no_script(monkeypatch):
    monkeypatch.setattr(sys, "argv", [])
    monkeypatch.delenv(SCRIPT_VARIABLE, raising=False)

    assert python_environment()[SCRIPT_VARIABLE] == ""


@pytest.mark.skipif(not may_raise_priorities(), reason="only an administrator may raise priorities here")
def test_delivery_comes_forward_while_a_training_waits_in_flush(tmp_path):
    own = os.getpriority(os.PRIO_PROCESS, 0)
    with stepscope.open_run(tmp_path / "run", sinks=["local"]) as run:
        (delivery,) = delivery_processes(run=run.path)
        until(lambda: priorities(delivery) == {NICENESS})
        delivery.suspend()
        run.scalar("loss", 1.0, step=0)
        waiting = threading.Thread(target=run.flush, args=(60.0,))
        waiting.start()
        until(lambda: priorities(delivery) == {own})
        delivery.resume()
        waiting.join(60)

        assert priorities(delivery) == {NICENESS}


def test_a_module_answers_what_it_is_asked():
    assert answer_of("json.tool", "--compact", asked='{"a": "é"}', timeout_s=60) == '{"a":"\\u00e9"}\n'
    with pytest.raises(subprocess.CalledProcessError):
        answer_of("json.tool", asked="no JSON", timeout_s=60)


def test_a_module_that_does_not_answer_in_time_is_killed():
    with pytest.raises(subprocess.TimeoutExpired):
        answer_of("timeit", "-n", "1", "import threading; threading.Event().wait()", timeout_s=0.2)
