"""What is sealed is copied to a run's place, exactly and whole, whatever interrupts it."""

import contextlib
import json
import logging
import shutil

import fsspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import RunInfo, sha256_of
from tracker_adapters.errors import RunBusyError, RunError, RunExistsError
from tracker_adapters.remote.download import Download
from tracker_adapters.remote.local_copy import Home, read_copy, written_copy
from tracker_adapters.remote.mirror import Mirror, TakenOverError
from tracker_adapters.remote.opening import prepare
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.remote.record import RemoteRecord, read_remote
from tracker_adapters.remote.sealed import INDEX, SealedIndex, Writer, read_index
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.writing.run_store import RunStore

URL = "memory://bucket/runs/exp1"


def claim(place, folder, writer="one", host="here"):
    index = read_index(place) or SealedIndex(manifest={})
    here = Writer.here(writer)
    index.writer, index.last_writer = Writer(writer, host, here.pid, here.seen_ns), writer
    index.write(place, lambda key: None)
    home = Home(place.url, writer, claimed=True)
    home.save(folder)
    return home


def open_store(folder, *, resume=False, segment_bytes=120_000):
    folder.mkdir(parents=True, exist_ok=True)
    if not resume:
        Manifest(RunInfo(id="r1", name="run")).save(folder)
    return RunStore(folder, resume=resume, segment_bytes=segment_bytes)


def put(store, steps):
    for step in steps:
        store.put(("loss", step, 1000 + step, step / 8), 0)
        if step % 200 == 199:
            assert store.flush(60)
    assert store.flush(60)


def copied_run(place, steps):
    """A run that has ended and is at its place: its local copy, and what that knows of the place."""
    folder = written_copy(place.url)
    store = open_store(folder)
    home = claim(place, folder)
    put(store, range(steps))
    store.close()
    assert Mirror(folder, place, home).copy()
    return folder, home


def listed(place):
    """The index of the place, which there must be."""
    index = read_index(place)
    assert index is not None
    return index


def steps_there(place):
    with RemoteRecord(Download(place, read_copy(place.url))) as record:
        return record.scalars("loss").steps.tolist()


def test_while_a_run_lives_all_but_its_last_segment_is_there(place):
    folder = written_copy(place.url)
    store = open_store(folder)
    mirror = Mirror(folder, place, claim(place, folder))
    put(store, range(4000))
    assert not mirror.copy()
    sealed = sorted(folder.glob("store/*/segment_*.db"))[:-1]
    index = listed(place)
    assert set(index.files) == {path.relative_to(folder).as_posix() for path in sealed}
    assert index.writer is not None
    seen = steps_there(place)
    assert seen == list(range(len(seen)))
    assert 0 < len(seen) < 4000
    store.close()
    assert mirror.copy()
    assert steps_there(place) == list(range(4000))
    assert listed(place).writer is None


def test_each_file_is_listed_with_its_checksum_and_private_files_stay_here(place):
    folder = written_copy(place.url)
    store = open_store(folder)
    home = claim(place, folder)
    put(store, range(10))
    (folder / "tensorboard").mkdir()
    (folder / "tensorboard" / "events.out").write_bytes(b"events")
    store.close()
    assert Mirror(folder, place, home).copy()
    index = listed(place)
    assert set(index.files) == {"store/rank_00000/segment_000000.db", "tensorboard/events.out"}
    for path, entry in index.files.items():
        assert (entry.sha256, entry.size) == (sha256_of(folder / path), (folder / path).stat().st_size)
        assert place.read(entry.key) == (folder / path).read_bytes()
    assert json.loads(place.read("run.json") or b"") == index.manifest
    assert not [name for name in fsspec.filesystem("memory").store if ".remote" in name or ".lock" in name]


def test_what_is_there_already_is_not_copied_again(place, monkeypatch):
    folder, home = copied_run(place, 3000)
    copied: list[str] = []
    monkeypatch.setattr(RemotePlace, "upload", lambda self, source, name, _: copied.append(name))
    assert Mirror(folder, place, home).copy()
    (folder / ".remote" / "copied.json").unlink()  # then its checksum tells
    assert Mirror(folder, place, home).copy()
    assert copied == []


class CutError(OSError):
    """The connection broke."""


@pytest.mark.slow
@settings(max_examples=20, deadline=None)
@example(at=[2, 2], resumed=True)
@given(at=st.lists(st.integers(0, 12), min_size=1, max_size=4), resumed=st.booleans())
def test_copying_that_is_cut_anywhere_ends_with_exactly_the_run(at, resumed):
    """Each cut is at another request; a new process goes on. At every moment, what is listed is readable and whole."""
    import tempfile

    with tempfile.TemporaryDirectory() as temporary, pytest.MonkeyPatch.context() as patch:
        patch.setenv("STEPSCOPE_CACHE", temporary)
        fsspec.filesystem("memory").store.clear()
        place = RemotePlace(URL)
        folder = written_copy(place.url)
        home = claim(place, folder)
        total = 0
        for attempt in range(1 + resumed):
            store = open_store(folder, resume=attempt > 0)
            put(store, range(total, total + 1500))
            total += 1500
            store.close()
            for cut in at:
                _copy_until_cut(folder, home, cut)
                index = read_index(place)
                if index is not None and index.files:
                    seen = steps_there(place)
                    assert seen == list(range(len(seen)))
            assert Mirror(folder, RemotePlace(URL), home).copy()
        assert steps_there(place) == list(range(total))
        keys = {f"/bucket/runs/exp1/{entry.key}" for entry in listed(place).files.values()}
        there = set(fsspec.filesystem("memory").store)
        assert there == {*keys, *(f"/bucket/runs/exp1/{name}" for name in ("run.json", "sealed.json"))}


