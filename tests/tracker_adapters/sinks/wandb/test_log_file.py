"""The file of an offline W&B run: what goes in comes out, and nothing that was torn stays."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.errors import StartOver
from tracker_adapters.sinks.wandb.log_file import HEADER, LogFile

BLOCK = 32 * 1024
# Around what fills a block, and around what leaves less than a chunk's head in it.
SIZES = st.one_of(
    st.integers(0, 40),
    st.integers(BLOCK - 30, BLOCK + 30),
    st.integers(2 * BLOCK - 40, 2 * BLOCK + 40),
)
RECORDS = st.lists(SIZES, max_size=5)


def filled(sizes):
    return [bytes([1 + number]) * size for number, size in enumerate(sizes)]


def contents(path):
    """Returns the records, read as LevelDB's documentation says; checksums are checked with the real files."""
    data = path.read_bytes()
    assert data[:7] == HEADER
    found: list[bytes] = []
    place, content, inside = 7, b"", False
    while place < len(data):
        left = BLOCK - place % BLOCK
        if left < 7:
            assert not any(data[place : place + left])
            place += left
            continue
        size, kind = int.from_bytes(data[place + 4 : place + 6], "little"), data[place + 6]
        assert size + 7 <= left
        assert (kind in (3, 4)) == inside
        inside = kind in (2, 3)
        content += data[place + 7 : place + 7 + size]
        place += 7 + size
        if kind in (1, 4):
            found.append(content)
            content = b""
    assert place == len(data)
    return found


@settings(deadline=None)
@given(sizes=RECORDS, more=RECORDS)
def test_records_come_back_whatever_their_sizes(sizes, more):
    first, second = filled(sizes), filled(more)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.wandb")
        file = LogFile.create(path, first)
        file.append(second)
        size = file.sync()
        file.close()
        assert path.stat().st_size == size
        assert contents(path) == [*first, *second]


@settings(deadline=None)
@given(before=RECORDS, after=RECORDS, torn=st.integers(0, 2 * BLOCK), more=RECORDS)
def test_after_any_tear_a_file_goes_on_at_its_offset(before, after, torn, more):
    kept, lost, again = filled(before), filled(after), filled(more)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "run.wandb")
        file = LogFile.create(path, kept)
        offset = file.sync()
        file.append(lost)
        file.sync()
        file.close()
        whole = path.read_bytes()
        path.write_bytes(whole[: max(offset, len(whole) - torn)] + bytes(torn % 100))
        file = LogFile.reopen(path.parent, path.name, offset)
        file.append(again)
        file.sync()
        file.close()
        assert contents(path) == [*kept, *again]


def test_a_file_appears_with_its_first_records(tmp_path):
    file = LogFile.create(tmp_path / "run.wandb", [b"header", b"run"])
    assert contents(tmp_path / "run.wandb") == [b"header", b"run"]
    assert [path.name for path in tmp_path.iterdir()] == ["run.wandb"]
    file.close()


@pytest.mark.parametrize("content", [None, b"", HEADER, b"x" * 100])
def test_a_file_that_cannot_hold_the_offset_starts_over(tmp_path, content):
    if content is not None:
        (tmp_path / "run.wandb").write_bytes(content)
    with pytest.raises(StartOver, match="expected at least 50"):
        LogFile.reopen(tmp_path, "run.wandb", 50)
