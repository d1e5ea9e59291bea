"""Hostile pages: each is refused by name and with a reason, and nothing in them is executed or takes memory."""

import copyreg
import json
import os
import pickle
import pickletools
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from hostile_pages import ATTACKS, EXTENSION, MARKER, operation

from debuggers.page_unpickling import OPERATIONS
from debuggers.pages import PageError, load_page, write_page

BYTES_A_BYTE = 200
"""What Python's objects take for a byte that describes them: an empty list, its places on the stack and in the memo."""
FORBIDDEN = [code for code in pickletools.code2op if ord(code) not in OPERATIONS]

LOAD_ALL = """
import json, resource, sys
from pathlib import Path
from debuggers.pages import PageError, load_page

EXPECTED = {"open", "mmap.__new__", "builtins.id"}
folder, warm_up = Path(sys.argv[1]), Path(sys.argv[2])
seen = []
found = {"tried": 0, "refused": 0, "executed": []}

def load(path):
    try:
        load_page(path)
    except PageError:
        return True

load(warm_up)  # what is imported only now and then
used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 100_000_000, resource.RLIM_INFINITY))
sys.addaudithook(lambda event, arguments: seen.append((event, str(arguments)[:200])))
for path in sorted(folder.iterdir()):
    seen.clear()
    found["refused"] += load(path) is True
    found["tried"] += 1
    found["executed"] += [(path.name, *what) for what in seen if what[0] not in EXPECTED]
print(json.dumps(found))
"""


@pytest.fixture(autouse=True)
def registered_extension():
    copyreg.add_extension("os", "system", EXTENSION)
    yield
    copyreg.remove_extension("os", "system", EXTENSION)


@pytest.mark.parametrize("name", ATTACKS)
def test_an_attack_is_refused_with_its_reason_and_runs_nothing(tmp_path, name):
    path = tmp_path / "page_0.pkl"
    path.write_bytes(ATTACKS[name].make(tmp_path))
    tracemalloc.start()
    try:
        with pytest.raises(PageError, match=rf"page_0\.pkl: refused: .*{ATTACKS[name].reason}") as refusal:
            load_page(path)
        assert tracemalloc.get_traced_memory()[1] < 1_000_000 + BYTES_A_BYTE * path.stat().st_size
    finally:
        tracemalloc.stop()
    assert len(str(refusal.value)) < 1000
    assert not (tmp_path / MARKER).exists()


@pytest.mark.parametrize("code", FORBIDDEN)
def test_every_other_operation_of_pickle_is_refused_by_name(tmp_path, code):
    path = tmp_path / "page_0.pkl"
    path.write_bytes(operation(code))
    name = pickletools.code2op[code].name
    with pytest.raises(PageError, match=rf"page_0\.pkl: refused: has {name} for a pickle operation"):
        load_page(path)


def test_the_attacks_work_on_a_reader_without_a_guard(tmp_path):
    for name in ("reduce", "eval", "GLOBAL", "INST", "extension code"):
        pickle.loads(ATTACKS[f"executes: {name}"].make(tmp_path))
        (tmp_path / MARKER).unlink()


def test_none_of_all_attacks_truncations_and_changed_bytes_executes_anything(tmp_path):
    folder = tmp_path / "pages"
    folder.mkdir()
    attacks = [attack.make(tmp_path) for attack in ATTACKS.values()] + [operation(code) for code in FORBIDDEN]
    page = valid_page(tmp_path)
    truncated = [page[:length] for length in range(len(page))]
    changed = [
        page[:position] + bytes([page[position] ^ flip]) + page[position + 1 :]
        for position in range(len(page))
        for flip in (1, 0x80, 0xFF)
    ]
    for number, content in enumerate([*attacks, *truncated, *changed]):
        (folder / f"page_{number:05}.pkl").write_bytes(content)
    warm_up = tmp_path / "warm_up"
    warm_up.write_bytes(operation("c"))
    command = [sys.executable, "-c", LOAD_ALL, str(folder), str(warm_up)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["executed"] == []
    assert found["tried"] == len(attacks) + len(truncated) + len(changed) > 1000
    assert found["refused"] >= len(attacks) + len(truncated)
    assert not (tmp_path / MARKER).exists()


def test_a_changed_byte_is_caught_by_the_checksum_at_every_position(tmp_path):
    content = valid_page(tmp_path)
    record = write_page(tmp_path, 0, OUTPUTS)
    path = tmp_path / "page_0.pkl"
    for position in range(len(content)):
        path.write_bytes(content[:position] + bytes([content[position] ^ 0x10]) + content[position + 1 :])
        with pytest.raises(PageError, match=r"page_0\.pkl: its content does not match the checksum"):
            load_page(path, size=record.size, sha256=record.sha256)


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (os.mkfifo, "is no regular file"),
        (lambda path: path.mkdir(), "is no regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "is no regular file"),
        (lambda path: path.symlink_to(path), "cannot be read"),
        (lambda path: None, "cannot be read: .*No such file"),
    ],
    ids=["pipe", "folder", "device", "circular link", "missing"],
)
def test_what_is_no_file_is_refused_at_once(tmp_path, make, reason):
    make(tmp_path / "page_9.pkl")
    with pytest.raises(PageError, match=rf"page_9\.pkl: .*{reason}"):
        load_page(tmp_path / "page_9.pkl")


OUTPUTS = {3: {"d": {"map": np.arange(20.0), "text": "abc", "count": 5, "list": [1.5, None, (True, 2**70)]}}}


def valid_page(folder):
    write_page(folder, 0, OUTPUTS)
    return (folder / "page_0.pkl").read_bytes()
