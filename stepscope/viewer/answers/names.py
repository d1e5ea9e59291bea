"""What a rank of a run has recorded, by name."""

from stepscope.viewer.answers.answer import Answer, json_answer, json_number
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList


def names_answer(runs: RunList, query: Query) -> Answer:
    """``names?run=K&rank=0&since=``: every name with kind, count, last step and last value, by name.

    ``since`` is the ``position`` of an earlier answer about this rank: then only names that have changed are there.
    """
    key, rank, since = query.run(), query.rank(runs), query.whole("since", 0)
    with runs.opened(key) as record:
        position = runs.position(key)
        names, last_seq = runs.names.read(record, rank, since)
    listed = [
        {
            "name": info.name,
            "kind": info.kind,
            "count": info.count,
            "last_step": info.last_step,
            "last_value": json_number(info.last_value),
        }
        for info in names
    ]
    return json_answer({"position": str(last_seq), "names": listed}, position)
