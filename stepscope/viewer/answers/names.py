"""What a rank of a run has recorded, by name."""

from stepscope.viewer.answers.answer import Answer, json_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList


def names_answer(runs: RunList, query: Query) -> Answer:
    """``names?run=K&rank=0``: every name with kind, count, last step and last value, by name."""
    rank = query.whole("rank", 0)
    with runs.opened(query.run()) as record:
        position = runs.position(query.run())
        names = record.names(rank)
    listed = [
        {
            "name": info.name,
            "kind": info.kind,
            "count": info.count,
            "last_step": info.last_step,
            "last_value": info.last_value,
        }
        for info in names
    ]
    return json_answer({"position": position, "names": listed}, position)
