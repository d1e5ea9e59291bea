"""Forked and spawned processes: the parent's run is exact, and nobody waits for a lock that nobody will release."""

import os

import pytest
from faults import accounts, program, stored_counts

import stepscope

pytestmark = pytest.mark.fault

FORK_WHILE_EMITTING = """
import os, sqlite3, sys, threading, warnings, numpy as np, stepscope
warnings.simplefilter("ignore")
run = stepscope.open_run(sys.argv[1], sinks=["local"])
stop, emitted = threading.Event(), [0] * 3
pixels = np.zeros((16, 16), np.uint8)
def emit(thread):
    while not stop.wait(0.0002):
        run.scalar(f"thread/{thread}", 1.0, step=emitted[thread])
        emitted[thread] += 1
        if emitted[thread] % 100 == 0:
            run.image("picture", pixels, layout="HW", step=emitted[thread])
threads = [threading.Thread(target=emit, args=(number,)) for number in range(3)]
for thread in threads:
    thread.start()
wrong = 0
for number in range(int(sys.argv[2])):
    pid = os.fork()
    if pid == 0:
        sqlite3.connect(":memory:").execute("CREATE TABLE of_its_own(a)")
        run.scalar("child", 1.0, step=number)
        run.scoped("child").text("note", "x", step=number)
        stats = run.stats
        exact = (stats.emitted, stats.stored, stats.lost) == (2, 0, {"emitted_in_forked_process": 2})
        waited = run.flush_store(), run.flush(0.1), run.close(0.1)
        # Every tenth ends as a script does, and takes apart what it inherited.
        (os._exit if number % 10 else sys.exit)(0 if exact and waited == (False,) * 3 else 1)
    wrong += os.waitpid(pid, 0)[1] != 0
stop.set()
for thread in threads:
    thread.join()
run.close(60)
pictures = sum(count // 100 for count in emitted)
print("counts", wrong, sum(emitted) + pictures, run.stats.emitted, run.stats.stored, len(run.stats.lost))
"""


@pytest.mark.parametrize("forks", [40, pytest.param(1000, marks=pytest.mark.slow)])
def test_forks_while_emitting(tmp_path, forks, fault_report):
    folder = tmp_path / "run"
    with program(folder, FORK_WHILE_EMITTING.replace("sys.argv[2]", str(forks))) as run:
        wrong, wanted, emitted, stored, lost = map(int, run.wait_for_line("counts", 600).split()[1:])
        assert run.end() == 0, run.errors()
    assert (wrong, emitted, stored, lost) == (0, wanted, wanted, 0)
    assert stored_counts(folder).total() == wanted
    assert accounts(folder)["local"].delivered == wanted
    assert [info.name for info in stepscope.read_run(folder).names() if "child" in info.name] == []
    if forks == 1000:
        fault_report.add("fork while three threads emit", runs=forks)


def test_data_loader_workers_count_and_warn_once_and_write_nothing(tmp_path, fault_report, warm_python):
    source = """
import sys, warnings, torch, stepscope
run = stepscope.open_run(sys.argv[1], sinks=["local"])
class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        run.scalar("worker/sample", float(index), step=index)
        return index
loader = torch.utils.data.DataLoader(Samples(), batch_size=4, num_workers=4)
for step, batch in enumerate(loader):
    run.scalar("loss", float(batch.sum()), step=step)
print("closed", run.close(60), run.stats.emitted, run.stats.stored)
"""
    folder = tmp_path / "run"
    (tmp_path / "load.py").write_text(source)
    done = warm_python.run(["load.py", str(folder)], folder=tmp_path, environment=os.environ)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["closed", "True", "16", "16"]
    assert done.stderr.count("RuntimeWarning: this forked process writes nothing") == 4
    record = stepscope.read_run(folder)
    assert [info.name for info in record.names("all")] == ["loss"]
    assert record.scalars("loss").values.tolist() == [float(sum(range(first, first + 4))) for first in range(0, 64, 4)]
    assert accounts(folder)["local"].delivered == 16
    fault_report.add("DataLoader with 4 forked workers that emit", runs=4)


@pytest.mark.slow
@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_a_run_that_is_sent_to_another_process_is_refused_in_one_sentence(tmp_path, method):
    """The worker opens its own, as another rank of the same run."""
    source = f"""
import multiprocessing, sys, stepscope
def work(run_or_path):
    with stepscope.open_run(run_or_path, sinks=[], rank=1) as run:
        run.scalar("loss", 2.0, step=0)
if __name__ == "__main__":
    context = multiprocessing.get_context("{method}")
    with stepscope.open_run(sys.argv[1], sinks=["local"]) as run:
        run.scalar("loss", 1.0, step=0)
        for sent in (run, run.scoped("val"), sys.argv[1]):
            worker = context.Process(target=work, args=(sent,))
            try:
                worker.start()
            except TypeError as error:
                print("refused", error)
            else:
                worker.join()
                print("worker", worker.exitcode)
"""
    script = tmp_path / "script.py"
    script.write_text(source)
    folder = tmp_path / "run"
    with program(folder, f"import runpy; runpy.run_path({str(script)!r}, run_name='__main__')") as run:
        for _ in range(2):
            assert run.wait_for_line("") == (
                "refused a run belongs to the process that opened it and cannot be pickled; open a run of its own in "
                "each process that emits, or return the values and emit them here"
            )
        run.wait_for_line("worker 0")
        assert run.end() == 0, run.errors()
    both = stepscope.read_run(folder).scalars("loss", rank="all")
    assert both.values.tolist() == [1.0, 2.0]


@pytest.mark.slow
def test_a_run_is_closed_by_its_parent_after_its_children_have_ended(tmp_path):
    source = """
import os, sys, stepscope
run = stepscope.open_run(sys.argv[1], sinks=["local"])
read, write = os.pipe()
run.scalar("loss", 0.0, step=0)
survivor = os.fork()
if survivor == 0:
    os.close(write)
    os.read(read, 1)  # until the parent has closed
    os._exit(0)
os.close(read)
pid = os.fork()
if pid == 0:
    sys.exit(0)
os.waitpid(pid, 0)
run.scalar("loss", 1.0, step=1)
print("closed", run.close(60))
with stepscope.open_run(sys.argv[1], sinks=["local"], resume=True) as run:
    run.scalar("loss", 2.0, step=2)
os.close(write)
os.waitpid(survivor, 0)
"""
    with program(tmp_path / "run", source) as run:
        run.wait_for_line("closed True")
        assert run.end() == 0, run.errors()
    assert stepscope.read_run(tmp_path / "run").scalars("loss").values.tolist() == [0.0, 1.0, 2.0]
    assert accounts(tmp_path / "run")["local"].delivered == 3


def test_a_forked_worker_may_open_a_run_of_its_own(tmp_path):
    source = """
import os, sys, stepscope
with stepscope.open_run(sys.argv[1], sinks=["local"]) as run:
    run.scalar("loss", 1.0, step=0)
    pid = os.fork()
    if pid == 0:
        own = stepscope.open_run(sys.argv[1], sinks=[], rank=1)
        own.scalar("loss", 2.0, step=0)
        os._exit(0 if own.close(30) and own.stats.stored == 1 else 1)
    print("worker", os.waitpid(pid, 0)[1])
"""
    with program(tmp_path / "run", source) as run:
        run.wait_for_line("worker 0")
        assert run.end() == 0, run.errors()
    assert stepscope.read_run(tmp_path / "run").scalars("loss", rank="all").values.tolist() == [1.0, 2.0]
