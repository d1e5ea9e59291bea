"""How large a segment is and how far it reaches, read from a few of its pages."""

from tracker_adapters.store.segments.opened import Segment

_LAST_ROWS = (
    "SELECT step, time_ns FROM scalar WHERE seq_group = (SELECT max(seq_group) FROM scalar) ORDER BY seq DESC LIMIT 1",
    "SELECT step, time_ns FROM histogram ORDER BY seq DESC LIMIT 1",
)


def size_of(segment: Segment) -> int:
    """Returns the bytes of a segment, those included that lie in its write-ahead log."""
    (pages,), (page_bytes,) = (
        segment.connection.execute(f"PRAGMA {key}").fetchone() for key in ("page_count", "page_size")
    )
    return int(pages * page_bytes)


def newest(segment: Segment) -> tuple[int, int] | None:
    """Returns step and time (ns) of the last scalar or the last histogram, the higher step; None without both."""
    found = (segment.connection.execute(query).fetchone() for query in _LAST_ROWS)
    return max((row for row in found if row is not None), default=None)
