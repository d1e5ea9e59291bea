"""Which runs there are, and how far each is."""

from typing import Any

from tracker_adapters.errors import StepscopeError

from stepscope.viewer.answers.answer import Answer, json_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList


def runs_answer(runs: RunList, query: Query) -> Answer:
    """``runs``: the runs by their manifests and the sizes of files, and those that cannot be read, with the reason.

    ``named`` has the keys of those that were given one by one, in that order.
    """
    found: list[dict[str, Any]] = []
    unreadable = [{"folder": place, "error": error} for place, error in runs.look_again().items()]
    for run in runs.all():
        try:
            head = run.head()
        except (StepscopeError, OSError) as error:
            unreadable.append({"folder": run.shown, "error": str(error)})
            continue
        info = head.manifest.info
        ended_ns = head.manifest.ended_ns
        found.append(
            {
                "key": run.key,
                "name": info.name,
                "folder": run.shown,
                "status": info.status,
                "live": head.live,
                "created_ms": info.created_ns / 1e6,
                "finished_ms": None if ended_ns is None else ended_ns / 1e6,
                "ranks": list(head.ranks),
                "tags": list(info.tags),
                "damage": head.damage.text,
            }
        )
    return json_answer({"runs": found, "named": runs.named(), "unreadable": unreadable})


def positions_answer(runs: RunList, query: Query) -> Answer:
    """``positions?runs=K,K``: how far each run is; cheap enough to be asked each second.

    Of a run that cannot be read there is ``error`` in place of its position. ``damage`` says in one line which files of
    its store were emptied or cut short, ``created_ms`` whether another run lies at the place by now.
    """
    found: dict[str, Any] = {}
    for key in query.runs():
        try:
            head = runs.run(key).head()
            found[key] = {
                "position": runs.position(key),
                "status": head.manifest.info.status,
                "live": head.live,
                "damage": head.damage.text,
                "created_ms": head.manifest.info.created_ns / 1e6,
            }
        except (StepscopeError, OSError) as error:
            found[key] = {"position": "", "status": "unreadable", "live": False, "error": str(error)}
    return json_answer(found)
