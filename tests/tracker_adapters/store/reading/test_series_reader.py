"""The names of a run that is open."""

from tracker_adapters.store.reading.record import RunRecord

import stepscope


def test_names_follow_the_store_and_are_the_callers_own(tmp_path, monkeypatch):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, RunRecord(run.path) as record:
        for step in range(3):
            run.scalar("loss", step, step=step)
            assert run.flush(60)
            found = record.names()
            assert [(info.name, info.count, info.last_value) for info in found] == [("loss", step + 1, step)]
            found.clear()
            assert len(record.names()) == 1
        read = []
        monkeypatch.setattr(RunRecord, "_names_until", lambda *args: read.append(args))
        assert len(record.names()) == 1
        assert not read, "the names are read again although nothing is new"
