"""Local files and TensorBoard while their target is full, limited, read-only, removed, damaged or somebody else's."""

import resource
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
import readback_local
import readback_tensorboard
from fault_training import emitted_by
from faults import accounts, first_on_path, stored_counts, training
from summary_writer import killed, under_fault
from tracker_adapters.store.layout import DELIVERY_LOG, rank_folder
from waiting import until

pytestmark = [pytest.mark.fault, pytest.mark.slow]
STEPS = 120
FAULT_AT = 40
READERS: dict[str, Callable[[dict[str, Any]], list[Any]]] = {
    "tensorboard": readback_tensorboard.read_back,
    "local": readback_local.read_back,
}


def sinks_in(folder):
    return [f"{sink}:{folder / sink}" for sink in READERS]


def assert_exactly_once(folder):
    """Asserts that both sinks show everything once, as their own readers see it."""
    for sink, read in READERS.items():
        seen = read({"target": str(folder / sink)})
        assert Counter(one.kind for one in seen) == emitted_by(STEPS), sink
        assert len({(one.kind, one.name, one.step) for one in seen}) == len(seen), sink


def assert_delivered(run):
    for sink in READERS:
        account = accounts(run)[sink]
        assert (account.pending, account.failed, account.state, account.error) == (0, {}, "done", "")


def assert_recovers(run, targets):
    """Lets a training go on, asserts that both sinks show everything once at its end; returns the seconds it took."""
    start = time.monotonic()
    run.go_on()
    assert run.result()["complete"]
    seconds = time.monotonic() - start
    assert_delivered(run.folder)
    assert_exactly_once(targets)
    return seconds


def until_both_have_something(run):
    until(lambda: [one.delivered > 0 for one in accounts(run.folder).values()] == [True] * len(READERS))


def until_both_fail_with(run, message):
    until(lambda: sum(message in error for error in errors(run.folder)) == len(READERS))


def errors(run):
    return [account.error for account in accounts(run).values() if account.error]


@contextmanager
def mounted(path, options):
    """A small file system of its own at ``path``; skips the test where that is not allowed."""
    path.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"cannot mount a file system: {done.stderr.strip()}")
    try:
        yield path
    finally:
        subprocess.run(["umount", "--lazy", str(path)], check=True)


def test_a_full_disk_that_is_freed(tmp_path, fault_report):
    with mounted(tmp_path / "disk", "size=4m") as disk:
        filler = disk / "filler"

        def fill():
            with filler.open("wb") as stream, pytest.raises(OSError, match="No space"):
                while True:
                    stream.write(bytes(65536))
                    stream.flush()

        with training(tmp_path / "run", sinks_in(disk), steps=STEPS, pauses=[FAULT_AT, 100]) as run:
            run.wait_for_step(FAULT_AT)
            fill()
            run.go_on()
            run.wait_for_step(100)
            until_both_fail_with(run, "No space left")
            filler.unlink()
            seconds = assert_recovers(run, disk)
        beside = under_fault(disk / "native", between=lambda _: fill())
    fault_report.add("disk of the target full, then freed", runs=len(READERS), recovery_s=seconds, native=beside)


def test_a_limit_on_the_size_of_files(tmp_path, fault_report):
    """The kernel sends SIGXFSZ with the refusal, which kills who does not ignore it."""
    with training(tmp_path / "run", sinks_in(tmp_path), steps=STEPS, pauses=[FAULT_AT, 100]) as run:
        run.wait_for_step(FAULT_AT)
        until_both_have_something(run)
        before = {child.pid for child in run.delivery_processes()}
        _limit(before, 20_000)
        run.go_on()
        run.wait_for_step(100)
        # Which file meets it first depends on how much was delivered: a sink's, or SQLite's log of the ledger.
        log = rank_folder(tmp_path / "run", 0) / DELIVERY_LOG
        until(lambda: any(word in log.read_text() for word in ("File too large", "disk I/O error")))
        assert before == {child.pid for child in run.delivery_processes()}
        _limit(before, resource.RLIM_INFINITY)
        seconds = assert_recovers(run, tmp_path)
    beside = under_fault(tmp_path / "native", between=lambda pid: _limit([pid], 5_000))
    fault = "file-size limit (RLIMIT_FSIZE) on the delivery"
    fault_report.add(fault, runs=len(READERS), recovery_s=seconds, native=beside)


def _limit(processes, size):
    for pid in processes:
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))


def test_a_read_only_folder_that_becomes_writable(tmp_path, fault_report):
    with (
        mounted(tmp_path / "disk", "size=4m,ro") as disk,
        training(tmp_path / "run", sinks_in(disk), steps=STEPS, pauses=[100]) as run,
    ):
        run.wait_for_step(100)
        until_both_fail_with(run, "Read-only file system")
        beside = under_fault(disk / "native")
        subprocess.run(["mount", "-o", "remount,rw", str(disk)], check=True)
        seconds = assert_recovers(run, disk)
    fault_report.add("target folder read-only at first", runs=len(READERS), recovery_s=seconds, native=beside)


def test_a_target_folder_that_is_removed(tmp_path, fault_report):
    """It is written anew from the run store."""
    with training(tmp_path / "run", sinks_in(tmp_path / "out"), steps=STEPS, pauses=[FAULT_AT]) as run:
        run.wait_for_step(FAULT_AT)
        until_both_have_something(run)
        (tmp_path / "out").rename(tmp_path / "removed")
        shutil.rmtree(tmp_path / "removed")
        seconds = assert_recovers(run, tmp_path / "out")
    beside = under_fault(tmp_path / "native", between=lambda _: shutil.rmtree(tmp_path / "native"))
    fault_report.add("target folder removed", runs=len(READERS), recovery_s=seconds, native=beside)