def _copy_until_cut(folder, home, cut):
    requests = [0]

    def counted(call):
        def wrapped(*args):
            requests[0] += 1
            if requests[0] > cut:
                raise CutError("cut")
            return call(*args)

        return wrapped

    place = RemotePlace(URL)
    for name in ("write", "upload", "remove"):
        setattr(place, name, counted(getattr(place, name)))
    with contextlib.suppress(CutError):
        Mirror(folder, place, home).copy()


def test_the_segment_of_a_killed_writer_is_copied_with_what_its_log_holds(place):
    folder = written_copy(place.url)
    store = open_store(folder)
    put(store, range(100))
    wal = folder / "store" / "rank_00000" / "segment_000000.db-wal"
    assert wal.stat().st_size > 0
    # What a kill leaves: a segment with its log, and no lock.
    killed = place.url.replace("exp1", "killed")
    left = written_copy(killed)
    shutil.copytree(folder, left, ignore=shutil.ignore_patterns("*.lock", "*-shm", ".remote"))
    store.close()
    there = RemotePlace(killed)
    mirror = Mirror(left, there, claim(there, left))
    assert not mirror.copy()  # opening the segment folded its log into it
    assert mirror.copy()
    assert steps_there(there) == list(range(100))


def test_two_machines_do_not_write_to_one_place(place, tmp_path):
    folder = written_copy(place.url)
    store = open_store(folder)
    mirror = Mirror(folder, place, claim(place, folder, "one"))
    put(store, range(10))
    mirror.copy()
    claim(place, tmp_path / "other", "two", host="far")
    store.close()
    before = place.read(INDEX)
    with pytest.raises(TakenOverError, match="far has taken over the run at memory://"):
        mirror.copy()
    assert place.read(INDEX) == before


def test_a_place_is_claimed_only_for_what_went_on_from_there(place, tmp_path):
    folder = written_copy(place.url)
    store = open_store(folder)
    put(store, range(10))
    Mirror(folder, place, Home(place.url, "one")).copy()
    assert listed(place).last_writer == "one"
    assert Home.load(folder) == Home(place.url, "one", claimed=True)
    for stale in (Home(place.url, "two"), Home(place.url, "two", base="zero")):
        with pytest.raises(TakenOverError):
            Mirror(folder, place, stale).copy()
    Mirror(folder, place, Home(place.url, "two", base="one")).copy()
    with pytest.raises(TakenOverError):
        Mirror(folder, place, Home(place.url, "one", claimed=True)).copy()
    store.close()


def test_a_run_that_another_machine_writes_is_busy_until_it_is_silent(place, monkeypatch, caplog):
    folder, _ = copied_run(place, 10)
    claim(place, folder, "two", host="far")
    with pytest.raises(RunBusyError, match=r"far \(process .* writes to memory://.*last seen"):
        prepare(URL, resume=True)
    with pytest.raises(RunExistsError, match="already holds a run; pass resume=True"):
        prepare(URL, resume=False)
    monkeypatch.setattr("tracker_adapters.remote.sealed.WRITER_SILENT_S", 0.0)
    with caplog.at_level(logging.WARNING):
        assert prepare(URL, resume=True) == "two"
    assert "far was the last to write to" in caplog.text


def test_a_run_goes_on_on_another_machine(place, tmp_path, monkeypatch, caplog):
    folder, _ = copied_run(place, 1000)
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "elsewhere"))
    assert prepare(URL, resume=True) == "one"
    there = written_copy(URL)
    assert there != folder
    store = open_store(there, resume=True)
    home = claim(place, there, "two")
    put(store, range(1000, 2000))
    store.close()
    assert Mirror(there, place, home).copy()
    assert steps_there(place) == list(range(2000))

    # Back on the first one: its older copy is put aside, never written over.
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "cache"))
    with read_remote(URL) as record:
        assert record.scalars("loss").steps.tolist() == list(range(2000))
    assert prepare(URL, resume=True) == "two"
    assert "the older copy here was renamed to" in caplog.text
    store = open_store(folder, resume=True)
    assert store.last_seq == 2000
    store.close()


def test_what_arrives_with_another_checksum_is_refused(place):
    copied_run(place, 10)
    content = place.read("store/rank_00000/segment_000000.db")
    assert content is not None
    place.write("store/rank_00000/segment_000000.db", content[:-1] + b"x")
    record = RemoteRecord(Download(place, read_copy(place.url)))
    with pytest.raises(RunError, match=r"cannot copy .*segment_000000.db after 3 tries: .*SHA-256"):
        record.scalars("loss")
    assert not list(read_copy(place.url).rglob("segment_*.db"))
