"""A recorder for tests that want to see what an emitter hands over."""

from typing import Any

from tracker_adapters.emitter import ScalarRow


class Queue:
    """A recorder that keeps what is put, unbuilt, as the store's queue does."""

    def __init__(self) -> None:
        self.items: list[tuple[ScalarRow | Any, int]] = []

    def put(self, item: Any, nbytes: int) -> None:
        self.items.append((item, nbytes))

    def adopt(self, artifact: Any) -> Any:
        return None  # the file is lost: the disk is full
