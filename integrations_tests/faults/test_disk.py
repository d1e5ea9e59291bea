"""Disks that are full, read-only or gone: the training goes on, and what waited is stored as soon as it can be."""

import os
import shutil
import subprocess
import time

import pytest
from all_sinks import wait_until_each_has
from fault_training import emitted_by
from faults import accounts, program, stored_counts, training
from tracker_adapters.config import SinkConfig
from tracker_adapters.delivery.process import DeliveryProcess
from tracker_adapters.errors import NotARunError
from tracker_adapters.registry import load_sink
from waiting import until

import stepscope
from stepscope.sync import sync_runs

pytestmark = pytest.mark.fault

NATIVE_TENSORBOARD = """
import sys
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(sys.argv[1], flush_secs=1)
for step in range(100):
    writer.add_scalar("loss", 0.5, step)
writer.flush()
print("ready")
sys.stdin.readline()
try:
    for step in range(100, 20_000):
        writer.add_scalar("loss", 0.5, step)
    writer.flush()
except OSError as error:
    print("raised", type(error).__name__, "at step", step)
else:
    print("kept")
"""


@pytest.fixture
def small_disk(tmp_path):
    """A file system of 12 MB."""
    disk = tmp_path / "disk"
    disk.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(disk)]
    if os.geteuid() != 0 or subprocess.run(command, check=False, capture_output=True).returncode != 0:
        pytest.skip("mounting a small file system needs root")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def linked(disk, name):
    """A folder on a disk; what a program says goes beside the link that is returned, where there is room for it."""
    (disk / name).mkdir()
    (disk.parent / name).symlink_to(disk / name)
    return disk.parent / name


def fill(disk):
    """Takes what is left of a disk; removing the file that it returns gives it back."""
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as stream:
        for size in (1 << 20, 1 << 12, 1):
            try:
                while stream.write(bytes(size)) == size:
                    pass
            except OSError:
                continue
    return filler


def test_a_full_disk_delays_and_loses_nothing(small_disk, fault_report):
    folder = linked(small_disk, "run")
    with training(folder, ["local"], steps=600, pauses=[100, 400]) as run:
        run.wait_for_step(100)
        until(lambda: stored_counts(folder) == emitted_by(101))
        filler = fill(small_disk)
        run.go_on()
        run.wait_for_step(400)
        until(lambda: "; retrying" in run.errors())
        assert stored_counts(folder) == emitted_by(101)
        filler.unlink()
        recovery = until(lambda: stored_counts(folder) == emitted_by(401))
        run.go_on()
        found = run.result()
    assert found["complete"]
    assert (found["emitted"], found["stored"], found["lost"]) == (emitted_by(600).total(),) * 2 + ({},)
    assert accounts(folder)["local"].delivered == emitted_by(600).total()
    assert run.errors().count("cannot write to") == 1
    native = native_summary_writer(small_disk) if fault_report.wanted else ""
    fault_report.add("disk full, then space again", recovery_s=recovery, native=native)


def native_summary_writer(disk):
    """Returns what TensorBoard's own writer does when the disk is full."""
    with program(linked(disk, "native"), NATIVE_TENSORBOARD) as native:
        native.wait_for_line("ready")
        fill(disk)
        native.go_on()
        return f"add_scalar {native.wait_for_line('')}"


def test_a_limit_on_the_size_of_files_stops_nothing(tmp_path, fault_report):
    """Beyond RLIMIT_FSIZE the kernel sends SIGXFSZ, whose default action kills."""
    source = """
import resource, sys, stepscope
run = stepscope.open_run(sys.argv[1], sinks=["local"])
run.scalar("loss", 0.0, step=0)
assert run.flush(60)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
for step in range(1, 30_000):
    run.scalar("loss", float(step), step=step)
print("limited", run.flush_store(), run.stats.emitted == run.stats.stored + run.stats.queued)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print("closed", run.flush_store(30), run.close(60), run.stats.stored, run.stats.lost)
"""
    with program(tmp_path / "run", source) as run:
        run.wait_for_line("limited False True")
        run.wait_for_line("closed True True 30000 {}")
        assert run.end() == 0, run.errors()
    assert stored_counts(tmp_path / "run") == {"scalar": 30_000}
    assert accounts(tmp_path / "run")["local"].delivered == 30_000
    fault_report.add("file-size limit, then lifted")


