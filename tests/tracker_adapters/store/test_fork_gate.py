"""A forked child can use SQLite: no thread of ours is inside it while the process forks."""

import subprocess
import sys

import pytest

HEAD = """
import os, select, signal, sqlite3, sys, threading, time, warnings
warnings.simplefilter("ignore")
import stepscope
from tracker_adapters.store.fork_gate import FORK_WAIT_S, inside
folder, forks = sys.argv[1], int(sys.argv[2])
run = stepscope.open_run(f"{folder}/parent", sinks=[])
stop = threading.Event()
def emit():
    step = 0
    while not stop.is_set():
        run.scalar("a", 1.0, step=step); step += 1
        if step % 50 == 0:
            run.histogram("h", [1.0, 2.0], step=step)
            stop.wait(0.001)
def read():
    while not stop.is_set():
        with stepscope.read_run(f"{folder}/parent") as record:
            record.names()
def plain(number):
    with sqlite3.connect(f"{folder}/child.db") as connection:
        connection.execute("CREATE TABLE IF NOT EXISTS t(a)")
        connection.execute("INSERT INTO t VALUES (?)", (number,))
    connection.close()
def own(number):
    with stepscope.open_run(f"{folder}/child{number}", sinks=[]) as child:
        child.scalar("c", 1.0, step=0)
def ends(pid, held, seconds=60):
    if not select.select([held], [], [], seconds)[0]:
        os.kill(pid, signal.SIGKILL)
    os.close(held)
    return os.waitpid(pid, 0)[1] == 0
def fork(what, number):
    held, hold = os.pipe()  # the child holds one end as long as it lives
    pid = os.fork()
    if pid:
        os.close(hold)
    else:
        try:
            what(number)
        except BaseException as error:
            print(repr(error), file=sys.stderr); os._exit(1)
        os._exit(0)
    return ends(pid, held)
"""
MANY = """
second = stepscope.open_run(f"{folder}/second", sinks=[])
threads = [threading.Thread(target=work) for work in (emit, emit, read)]
for thread in threads: thread.start()
good = [fork(own if number % 25 == 0 else plain, number) for number in range(forks)]
in_thread = []
thread = threading.Thread(target=lambda: in_thread.extend(fork(plain, number) for number in range(forks // 10)))
thread.start(); thread.join()
stop.set()
for thread in threads: thread.join()
second.close()
print(sum(good) == forks and sum(in_thread) == forks // 10 and run.close(30), run.stats.lost)
"""
IN_HANDLER = """
# The interrupted thread is inside, and so is the handler that forks.
found = []
signal.signal(signal.SIGALRM, lambda *_: found.append(fork(plain, 1)))
with inside(), inside():
    signal.raise_signal(signal.SIGALRM)
    found.append(fork(plain, 2))
print(found == [True, True] and run.close(30), {})
"""
LONG_CALL = """
# A thread that stays inside, as in a commit to a disk that hangs, delays a fork for a bounded time.
entered = threading.Event()
def stay():
    with inside():
        entered.set(); stop.wait(60)
thread = threading.Thread(target=stay); thread.start(); entered.wait(60)
begun = time.monotonic()
good = fork(lambda number: None, 0)
took = time.monotonic() - begun
# One that steps aside, as what SQLite calls back does, delays none.
def step():
    with inside():
        while not stop.wait(0.0001): inside().step_aside()
stop.set(); thread.join(); stop.clear()
thread = threading.Thread(target=step); thread.start()
aside = []
for number in range(5):  # a busy machine delays some of them
    begun = time.monotonic()
    good = good and fork(plain, number)
    aside.append(time.monotonic() - begun)
stop.set(); thread.join()
print(good and FORK_WAIT_S <= took < FORK_WAIT_S + 30 and min(aside) < FORK_WAIT_S and run.close(30), {})
"""


def outcome(folder, source, forks=0, timeout=120):
    command = [sys.executable, "-c", HEAD + source, str(folder), str(forks)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
def test_forked_children_use_sqlite_while_threads_emit_and_read(tmp_path):
    assert outcome(tmp_path, MANY, forks=60) == "True {}"


def test_a_signal_handler_forks_inside_the_gate(tmp_path):
    assert outcome(tmp_path, IN_HANDLER) == "True {}"


def test_a_thread_that_stays_inside_delays_a_fork_for_a_bounded_time(tmp_path):
    assert outcome(tmp_path, LONG_CALL) == "True {}"
