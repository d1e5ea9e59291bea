"""Opens the local sink as delivery does, and looks at its folder byte by byte."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracker_adapters.sinks.local import LocalSink
from tracker_adapters.testing.contract import INFO


@contextmanager
def opened(target: Path, token: bytes | None = None) -> Iterator[LocalSink]:
    sink = LocalSink(str(target))
    try:
        sink.open(INFO, token)
        yield sink
    finally:
        sink.close()


def snapshot(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
