"""Hostile pages: each is refused by name and with a reason, and nothing in them is executed or takes memory."""

import copyreg
import json
import os
import pickle
import pickletools
import subprocess
import sys
import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from hostile_pages import ATTACKS, EXTENSION, MARKER, operation

from debuggers.debug_outputs import load_debug_outputs
from debuggers.errors import DebuggerConfigError
from debuggers.failed_datapoints import failures
from debuggers.page_comparison import compare_pages
from debuggers.page_files.index import MAX_INDEX_BYTES, add_to_index
from debuggers.page_files.limits import PageLimits
from debuggers.page_files.unpickling import OPERATIONS
from debuggers.pages import PageError, PageReader, load_page, read_index, write_page

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


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.slow if place % 3 else ()) for place, name in enumerate(ATTACKS)]
)
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


@pytest.mark.parametrize("flips", [(0xFF,), pytest.param((1, 0x80), marks=pytest.mark.slow)])
def test_none_of_all_attacks_truncations_and_changed_bytes_executes_anything(tmp_path, flips):
    folder = tmp_path / "pages"
    folder.mkdir()
    attacks = [attack.make(tmp_path) for attack in ATTACKS.values()] + [operation(code) for code in FORBIDDEN]
    page = valid_page(tmp_path)
    truncated = [page[:length] for length in range(len(page))]
    changed = [
        page[:position] + bytes([page[position] ^ flip]) + page[position + 1 :]
        for position in range(len(page))
        for flip in flips
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
        (os.mkfifo, "is not a regular file"),
        (lambda path: path.mkdir(), "is not a regular file"),
        (lambda path: path.symlink_to("/dev/zero"), "is not a regular file"),
        (lambda path: path.symlink_to(path), "cannot be read"),
        (lambda path: None, "cannot be read: .*No such file"),
    ],
    ids=["pipe", "folder", "device", "circular link", "missing"],
)
def test_what_is_no_file_is_refused_at_once(tmp_path, make, reason):
    make(tmp_path / "page_9.pkl")
    with pytest.raises(PageError, match=rf"page_9\.pkl: .*{reason}"):
        load_page(tmp_path / "page_9.pkl")


@pytest.mark.parametrize("name", ["index.json", "page_0.pkl"])
@pytest.mark.parametrize(
    "make",
    [
        os.mkfifo,
        lambda path: path.mkdir(),
        lambda path: path.symlink_to("/dev/zero"),
        lambda path: path.symlink_to(path),
        lambda path: path.symlink_to(path.parent / "elsewhere" / path.name),
    ],
    ids=["pipe", "folder", "device", "circular link", "link"],
)
def test_what_is_no_file_in_a_folder_of_pages_is_passed_over(tmp_path, make, name, caplog):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    add_to_index(elsewhere, write_page(elsewhere, 0, {7: {"d": 1}}))
    write_page(tmp_path, 1, OUTPUTS)
    make(tmp_path / name)
    assert list(load_debug_outputs(tmp_path)) == [3]
    assert f"{name}" in caplog.text


def test_a_page_may_be_named_through_a_link_but_is_not_followed_out_of_a_folder(tmp_path):
    record = write_page(tmp_path, 0, OUTPUTS)
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "page_0.pkl").symlink_to(tmp_path / "page_0.pkl")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    (tmp_path / "real").mkdir()
    add_to_index(folder, record)
    assert list(load_page(folder / "page_0.pkl")) == [3]
    with pytest.raises(PageError, match=r"page_0\.pkl.*is not a regular file"):
        PageReader(folder)[3]
    add_to_index(tmp_path / "link", write_page(tmp_path / "link", 0, OUTPUTS))
    assert list(PageReader(tmp_path / "link")) == [3]


def test_an_index_that_is_too_large_is_rebuilt_from_the_pages(tmp_path, caplog):
    write_page(tmp_path, 0, OUTPUTS)
    with (tmp_path / "index.json").open("wb") as file:
        file.truncate(MAX_INDEX_BYTES + 1)
    assert list(PageReader(tmp_path)) == [3]
    assert "larger than" in caplog.text


def test_a_sparse_file_that_is_too_large_is_refused_at_once(tmp_path):
    write_page(tmp_path, 0, OUTPUTS)
    with (tmp_path / "page_0.pkl").open("r+b") as file:
        file.truncate(2**40)
    with pytest.raises(PageError, match=r"has 1099511627776 bytes; expected at most 4294967296: .*file_bytes=\.\.\."):
        load_page(tmp_path / "page_0.pkl", size=2**40, sha256="0" * 64)


def page_of(operations):
    """A page with one datapoint, whose output is a list of what the operations leave."""
    return b"\x80\x04}K\x00}\x8c\x01d](" + operations + b"ess."


SMALL = PageLimits(objects=1000, operations=5000, text_bytes=1000)
BOMBS = {
    "dicts": (b"}", 500, "objects"),
    "lists": (b"]", 500, "objects"),
    "tuples": (b"N\x85", 500, "objects"),
    "memo": (b"N\x94", 500, "objects"),
    "numbers": (b"K\x05", 3000, "operations"),
    "nothing": (b"N", 3000, "operations"),
    "text": (b"X\x0a\x00\x00\x00" + b"a" * 10, 60, "text_bytes"),
    "bytes": (b"B\x0a\x00\x00\x00" + b"a" * 10, 60, "text_bytes"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_page_may_describe_so_many_objects_and_no_more(tmp_path, name):
    operations, count, limit = BOMBS[name]
    path = tmp_path / "page_0.pkl"
    path.write_bytes(page_of(operations * count))
    load_page(path, limits=SMALL)
    path.write_bytes(page_of(operations * 4 * count))
    with pytest.raises(PageError, match=rf"refused: holds more .*limits=PageLimits\({limit}=\.\.\.\)"):
        load_page(path, limits=SMALL)
    load_page(path, limits=replace(SMALL, **{limit: 10 * getattr(SMALL, limit)}))
    load_page(path)


@pytest.mark.parametrize("operation", [b"(", b"\x94", b"}"])
def test_what_is_left_on_the_stack_counts_as_well(tmp_path, operation):
    path = tmp_path / "page_0.pkl"
    path.write_bytes(b"\x80\x04}" + operation * 4000 + b".")
    with pytest.raises(PageError, match="holds more containers"):
        load_page(path, limits=SMALL)


def test_limits_grow_with_the_file():
    assert SMALL.objects_of(10**6) == 20_000
    assert SMALL.operations_of(10**6) == 125_000


def test_all_readers_take_limits(tmp_path):
    (tmp_path / "page_0.pkl").write_bytes(page_of(b"}" * 2000))
    assert list(load_debug_outputs(tmp_path)) == [0]
    assert list(load_debug_outputs(tmp_path, limits=SMALL)) == []
    add_to_index(tmp_path, read_index(tmp_path)[0])
    reader = load_debug_outputs(tmp_path, limits=SMALL)
    for read in (lambda: reader[0], lambda: compare_pages(reader, reader), lambda: failures(reader)):
        with pytest.raises(PageError, match="holds more containers"):
            read()


@pytest.mark.parametrize("value", [0, -1, 1.5, True, None])
def test_a_limit_is_an_int_from_1(value):
    with pytest.raises(DebuggerConfigError, match=r"objects is .*expected an integer of at least 1"):
        PageLimits(objects=value)


OUTPUTS = {3: {"d": {"map": np.arange(20.0), "text": "abc", "count": 5, "list": [1.5, None, (True, 2**70)]}}}


def valid_page(folder):
    write_page(folder, 0, OUTPUTS)
    return (folder / "page_0.pkl").read_bytes()
