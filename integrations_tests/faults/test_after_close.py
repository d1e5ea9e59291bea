"""How a process ends: whatever still emits then is counted, raises nothing, and what came before is kept."""

import pytest
from faults import accounts, program
from waiting import until

import stepscope

pytestmark = pytest.mark.fault

PREPARED = """
import atexit, os, sys, threading, stepscope
class Emitting:
    def __init__(self, run):
        self.run = run
    def __del__(self):
        self.run.scalar("deleted", 1.0, step=0)
        self.run.image("picture", [[1.0]], layout="HW", value_range=(0, 1), step=0)
        self.run.flush_store(), self.run.flush(1), self.run.close(1), self.run.stats
run = stepscope.open_run(sys.argv[1], sinks=["local"])
for step in range(100):
    run.scalar("loss", float(step), step=step)
run.flush_store()
"""


def test_what_is_emitted_when_objects_die_at_the_end_raises_nothing(tmp_path, fault_report):
    ending = """
in_module, in_cycle, sys.kept = Emitting(run), Emitting(run), [Emitting(run)]
in_cycle.itself = in_cycle
atexit.register(run.scalar, "before ours", 1.0, step=0)
never = threading.Event()
def without_end():
    while not never.wait(0.001):  # the pace of a small training, so that the queue does not fill
        run.scalar("daemon", 1.0, step=0)
threading.Thread(target=without_end, daemon=True).start()
"""
    with program(tmp_path / "run", PREPARED + ending) as run:
        assert run.end() == 0
    errors = run.errors().splitlines()
    assert [line for line in errors if "emitted_after_close" not in line] == []
    assert 1 <= len(errors) <= 2  # the first one that is lost, and how many there were when the run was closed
    record = stepscope.read_run(tmp_path / "run")
    assert record.info.status == "finished"
    assert len(record.scalars("loss")) == 100
    assert record.scalars("before ours").values.tolist() == [1.0]
    assert accounts(tmp_path / "run")["local"].pending == 0
    fault_report.add("emit from __del__, atexit and a daemon thread while the interpreter ends")


def test_what_is_emitted_after_close_is_counted(tmp_path):
    ending = """
assert run.close(60)
for step in range(50):
    run.scalar("late", 1.0, step=step)
run.scalars(["a", "b"], [1.0, 2.0], step=0)
run.file(__import__("pathlib").Path(sys.argv[1]) / "run.json", step=0)
stats = run.stats
print("counts", stats.emitted, stats.stored, stats.lost, run.flush_store(), run.flush(), run.close())
"""
    with program(tmp_path / "run", PREPARED + ending) as run:
        assert run.wait_for_line("counts") == "counts 153 100 {'emitted_after_close': 53} True True True"
        assert run.end() == 0
        assert run.errors().count("\n") == 1


@pytest.mark.parametrize(
    ("ending", "code", "status"),
    [
        pytest.param("sys.exit(3)", 3, "finished", marks=pytest.mark.slow),
        pytest.param("with run: sys.exit(3)", 3, "failed", marks=pytest.mark.slow),
        pytest.param("with run: sys.exit(0)", 0, "finished", marks=pytest.mark.slow),
        pytest.param("1 / 0", 1, "failed", marks=pytest.mark.slow),
        pytest.param("threading.Thread(target=lambda: 1 / 0).start()", 0, "finished", marks=pytest.mark.slow),
        pytest.param("os._exit(5)", 5, "failed", marks=pytest.mark.slow),
        ("os.abort()", -6, "failed"),
    ],
)
def test_each_way_to_end_keeps_what_was_stored_and_says_how_it_ended(tmp_path, ending, code, status):
    """``sys.exit`` outside of the run's ``with`` looks like an end as any other."""
    folder = tmp_path / "run"
    with program(folder, PREPARED + "print('ready')\nsys.stdin.readline()\n" + ending) as run:
        run.wait_for_line("ready")
        children = run.delivery_processes()
        run.go_on()
        assert run.end() == code
        until(lambda: not any(child.is_running() for child in children))
    record = stepscope.read_run(folder)
    assert record.info.status == status
    assert len(record.scalars("loss")) == 100
    assert accounts(folder)["local"].delivered == 100
