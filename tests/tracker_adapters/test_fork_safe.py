"""A forked child that ends, in whatever way, ends nothing that its parent made."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

import stepscope

HEAD = """
import multiprocessing, os, sys, tempfile
from pathlib import Path
from tracker_adapters.fork_safe import TemporaryFolder, finalize
class Thing: pass
tempfile.tempdir = sys.argv[1]
log = Path(sys.argv[1]) / "log.txt"
def note(text):
    with log.open("a") as file: file.write(text + " ")
thing, folder = Thing(), TemporaryFolder("a-", suffix="-z")
(folder.path / "kept.txt").write_text("x")
finalize(thing, note, "ended")
def seen(): return [entry.name for entry in folder.path.iterdir()] if folder.path.exists() else None
"""
CHILDREN = {
    "ends normally": "os.fork() or sys.exit(0)",
    "ends by an exception": "if os.fork() == 0: sys.stderr.close(); raise RuntimeError",
    "removes the folder": "if os.fork() == 0: folder.remove(); sys.exit(0)",
    "drops what it inherited": "if os.fork() == 0: del thing, folder; sys.exit(0)",
    "leaves the block": """
with folder:
    os.fork() or sys.exit(0)
    os.wait(); print(seen(), log.exists())
folder = TemporaryFolder("b-"); (folder.path / "kept.txt").write_text("x")
os.fork() or sys.exit(0)
""",
    "is a process of multiprocessing": """
worker = multiprocessing.get_context("fork").Process(target=folder.remove); worker.start(); worker.join(60)
os.fork() or sys.exit(0)
""",
}
END = """
os.wait()
print(seen(), log.exists())
"""


@pytest.mark.parametrize("what", CHILDREN)
def test_a_child_ends_nothing_of_its_parent(what, tmp_path):
    command = [sys.executable, "-c", HEAD + CHILDREN[what] + END, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert set(done.stdout.splitlines()) == {"['kept.txt'] False"}, done.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["log.txt"]  # the parent removed its folders
    assert (tmp_path / "log.txt").read_text() == "ended "  # once


def test_a_folder_of_one_child_is_its_own(tmp_path):
    child = """
if os.fork() == 0:
    own = TemporaryFolder("own-"); note("made" if own.path.exists() else "missing"); sys.exit(0)
"""
    command = [sys.executable, "-c", HEAD + child + "os.wait()", str(tmp_path)]
    subprocess.run(command, timeout=120, check=True)
    assert [path.name for path in tmp_path.iterdir()] == ["log.txt"]
    assert (tmp_path / "log.txt").read_text() == "made ended "


def test_nothing_is_removed_at_an_exit_in_any_other_way():
    root = Path(stepscope.__file__).parent.parent
    folders = [root / name for name in ("stepscope", "stability", "debuggers", "adapters/tracker_adapters")]
    others = [path for folder in folders for path in folder.rglob("*.py") if path.name != "fork_safe.py"]
    named = re.compile(r"TemporaryDirectory|weakref\.finalize\(|mkdtemp")
    assert len(others) > 400
    assert [str(path) for path in others if named.search(path.read_text(encoding="utf-8"))] == []
