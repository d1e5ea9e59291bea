"""A shared folder that is slow: every change of a file in it takes a while, which the training does not wait for."""

import json
import os
import shutil
import subprocess
import sys

import pytest

import stepscope

DELAY_MS, STEPS = 30, 1000
SHARE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

static void wait_at(const char *path) {  /* where it lies in the folder */
    const char *folder = getenv("SLOW_FOLDER");
    if (folder && !strncmp(path, folder, strlen(folder))) usleep(1000 * (unsigned)atoi(getenv("SLOW_MS")));
}

static void wait_for(int file) {
    char link[64], path[4096];
    snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, path, sizeof(path) - 1);
    if (length < 0) return;
    path[length] = 0;
    wait_at(path);
}

#define SLOW(type, name, parameters, file, ...) SLOW_BY(wait_for, type, name, parameters, file, __VA_ARGS__)
#define SLOW_PATH(name, parameters, path, ...) SLOW_BY(wait_at, int, name, parameters, path, __VA_ARGS__)
#define SLOW_BY(wait, type, name, parameters, where, ...)                          \
    type name parameters {                                                         \
        static type (*next) parameters;                                            \
        if (!next) next = (type (*) parameters)dlsym(RTLD_NEXT, #name);            \
        wait(where);                                                               \
        return next(__VA_ARGS__);                                                  \
    }

SLOW(ssize_t, pwrite, (int f, const void *b, size_t n, off_t at), f, f, b, n, at)
SLOW(ssize_t, pwrite64, (int f, const void *b, size_t n, off64_t at), f, f, b, n, at)
SLOW(ssize_t, write, (int f, const void *b, size_t n), f, f, b, n)
SLOW(int, fsync, (int f), f, f)
SLOW(int, fdatasync, (int f), f, f)
SLOW(int, ftruncate64, (int f, off64_t n), f, f, n)
SLOW(int, mkdirat, (int f, const char *name, mode_t mode), f, f, name, mode)
SLOW(int, unlinkat, (int f, const char *name, int flags), f, f, name, flags)
SLOW(int, linkat, (int f, const char *a, int g, const char *b, int flags), f, f, a, g, b, flags)
SLOW(int, renameat, (int f, const char *a, int g, const char *b), f, f, a, g, b)
SLOW_PATH(mkdir, (const char *name, mode_t mode), name, name, mode)
SLOW_PATH(unlink, (const char *name), name, name)
SLOW_PATH(rename, (const char *a, const char *b), a, a, b)
"""
TRAINING = """
import json, sys, time
import stepscope

folder, rank, steps = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
with stepscope.open_run(folder, sinks=[], rank=rank, resume=rank > 0, system_metrics=False) as run:
    (run.path / "probe").write_text("x")
    began = time.monotonic()
    (run.path / "probe").write_text("y")
    write_s = time.monotonic() - began
    began = time.monotonic()
    for step in range(steps):
        run.scalar("loss", float(step + rank), step=step)
    loop_s = time.monotonic() - began
    assert run.close(timeout=120)
print(json.dumps({"write_s": write_s, "loop_s": loop_s}))
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory):
    if sys.platform != "linux" or shutil.which("gcc") is None:
        pytest.skip("there is no gcc")
    folder = tmp_path_factory.mktemp("library")
    (folder / "slow.c").write_text(SHARE)
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", "slow.so", "slow.c", "-ldl"], cwd=folder, check=True)
    return folder / "slow.so"


def slowed(library, folder, delay_ms):
    """The environment of a process to which a folder is slow."""
    return os.environ | {
        "LD_PRELOAD": str(library), "SLOW_FOLDER": str(folder), "SLOW_MS": str(delay_ms),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }  # fmt: skip


@pytest.mark.slow
@pytest.mark.fault
def test_a_start_and_an_end_that_wait_for_a_slow_folder_say_so(library, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    folder = tmp_path / "share" / "run"
    folder.parent.mkdir()
    done = subprocess.run(
        [sys.executable, "train.py", str(folder), "0", "3"], cwd=tmp_path, env=slowed(library, folder.parent, 600),
        capture_output=True, text=True, timeout=250, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    for doing in ("opening the run", "closing the run"):
        line = f"{doing} in share/run has waited 5 s for its file system; to measure it: stepscope doctor share/run"
        assert done.stderr.splitlines().count(f"stepscope: {line}") == 1, done.stderr


@pytest.mark.slow
@pytest.mark.fault
@pytest.mark.parametrize(
    ("delay_ms", "told"),
    [(0, " ms to make, write, rename or remove one"), (150, "slow: 0."), (60_000, "no answer in 15 s")],
)
def test_the_doctor_measures_a_folder_and_does_not_wait_for_one_that_hangs(library, tmp_path, delay_ms, told):
    done = subprocess.run(
        [sys.executable, "-m", "stepscope", "doctor", str(tmp_path / "share" / "run")], cwd="/",
        env=slowed(library, tmp_path, delay_ms) | {"COLUMNS": "400"}, capture_output=True, text=True, timeout=250,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    (line,) = [line for line in done.stdout.splitlines() if f"files in {tmp_path} " in line]
    assert told in line
    if told != "no answer in 15 s":  # what hangs then is not removed any more
        assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.fault
def test_a_training_does_not_wait_for_a_slow_folder_that_its_ranks_share(library, tmp_path):
    (tmp_path / "train.py").write_text(TRAINING)
    folder = tmp_path / "share" / "run"
    folder.parent.mkdir()
    environment = slowed(library, folder.parent, DELAY_MS)
    for rank in (0, 1):
        command = [sys.executable, "train.py", str(folder), str(rank), str(STEPS)]
        done = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=250, check=False
        )
        assert done.returncode == 0, done.stderr
        told = json.loads(done.stdout.splitlines()[-1])
        assert told["write_s"] * 1000 >= DELAY_MS  # the folder is slow
        assert told["loop_s"] < STEPS * DELAY_MS / 1000 / 10
    with stepscope.read_run(folder) as record:
        merged = stepscope.MergedRanks(record).scalars("loss")
        assert record.info.status == "finished"
        assert merged.steps.tolist() == list(range(STEPS))
        assert merged.highest.tolist() == [step + 1.0 for step in range(STEPS)]
