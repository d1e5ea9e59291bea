"""The names of live runs, kept up to date by what is new: counting all of a run each second would cost its training."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from tracker_adapters.store.reading.record import NameInfo, RunRecord


@dataclass(slots=True)
class _Known:
    """The names of a rank up to a sequence number, and the number up to which was read when each changed last."""

    last_seq: int
    names: dict[tuple[str, str], NameInfo]
    changed: dict[tuple[str, str], int] = field(default_factory=dict)


class WatchedNames:
    """The names of open records; a record is used by one thread at a time, and this from any."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: WeakKeyDictionary[RunRecord, dict[int, _Known]] = WeakKeyDictionary()

    def read(self, record: RunRecord, rank: int, since: int = 0) -> tuple[list[NameInfo], int]:
        """Returns the names that changed behind a sequence number, by name, and the number up to which was read.

        Raises:
            RunError: When the run cannot be read.
        """
        with self._lock:
            of_record = self._known.setdefault(record, {})
        known = of_record.get(rank)
        if known is None:
            names, last_seq = record.names_until(rank)
            known = of_record[rank] = _Known(last_seq, {(info.name, info.kind): info for info in names})
            known.changed = dict.fromkeys(known.names, last_seq)
        else:
            _bring_up_to_date(known, record, rank)
        keys = sorted(key for key, changed in known.changed.items() if changed > since)
        return [known.names[key] for key in keys], known.last_seq


def _bring_up_to_date(known: _Known, record: RunRecord, rank: int) -> None:
    from tracker_adapters.store.reading.record import NameInfo

    found, last_seq = record.new_names(rank, known.last_seq)
    for new in found:
        key = (new.name, new.kind)
        info = known.names.get(key, NameInfo(new.name, new.kind, 0, -1))
        info = replace(info, count=info.count + new.count)
        if new.last_step >= info.last_step:
            info = replace(info, last_step=new.last_step, last_value=new.last_value)
        known.names[key] = info
        known.changed[key] = last_seq
    known.last_seq = last_seq
