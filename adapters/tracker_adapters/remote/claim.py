"""Which of several machines that open a new run at one place at the same moment gets it.

It is a splitter (L. Lamport, "A fast mutual exclusion algorithm", ACM TOCS 5, 1987): of any number of openings at most
one gets the place, and the others take the next number. It needs two objects that are written whole, and that everybody
who reads them later finds so, as object stores promise. The index that the run's writer makes takes their place.
"""

import json
from dataclasses import asdict

from tracker_adapters.errors import RunExistsError
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.remote.sealed import WRITER_SILENT_S, Writer, find_index, new_writer_id

_LAST, _TAKEN = ".claim-last.json", ".claim-taken.json"
"""Who came last; and who has seen nobody before it."""


def claim(place: RemotePlace) -> None:
    """Claims a place at which there is no run.

    A claim of which nothing has come within three minutes, as of a process that was killed, counts no longer.

    Raises:
        RunExistsError: When somebody else has claimed it, or does so now.
    """
    ours = Writer.here(new_writer_id())
    place.write(_LAST, ours.id.encode())
    other = _claimed_by(place)
    if (other is not None and other.is_seen()) or find_index(place) is not None:
        raise _taken(place, other)
    place.write(_TAKEN, json.dumps(asdict(ours)).encode())
    if place.read(_LAST) != ours.id.encode():
        raise _taken(place, _claimed_by(place))


def release(place: RemotePlace) -> None:
    """Removes what tells of a claim, once there is an index."""
    for name in (_TAKEN, _LAST):
        place.remove(name)


def _claimed_by(place: RemotePlace) -> Writer | None:
    content = place.read(_TAKEN)
    try:
        return None if content is None else Writer(**json.loads(content))
    except (ValueError, TypeError):
        return None


def _taken(place: RemotePlace, other: Writer | None) -> RunExistsError:
    who = "another process" if other is None else f"process {other.pid} of {other.host}"
    return RunExistsError(
        f"{who} is opening a run at {place.url}; choose another folder, or wait {WRITER_SILENT_S / 60:.0f} minutes "
        "if it has ended"
    )
