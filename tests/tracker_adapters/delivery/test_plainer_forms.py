"""A sink that has no rule for a kind is handed a plainer form, under the same number, and is told of it once."""

import logging

from tracker_adapters.artifacts import KINDS
from tracker_adapters.batch import Batch
from tracker_adapters.delivery.plainer_forms import PlainerForms
from tracker_adapters.sink import BASIC_KINDS
from tracker_adapters.testing import MemorySink
from tracker_adapters.testing.samples import one_of_each


class OldSink(MemorySink):
    kinds = frozenset(KINDS) - {"curve"}


def test_a_curve_becomes_a_table_among_the_other_tables(tmp_path, caplog):
    artifacts = [artifact for step in range(3) for artifact in one_of_each(tmp_path, step=step)]
    batch, forms = Batch.of(artifacts, first_seq=5), PlainerForms("old")
    with caplog.at_level(logging.WARNING):
        forms.apply(batch, OldSink())
        changed = forms.apply(batch, OldSink())
    assert [record.getMessage() for record in caplog.records] == [
        "sink old has no rule for curves, which it is handed as tables"
    ]
    sink = OldSink()
    sink.write(changed)
    assert sink.artifacts == [one.plainer() if one.kind == "curve" else one for one in artifacts]
    assert list(changed.tables.seqs) == [10, 13, 19, 22, 28, 31]
    assert (changed.first_seq, changed.last_seq, len(changed)) == (batch.first_seq, batch.last_seq, len(batch))


def test_a_sink_with_a_rule_gets_the_batch_as_it_is(tmp_path):
    batch = Batch.of(one_of_each(tmp_path))
    assert PlainerForms("memory").apply(batch, MemorySink()) is batch


def test_kinds_without_a_plainer_form_come_as_they_are(tmp_path):
    sink = MemorySink()
    sink.kinds = frozenset()  # type: ignore[misc]
    changed = PlainerForms("odd").apply(Batch.of(one_of_each(tmp_path)[:8]), sink)
    sink.write(changed)
    assert [one.kind for one in sink.artifacts] == list(KINDS)[:8]
    assert {one.kind for one in sink.artifacts} == BASIC_KINDS
