"""Several threads, runs and processes at once: exact counts, and one owner a folder."""

from contextlib import ExitStack

import pytest
from faults import accounts, program, stored_counts

import stepscope

pytestmark = pytest.mark.fault

OPEN_AT_ONCE = """
import sys, stepscope
from tracker_adapters.errors import RunError
print("ready")
sys.stdin.readline()
try:
    run = stepscope.open_run(sys.argv[1], sinks=["local"], exists="raise", resume=sys.argv[2] == "resume")
except RunError as error:
    print("refused", type(error).__name__, error)
else:
    run.scalar("loss", 1.0, step=0)
    print("opened", run.info.id)
    sys.stdin.readline()
    run.close(60)
"""


def test_eight_threads_emit_with_exact_counts(tmp_path, fault_report):
    source = """
import sys, threading, numpy as np, stepscope
run = stepscope.open_run(sys.argv[1], sinks=["local"])
start = threading.Barrier(8)
def emit(thread):
    mine = run.scoped(f"thread{thread}")
    start.wait()
    for step in range(1500):
        mine.scalar("loss", float(step), step=step)
        if step % 100 == 0:
            mine.histogram("grad", np.arange(10.0), step=step)
            mine.scalars(["a", "b"], [1.0, 2.0], step=step)
threads = [threading.Thread(target=emit, args=(number,)) for number in range(8)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
run.close(60)
print("counts", run.stats.emitted, run.stats.stored, len(run.stats.lost))
"""
    wanted = 8 * (1500 + 3 * 15)
    with program(tmp_path / "run", source) as run:
        assert run.wait_for_line("counts").split()[1:] == [str(wanted), str(wanted), "0"]
        assert run.end() == 0
    assert stored_counts(tmp_path / "run") == {"scalar": 8 * 1530, "histogram": 8 * 15}
    record = stepscope.read_run(tmp_path / "run")
    for thread in range(8):
        assert record.scalars(f"thread{thread}/loss").values.tolist() == list(map(float, range(1500)))
    assert accounts(tmp_path / "run")["local"].delivered == wanted
    fault_report.add("8 emitting threads")


@pytest.mark.parametrize("resume", ["new", pytest.param("resume", marks=pytest.mark.slow)])
def test_exactly_one_of_several_processes_gets_a_folder(tmp_path, resume, fault_report):
    folder = tmp_path / "run"
    if resume == "resume":
        stepscope.open_run(folder, sinks=[]).close()
    with ExitStack() as stack:
        source = OPEN_AT_ONCE.replace("sys.argv[2]", repr(resume))
        rivals = [stack.enter_context(program(folder, source)) for _ in range(4)]
        for rival in rivals:
            rival.wait_for_line("ready")
        for rival in rivals:
            rival.go_on()
        answers = [rival.wait_for_line("") for rival in rivals]
        winners = [rival for rival, answer in zip(rivals, answers, strict=True) if answer.startswith("opened")]
        assert len(winners) == 1, answers
        assert f"opened {stepscope.read_run(folder).info.id}" in answers
        for answer in answers:
            if not answer.startswith("opened"):
                assert answer.startswith("refused RunBusyError another live process writes to")
                assert str(folder) in answer
        winners[0].go_on()
        assert [rival.end() for rival in rivals] == [0] * 4
    assert accounts(folder)["local"].delivered == 1
    if resume == "new":
        fault_report.add("4 processes open one folder at the same moment", runs=4)


def test_runs_of_one_folder_and_one_second_are_told_apart(tmp_path):
    runs = [stepscope.open_run(tmp_path / f"run{number}", sinks=[]) for number in range(20)]
    try:
        assert len({run.info.id for run in runs}) == 20
    finally:
        for run in runs:
            run.close()
