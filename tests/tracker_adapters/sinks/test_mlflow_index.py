"""The parts of the index: few files, each line once, whatever is cut, killed and written again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.sinks.mlflow import index
from tracker_adapters.sinks.mlflow.index import IndexEnd, IndexParts, part_path

LIMIT = 300


@pytest.fixture(autouse=True, scope="module")
def _small_parts() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "MAX_PART_BYTES", LIMIT)
        yield


def lines(first: int, last: int) -> bytes:
    return "".join(json.dumps({"seq": seq}) + "\n" for seq in range(first, last + 1)).encode()


def seqs_in(files: dict[str, bytes], end: IndexEnd) -> list[int]:
    """The sequence numbers of an index up to its end, as a reader sees them."""
    found = set()
    for path, content in files.items():
        if path <= part_path(end.part):
            shown = content[: end.size] if path == part_path(end.part) else content
            found |= {json.loads(line)["seq"] for line in shown.splitlines()}
    return sorted(found)


# Each write takes some artifacts; then it is committed, or lost by a kill and written again in other pieces.
WRITES = st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=40)


@given(WRITES)
def test_what_is_committed_is_read_once_and_nothing_is_missing(writes: list[tuple[int, bool]]) -> None:
    files: dict[str, bytes] = {}
    committed, end = 0, IndexEnd()
    parts, last = IndexParts(end, b""), 0
    for size, commits in writes:
        path, content = parts.add(last + 1, lines(last + 1, last + size))
        files[path] = content
        last += size
        if commits:
            committed, end = last, parts.end
        else:  # killed: a new process goes on from what was committed
            parts, last = IndexParts(end, files.get(part_path(end.part), b"")), committed
        assert seqs_in(files, end) == list(range(1, committed + 1))


def test_a_part_takes_lines_until_it_is_full() -> None:
    parts, paths = IndexParts(IndexEnd(), b""), []
    for seq in range(1, 101):
        path, content = parts.add(seq, lines(seq, seq))
        paths.append(path)
        assert len(content) < LIMIT + 20
    assert len(set(paths)) == 4  # for 100 flushes


def test_a_part_that_somebody_deleted_is_left_alone() -> None:
    parts = IndexParts(IndexEnd(part=1, size=50), b"")
    assert parts.add(9, lines(9, 9)) == (part_path(9), lines(9, 9))
