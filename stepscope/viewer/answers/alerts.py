"""The alerts of a run."""

from stepscope.viewer.answers.answer import Answer, json_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList


def alerts_answer(runs: RunList, query: Query) -> Answer:
    """``alerts?run=K``: the alerts of all ranks by time: rank, name, step, time_ms, level and message."""
    key = query.run()
    with runs.opened(key) as record:
        position = runs.position(key)
        found = [(rank, alert) for rank in record.ranks for alert in record.alerts(rank)]
    found.sort(key=lambda pair: pair[1].time_ns)
    alerts = [
        {
            "rank": rank,
            "name": alert.name,
            "step": alert.step,
            "time_ms": alert.time_ns / 1e6,
            "level": alert.level,
            "message": alert.message,
        }
        for rank, alert in found
    ]
    return json_answer({"position": position, "alerts": alerts}, position)
