"""Connections that ask for nothing, or do not take their answer, are closed: those that ask find room."""

from __future__ import annotations

import asyncio
from typing import cast

from uvicorn.protocols.http.h11_impl import H11Protocol

MOST_CONNECTIONS = 256
REQUEST_WITHIN_S = 10.0
"""How long a new connection may take to ask: its whole request line and headers."""
KEEP_ALIVE_S = 30
"""How long a connection that was answered may take to ask again, and at least to take its answer."""
TAKE_WITHIN_S = 0.5
"""How long an answer may take to be taken when the server ends."""
LEAST_BYTES_A_SECOND = 10_000
"""An answer may take the time that it takes at this rate, in addition."""


class Connection(H11Protocol):
    """A connection with a deadline, except while its answer is computed.

    uvicorn has none for headers and for those who do not read, and counts idle connections against its limit. Here the
    connection that has waited longest makes room for a new one.
    """

    _deadline: asyncio.TimerHandle | None = None
    since_s = 0.0
    is_lost = False

    @property
    def waits(self) -> bool:
        """Whether it waits for the client: for its request, or for it to take an answer."""
        return self.cycle is None or self.cycle.response_complete or self.transport.get_write_buffer_size() > 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Takes a connection, in place of the one that has waited longest where there are too many."""
        super().connection_made(transport)
        self._wait(REQUEST_WITHIN_S)
        if len(self.connections) > MOST_CONNECTIONS:
            waiting = [one for one in cast("set[Connection]", self.connections) if one.waits and not one.is_lost]
            min(waiting, key=lambda one: one.since_s).lose()

    def data_received(self, data: bytes) -> None:
        """Takes what comes; a part of a request puts no deadline off."""
        super().data_received(data)
        if not self.waits:
            self._cancel()

    def pause_writing(self) -> None:
        """Waits for the client to take what was sent of its answer."""
        super().pause_writing()
        self._wait_for_reader()

    def on_response_complete(self) -> None:
        """Waits for the client to take its answer, and for its next request."""
        super().on_response_complete()
        if self.waits:
            self._wait_for_reader()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forgets the connection."""
        self.is_lost = True
        self._cancel()
        super().connection_lost(exc)

    def shutdown(self) -> None:
        """Ends when its answer is taken, if that is soon: uvicorn would wait, and log a traceback."""
        super().shutdown()
        self.loop.call_later(TAKE_WITHIN_S, self.transport.abort)

    def _wait_for_reader(self) -> None:
        self._wait(KEEP_ALIVE_S + self.transport.get_write_buffer_size() / LEAST_BYTES_A_SECOND)

    def _wait(self, seconds: float) -> None:
        self._cancel()
        self.since_s = self.loop.time()
        self._deadline = self.loop.call_later(seconds, self.lose)

    def _cancel(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def lose(self) -> None:
        """Closes it, if it waits for the client still."""
        if self.waits:
            self.is_lost = True
            self.transport.abort()
