"""The parts of the index: few files, each line once, whatever is cut, killed and written again."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.sinks.mlflow import index
from tracker_adapters.sinks.mlflow.index import INDEX_FOLDER, Index, IndexEnd, part_path

LIMIT = 300


@pytest.fixture(autouse=True, scope="module")
def _small_parts():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(index, "MAX_PART_BYTES", LIMIT)
        yield


class Files(dict[str, bytes]):
    """Files in memory, by path; ``reads`` are the paths of those that were read."""

    def __init__(self, *args):
        super().__init__(*args)
        self.reads: list[str] = []

    def names(self, folder):
        return [path.removeprefix(f"{folder}/") for path in self]

    def read(self, path):
        self.reads.append(path)
        return self[path]


def lines(first, last):
    return "".join(json.dumps({"seq": seq}) + "\n" for seq in range(first, last + 1)).encode()


def seqs_in(index):
    return [line["seq"] for line in index.lines(budget_s=60)]


# Each write takes some artifacts; then it is committed, or lost by a kill and written again in other pieces.
WRITES = st.lists(st.tuples(st.integers(1, 40), st.booleans()), min_size=1, max_size=40)


@given(WRITES)
def test_what_is_committed_is_read_once_and_nothing_is_missing(writes):
    files = Files()
    committed, end = 0, IndexEnd()
    index, last = Index(files, end), 0
    for size, commits in writes:
        path, content = index.add(last + 1, lines(last + 1, last + size))
        files[path] = content
        last += size
        assert seqs_in(index) == list(range(1, last + 1))
        if commits:
            committed, end = last, index.end
        else:  # killed: a new process goes on from what was committed
            index, last = Index(files, end), committed
        assert seqs_in(Index(files, end)) == list(range(1, committed + 1))


def test_a_part_takes_lines_until_it_is_full():
    index, paths = Index(Files(), IndexEnd()), []
    for seq in range(1, 101):
        path, content = index.add(seq, lines(seq, seq))
        paths.append(path)
        assert len(content) < LIMIT + 20
    assert len(set(paths)) == 4  # for 100 flushes


def test_a_part_that_somebody_deleted_is_left_alone():
    index = Index(Files(), IndexEnd(part=1, size=50))
    assert index.add(9, lines(9, 9)) == (part_path(9), lines(9, 9))
    assert seqs_in(index) == [9]


def test_the_last_part_is_read_once_and_the_others_only_for_their_lines():
    files = Files({part_path(1): lines(1, 20), part_path(21): lines(21, 30), f"{INDEX_FOLDER}/notes.txt": b"not ours"})
    index = Index(files, IndexEnd(part=21, size=len(lines(21, 30))))
    assert not files.reads
    index.add(31, lines(31, 31))
    assert files.reads == [part_path(21)]
    assert seqs_in(index) == list(range(1, 32))
    assert files.reads == [part_path(21), part_path(1)]
