"""Answers kept for those who ask again, within a limit in bytes."""

import gzip
import hashlib
import threading
from collections import OrderedDict
from dataclasses import dataclass

from stepscope.viewer.answers.answer import JSON, Answer

MAX_BYTES = 32 * 1024 * 1024
_MOST_OF_ALL = 4
_ZIPPED_FROM = 16 * 1024
_ZIP_LEVEL = 1
"""Level 1 takes a third of the time of level 6 for a tenth more bytes, and these cross no ocean."""


@dataclass(frozen=True, slots=True)
class Kept:
    """An answer, ready to be sent: ``zipped`` is its body under gzip, where that pays."""

    answer: Answer
    etag: str
    zipped: bytes | None

    @classmethod
    def of(cls, answer: Answer) -> "Kept":
        """Returns what is sent of an answer."""
        etag = f'"{hashlib.sha256(answer.body).hexdigest()[:20]}"'
        zips = answer.media_type.startswith(("text/", JSON)) and len(answer.body) >= _ZIPPED_FROM
        return cls(answer, etag, gzip.compress(answer.body, _ZIP_LEVEL, mtime=0) if zips else None)

    @property
    def nbytes(self) -> int:
        """How much memory it takes."""
        return len(self.answer.body) + len(self.zipped or b"")


class KeptAnswers:
    """The answers that were asked for last; used from any thread."""

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, tuple[str, Kept]] = OrderedDict()
        self.nbytes = 0

    def get(self, address: str, position: str) -> Kept | None:
        """Returns what was answered at these positions of the runs; None for nothing."""
        with self._lock:
            found = self._kept.get(address)
            if found is None or found[0] != position:
                return None
            self._kept.move_to_end(address)
            return found[1]

    def put(self, address: str, position: str, kept: Kept) -> None:
        """Keeps an answer, and drops those that were asked for least lately; a very large one is not kept."""
        if kept.nbytes > self._max_bytes // _MOST_OF_ALL:
            return
        with self._lock:
            old = self._kept.pop(address, None)
            self._kept[address] = (position, kept)
            self.nbytes += kept.nbytes - (old[1].nbytes if old else 0)
            while self.nbytes > self._max_bytes:
                _, (_, dropped) = self._kept.popitem(last=False)
                self.nbytes -= dropped.nbytes
