"""The run store in a forked process: nothing of the parent's run is touched."""

import os
import subprocess
import sys

from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.writing.run_store import RunStore


def test_a_forked_child_counts_warns_once_and_writes_nothing(run_folder):
    script = f"""
import os, sys, warnings
from pathlib import Path
from tracker_adapters.emitter import Emitter
from tracker_adapters.store.writing.run_store import RunStore
store = RunStore(Path({str(run_folder)!r}))
emitter = Emitter(store)
emitter.scalar("parent", 1, step=0)
pid = os.fork()
if pid == 0:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(100):
            emitter.scalar("child", 1, step=step)
        store.close()
    counts = store.counts()
    os._exit(0 if (counts.emitted, counts.stored, counts.lost, len(caught)) == (
        100, 0, {{"emitted_in_forked_process": 100}}, 1) else 1)
_, status = os.waitpid(pid, 0)
emitter.scalar("parent", 2, step=1)
assert store.close(60)
sys.exit(os.waitstatus_to_exitcode(status))
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
    record = RunRecord(run_folder)
    assert [info.name for info in record.names()] == ["parent"]
    assert record.scalars("parent").values.tolist() == [1, 2]


def test_a_surviving_forked_child_does_not_keep_the_run_locked(run_folder):
    store = RunStore(run_folder)
    gate_read, gate_write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.close(gate_write)
        os.read(gate_read, 1)
        os._exit(0)
    os.close(gate_read)
    try:
        store.close()
        RunStore(run_folder, resume=True).close()
    finally:
        os.close(gate_write)
        os.waitpid(pid, 0)
