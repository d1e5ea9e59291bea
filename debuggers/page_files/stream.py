"""The file that a page is written to: its checksum is computed beside the writing, and the disk begins at once."""

import hashlib
import os
import threading
from contextlib import suppress
from queue import SimpleQueue
from typing import BinaryIO, Self

Piece = bytes | memoryview

_BATCH_BYTES = 1 << 20
"""How much is handed to the thread that hashes at a time; less is not worth waking it."""
AHEAD_BYTES = 8 << 20
"""How much is written before the disk is asked to begin with it."""


class Checksum:
    """Computes a SHA-256 in a second thread; ``sha256`` holds its hexadecimal digits once the block has ended."""

    def __init__(self) -> None:
        self.sha256 = ""
        self._batch: list[Piece] = []
        self._batched = 0
        self._batches: SimpleQueue[list[Piece]] = SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="stepscope-page-checksum", daemon=True)

    def update(self, piece: Piece) -> None:
        """Adds bytes, which must not change until the block ends."""
        self._batch.append(piece)
        self._batched += len(piece)
        if self._batched >= _BATCH_BYTES:
            self._hand_over()

    def __enter__(self) -> Self:
        # While the interpreter shuts down, Python from 3.12 on starts no thread: then all is hashed at the end.
        with suppress(RuntimeError):
            self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._batch:
            self._hand_over()
        self._batches.put([])
        if self._thread.ident is None:
            self._work()
        else:
            self._thread.join()

    def _hand_over(self) -> None:
        self._batches.put(self._batch)
        self._batch, self._batched = [], 0

    def _work(self) -> None:
        digest = hashlib.sha256()
        while batch := self._batches.get():
            for piece in batch:
                digest.update(piece)
        self.sha256 = digest.hexdigest()


class PageStream:
    """A new file whose bytes also go into a checksum; ``size`` says how many there are."""

    def __init__(self, file: BinaryIO, checksum: Checksum) -> None:
        self.size = 0
        self._file = file
        self._checksum = checksum
        self._begun = 0

    def tell(self) -> int:
        """How many bytes were written."""
        return self.size

    def write(self, piece: Piece) -> int:
        """Appends bytes, which must not change until the checksum is complete."""
        for start in range(0, len(piece), AHEAD_BYTES):
            part = memoryview(piece)[start : start + AHEAD_BYTES]
            self._checksum.update(part)
            self._file.write(part)
            self.size += len(part)
            if self.size - self._begun >= AHEAD_BYTES:
                self._begin_sync()
        return len(piece)

    def _begin_sync(self) -> None:
        """Lets the disk work while the rest is written, instead of only at the end."""
        if hasattr(os, "posix_fadvise"):
            self._file.flush()
            # On this advice Linux starts to write, and drops from its cache only what is on the disk already.
            os.posix_fadvise(self._file.fileno(), self._begun, self.size - self._begun, os.POSIX_FADV_DONTNEED)
        self._begun = self.size