@pytest.mark.parametrize("tail", [bytes(5000), b"\x18\0\0\0\0\0\0\0torn"], ids=["nul-filled", "torn"])
def test_a_damaged_tail_after_a_kill(tmp_path, tail, fault_report):
    """As a power cut leaves it: the file is longer than what the ledger says."""
    with training(tmp_path / "run", sinks_in(tmp_path), steps=STEPS, pauses=[FAULT_AT]) as run:
        run.wait_for_step(FAULT_AT)
        until_both_have_something(run)
        for child in run.delivery_processes():
            child.kill()
            child.wait(60)
        for path in (*(tmp_path / "tensorboard").iterdir(), *(tmp_path / "local").glob("*.csv")):
            with path.open("ab") as stream:
                stream.write(tail)
        seconds = assert_recovers(run, tmp_path)
    kind = "NUL-filled" if tail[0] == 0 else "torn"
    fault_report.add(
        f"{kind} tail of event file and CSV after a kill",
        runs=len(READERS),
        recovery_s=seconds,
        native=killed(tmp_path / "native"),
    )


def test_two_runs_with_one_target_at_once(tmp_path, fault_report):
    """TensorBoard has a folder for each; local files belong to one, and the other one's wait in its run store."""
    with ExitStack() as stack:
        runs = [
            stack.enter_context(training(tmp_path / name, sinks_in(tmp_path), steps=STEPS, close_timeout=20))
            for name in ("one", "two")
        ]
        complete = [run.result()["complete"] for run in runs]
    assert sorted(complete) == [False, True]
    folders = {path.parent for path in (tmp_path / "tensorboard").rglob("*tfevents*")}
    assert len(folders) == 2
    for folder in folders:
        alone = shutil.copytree(folder, tmp_path / f"{folder.name} alone", ignore=lambda at, _: _folders(Path(at)))
        seen = readback_tensorboard.read_back({"target": str(alone)})
        assert Counter(one.kind for one in seen) == emitted_by(STEPS)
    seen = readback_local.read_back({"target": str(tmp_path / "local")})
    assert Counter(one.kind for one in seen) == emitted_by(STEPS)
    for name, done in zip(("one", "two"), complete, strict=True):
        account = accounts(tmp_path / name)
        assert account["tensorboard"].pending == 0
        assert account["local"].pending == (0 if done else stored_counts(tmp_path / name).total())
        assert done or "expected a separate folder for each run" in account["local"].error
    beside = _native_at_once(tmp_path / "native")
    fault_report.add("two runs in one target folder at once", runs=2, native=beside)


def _native_at_once(folder):
    """What TensorBoard shows of two SummaryWriters that log 100 points each into one folder."""
    from torch.utils.tensorboard import SummaryWriter

    with SummaryWriter(str(folder)) as one, SummaryWriter(str(folder)) as two:
        for step in range(100):
            one.add_scalar("loss", 1.0, step)
            two.add_scalar("loss", 2.0, step)
    points = readback_tensorboard.read_with_data_server(folder)["scalars", "loss"].points
    return f"SummaryWriter: {200 - len(points)} of 200 points not shown"


def _folders(at):
    return [path.name for path in at.iterdir() if path.is_dir()]


CLOCK = """
import os, time
shift_ns = int(os.environ["CLOCK_SHIFT_S"]) * 10**9
real, real_ns = time.time, time.time_ns
time.time, time.time_ns = lambda: real() + shift_ns / 1e9, lambda: real_ns() + shift_ns
"""


def test_a_clock_that_is_put_back_an_hour_between_two_openings(tmp_path, fault_report):
    """The second opening repeats all steps: TensorBoard shows the second, local files tell both apart."""
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(CLOCK)
    for shift, steps in ((3600, 60), (0, STEPS)):
        environment = {**first_on_path(tmp_path / "site"), "CLOCK_SHIFT_S": str(shift)}
        resumed: dict[str, Any] = {} if shift else {"resume": True, "emitted_before": emitted_by(60).total()}
        with training(tmp_path / "run", sinks_in(tmp_path), steps=steps, environment=environment, **resumed) as run:
            assert run.result()["complete"]
    assert_delivered(tmp_path / "run")
    shown = readback_tensorboard.read_back({"target": str(tmp_path / "tensorboard")})
    assert Counter(one.kind for one in shown) == emitted_by(STEPS)
    lines = readback_local.read_back({"target": str(tmp_path / "local")})
    assert Counter(one.kind for one in lines) == emitted_by(STEPS) + emitted_by(60)
    rows = [line.split(",") for line in (tmp_path / "local" / "scalars.csv").read_text().splitlines()[1:]]
    assert Counter(row[-1] for row in rows) == {"1": emitted_by(60)["scalar"], "2": emitted_by(STEPS)["scalar"]}
    assert rows[0][2] > rows[-1][2], "the clock was not put back"
    fault_report.add("clock put back an hour between two openings", native=_native_clock(tmp_path / "native"))


def _native_clock(folder):
    """What TensorBoard shows of two SummaryWriters, the second of which begins an hour earlier."""
    from torch.utils.tensorboard import SummaryWriter

    with pytest.MonkeyPatch.context() as patch:
        for value, shift in ((1.0, 3600), (2.0, 0)):
            now = time.time()
            patch.setattr(time, "time", lambda now=now, shift=shift: now + shift)
            with SummaryWriter(str(folder)) as board:
                for step in range(100):
                    board.add_scalar("loss", value, step)
            patch.undo()
    points = readback_tensorboard.read_with_python(folder)["scalars", "loss"].points
    outdated = sum(value == 1.0 for _, _, value in points)
    return f"SummaryWriter: {outdated} of {len(points)} points shown are those of the first opening"
