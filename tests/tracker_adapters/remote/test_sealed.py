"""The index of a run with many files lies in several objects: as a whole it stays exact, and what changes is small."""

import fsspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.errors import NotARunError
from tracker_adapters.remote import sealed
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.remote.sealed import INDEX, SealedFile, SealedIndex, read_head, read_index

URL = "memory://bucket/runs/exp1"


def entry(number):
    return SealedFile(number, f"{number:064x}", f"blobs/{number}")


def listed(place):
    """The index of the place, which there must be."""
    index = read_index(place)
    assert index is not None
    return index


def ignore(key):
    """For indexes whose leftovers do not matter."""


@given(
    rounds=st.lists(st.dictionaries(st.integers(0, 30), st.none() | st.integers(0, 9), max_size=12), max_size=8),
    part_entries=st.integers(1, 6),
)
def test_files_that_come_change_and_go_are_listed_exactly(rounds, part_entries):
    """Each round adds and changes some files and removes others; every part but the needed ones was told of."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sealed, "PART_ENTRIES", part_entries)
        fsspec.filesystem("memory").store.clear()
        place = RemotePlace(URL)
        index, told = SealedIndex(manifest={"id": "r1"}, last_writer="one"), set[str]()
        for number, changes in enumerate(rounds):
            for path, value in changes.items():
                index.files.pop(f"file {path}", None)
                if value is not None:
                    index.files[f"file {path}"] = entry(value)
            index.write(place, told.add)
            found = listed(place)
            assert (found.files, found.manifest, found.last_writer) == (index.files, index.manifest, "one")
            assert len(index.parts) == sum(len(part) == part_entries for part in found.parts.values())
            there = {name for name in place.names() if name != INDEX}
            assert there <= told
            assert set(index.parts) <= there
            if number % 3 == 2:
                index = found


@pytest.mark.slow
def test_a_file_more_among_very_many_is_written_in_little(place):
    index = SealedIndex(manifest={})
    index.files = {f"blobs/{number:064x}": entry(number) for number in range(20_000)}
    index.write(place, ignore)
    written: list[int] = []
    write = place.write
    place.write = lambda name, content: (written.append(len(content)), write(name, content))[1]  # type: ignore[method-assign]
    index.files["blobs/one more"] = entry(-1)
    index.write(place, ignore)
    assert sum(written) < 500_000
    assert listed(place).files == index.files
    head = read_head(place)
    assert head is not None
    assert len(head.files) < sealed.PART_ENTRIES


def test_a_part_that_is_gone_or_damaged_is_told(place, monkeypatch):
    monkeypatch.setattr(sealed, "PART_ENTRIES", 2)
    index = SealedIndex(manifest={}, files={"a": entry(1), "b": entry(2), "c": entry(3)})
    index.write(place, ignore)
    (part,) = index.parts
    content = place.read(part) or b""
    place.write(part, content.replace(b"blobs/1", b"blobs/2"))
    with pytest.raises(NotARunError, match=r"/sealed/\w{64}\.json is damaged: its SHA-256"):
        read_index(place)
    place.remove(part)
    with pytest.raises(NotARunError, match=r"sealed\.json is damaged: sealed/\w{64}\.json is not there"):
        read_index(place)


@pytest.mark.parametrize(
    "path",
    [
        "store/rank_00000/segment_000000.db-journal",
        "store/rank_00000/delivery.db-WAL",
        "store/rank_00000/delivery.db-shm",
        "store/rank_00000/writer.lock",
        "sealed.json",
        "./run.json",
        ".remote/home.json",
        "local/.hidden/scalars.csv",
    ],
)
@pytest.mark.parametrize("part_entries", [1, 2])
def test_what_is_never_copied_to_a_place_is_not_taken_from_there(place, monkeypatch, path, part_entries):
    """Whether the index lists it itself or in a part."""
    monkeypatch.setattr(sealed, "PART_ENTRIES", part_entries)
    SealedIndex(manifest={}, files={path: entry(1)}).write(place, ignore)
    with pytest.raises(NotARunError, match=r"is damaged: .*is none that is ever copied"):
        read_index(place)


def test_a_part_that_is_replaced_while_it_is_read_is_found(place, monkeypatch):
    monkeypatch.setattr(sealed, "PART_ENTRIES", 2)
    index = SealedIndex(manifest={}, files={"a": entry(1), "b": entry(2)})
    index.write(place, ignore)
    (old,) = index.parts
    read = place.read

    def read_late(name):
        if name == old and read(old) is not None:
            index.files["a"] = entry(7)
            index.write(place, ignore)
            place.remove(old)
        return read(name)

    place.read = read_late  # type: ignore[method-assign]
    assert listed(place).files == index.files