def test_a_disk_that_stays_full_costs_what_was_emitted_meanwhile_and_says_so(small_disk):
    folder = linked(small_disk, "run")
    with training(folder, ["local"], steps=300, pauses=[100, 200], close_timeout=3) as run:
        run.wait_for_step(100)
        until(lambda: stored_counts(folder) == emitted_by(101))
        filler = fill(small_disk)
        run.go_on()
        run.wait_for_step(200)
        run.go_on()
        found = run.result()
        filler.unlink()
    assert not found["complete"]
    assert found["stored"] == emitted_by(101).total()
    assert found["lost"] == {"store_not_writable": emitted_by(300).total() - emitted_by(101).total()}
    assert stored_counts(folder) == emitted_by(101)


def test_a_folder_that_cannot_be_written_is_refused_in_one_sentence(small_disk):
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(NotARunError, match=r"^cannot write into .*/disk/run: Read-only file system; expected a writ"):
        stepscope.open_run(small_disk / "run", sinks=["local"])


@pytest.mark.parametrize(
    "how", ["deleted", *(pytest.param(how, marks=pytest.mark.slow) for how in ("moved", "replaced"))]
)
def test_a_run_whose_folder_goes_away_trains_on(tmp_path, how, fault_report):
    folder = tmp_path / "run"
    with training(folder, ["local"], steps=300, pauses=[100, 200]) as run:
        run.wait_for_step(100)
        until(lambda: stored_counts(folder) == emitted_by(101))
        if how == "deleted":
            shutil.rmtree(folder, ignore_errors=True)
            until(lambda: not shutil.rmtree(folder, ignore_errors=True) and not folder.exists())
        else:
            folder.rename(tmp_path / "elsewhere")
        if how == "replaced":
            with stepscope.open_run(folder, sinks=[], name="another") as other:
                other.scalar("loss", 1.0, step=0)
        run.go_on()
        run.wait_for_step(200)
        run.go_on()
        found = run.result()
    lost = emitted_by(300).total() - emitted_by(101).total()
    assert not found["complete"]
    assert (found["stored"], found["lost"]) == (emitted_by(101).total(), {"store_not_writable": lost})
    besides = ("a day at this pace", " has waited 5 s for ")  # the latter on a busy machine
    told = [line for line in run.errors().splitlines() if not any(one in line for one in besides)]
    assert [line for line in told if "lost and not in the run store" in line] == told[-1:]  # when the run is closed
    told.pop()
    assert sum("was deleted or moved; retrying" in line for line in told) == 1
    # Deleting takes a moment, in which the ledger may be looked into.
    assert len(told) == 1 or (how == "deleted" and len(told) == 2), told
    if how == "deleted":
        assert not folder.exists()
        fault_report.add("run folder deleted during the training", lost=lost)
    else:
        elsewhere = tmp_path / "elsewhere"
        assert stored_counts(elsewhere) == emitted_by(101)
        (delivery,) = sync_runs([elsewhere], to=["local"])
        assert delivery.complete
        assert delivery.delivered == emitted_by(101).total()
    if how == "replaced":
        record = stepscope.read_run(folder)
        assert (record.info.name, record.info.status) == ("another", "finished")
        assert record.scalars("loss").values.tolist() == [1.0]


def test_a_folder_that_comes_back_gets_everything(tmp_path):
    folder, away = tmp_path / "run", tmp_path / "away"
    with training(folder, ["local"], steps=300, pauses=[100, 200]) as run:
        run.wait_for_step(100)
        wait_until_each_has(folder, emitted_by(101).total())
        folder.rename(away)
        run.go_on()
        run.wait_for_step(200)
        until(lambda: "; retrying" in run.errors())
        away.rename(folder)
        run.go_on()
        found = run.result()
    assert (found["complete"], found["lost"]) == (True, {})
    assert stored_counts(folder) == emitted_by(300)
    assert accounts(folder)["local"].delivered == emitted_by(300).total()


@pytest.mark.parametrize("leaves", ["before it is started", pytest.param("while it starts", marks=pytest.mark.slow)])
def test_a_delivery_that_found_no_folder_is_started_again_when_it_is_waited_for(tmp_path, leaves):
    folder, away = tmp_path / "run", tmp_path / "away"
    with stepscope.open_run(folder, sinks=[]) as run:
        run.scalar("loss", 0.5, step=0)
    delivery = DeliveryProcess(folder, 0, SinkConfig("local", load_sink("local").resolve({}, folder)))
    if leaves == "before it is started":
        folder.rename(away)
    delivery.start()
    if leaves == "while it starts":  # importing takes it longer than this
        folder.rename(away)
        until(lambda: not delivery.lives)
    assert delivery.wait_until(time.monotonic() + 60)
    assert not folder.exists()
    away.rename(folder)
    assert delivery.wait_until(time.monotonic() + 60)
    assert accounts(folder)["local"].delivered == 1
