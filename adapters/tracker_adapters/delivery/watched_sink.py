"""A sink whose calls are timed, so that another thread can tell that one hangs."""

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tracker_adapters.artifacts import RunInfo, RunStatus
from tracker_adapters.batch import Batch
from tracker_adapters.delivery.idle import IdleClock
from tracker_adapters.delivery.plainer_forms import PlainerForms
from tracker_adapters.sink import Sink


class WatchedSink:
    """Calls a sink under a clock. A kind that the sink has no rule for is given to it in its plainer form."""

    def __init__(
        self, make_sink: Callable[[], Sink], clock: IdleClock, plainer_forms: PlainerForms, view_command: str = ""
    ) -> None:
        """Makes the sink; ``clock`` runs while it is called, ``view_command`` opens the run in the viewer."""
        self._view_command = view_command
        self._make_sink = make_sink
        self._clock = clock
        self._plainer_forms = plainer_forms
        self._sink = self._made()

    def open(self, run: RunInfo, token: bytes | None) -> None:
        """Opens the sink at a token; see ``Sink.open`` for what it raises."""
        with self._call("open"):
            self._sink.open(run, token)

    def start_over(self, run: RunInfo) -> None:
        """Replaces the sink by a new one that is opened without a token."""
        self.close()
        self._sink = self._made()
        self.open(run, None)

    def write(self, batch: Batch) -> tuple[bytes, Counter[str]]:
        """Writes and flushes a batch; returns the new token, and why artifacts cannot be shown."""
        with self._call("write"):
            unshown = Counter(self._sink.write(self._plainer_forms.apply(batch, self._sink)))
        with self._call("flush"):
            return self._sink.flush(), unshown

    def describe(self, run: RunInfo) -> bytes | None:
        """Tells the sink what the run says of itself now, and returns the new token; None for one that takes no such.

        May raise StartOver.
        """
        describe = getattr(self._sink, "describe", None)
        if describe is None:
            return None
        with self._call("describe"):
            describe(run)
        with self._call("flush"):
            return self._sink.flush()

    def finish(self, status: RunStatus) -> None:
        """Tells the sink how the run ended."""
        with self._call("finish"):
            self._sink.finish(status)

    def close(self) -> None:
        """Releases what the sink holds."""
        with self._call("close"):
            self._sink.close()

    def _made(self) -> Sink:
        sink = self._make_sink()
        if hasattr(sink, "progressed"):  # a slow tracker that still answers is not given up
            sink.progressed = self._clock.restart
        if hasattr(sink, "view_command"):
            sink.view_command = self._view_command
        return sink

    @contextmanager
    def _call(self, what: str) -> Iterator[None]:
        self._clock.start(what)
        try:
            yield
        finally:
            self._clock.stop()
