"""What came behind a number, by name: added to what was known, it is what reading all names says."""

from dataclasses import replace

import numpy as np
from tracker_adapters.store.reading.record import NameInfo

import stepscope


def test_what_is_new_added_to_what_was_known_is_all(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, stepscope.read_run(run.path) as record:
        run.scalars(["a", "b"], [1.0, 2.0], step=0)
        assert run.flush(60)
        names, last_seq = record.names_until()
        assert [info.name for info in names] == ["a", "b"]
        assert record.new_names(0, last_seq) == ([], last_seq)

        run.scalar("b", 3.0, step=5)
        run.scalar("b", float("nan"), step=5)
        run.histogram("h", np.ones(3), step=2)
        run.text("t", "words", step=3)
        assert run.flush(60)

        found, reached = record.new_names(0, last_seq)
        assert reached == last_seq + 4
        known = {(info.name, info.kind): info for info in names}
        for new in found:
            info = known.get((new.name, new.kind), NameInfo(new.name, new.kind, 0, -1))
            known[new.name, new.kind] = replace(
                info, count=info.count + new.count, last_step=new.last_step, last_value=new.last_value
            )
        expected = {(info.name, info.kind): info for info in record.names()}
        assert str(sorted(map(str, known.values()))) == str(sorted(map(str, expected.values())))
        assert np.isnan(expected["b", "scalar"].last_value)
