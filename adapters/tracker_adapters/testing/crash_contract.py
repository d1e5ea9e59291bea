"""The part of the contract about a sink that is killed or closed in the middle, and about its successor."""

import os
import signal
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from tracker_adapters.batch import Batch
from tracker_adapters.sink import Sink
from tracker_adapters.testing.sink_tests import SinkTests, open_at
from tracker_adapters.testing.spawned import call_spawned


class CrashContract(SinkTests):
    """The tests of SinkContract that kill a process while its sink writes."""

    def test_a_killed_sink_resumes_from_its_token(self, run_folder: Path, sources: Path) -> None:
        """Written and flushed: kept. Written again after a kill: neither lost nor doubled."""
        options = self.options(run_folder)
        artifacts, batches = self.samples_of_steps(sources, 3)
        token = self._write_then_die(options, None, [], batches[:1], [batches[1]])
        token = self._write_then_die(options, token, batches[:1], [batches[1]], [batches[2]])
        sink = open_at(self.sink_class, options, token, batches[:2])
        sink.write(batches[2])
        sink.flush()
        sink.finish("finished")
        sink.close()
        self.assert_shows(options, artifacts)

    def test_a_sink_killed_before_its_first_token_starts_over(self, run_folder: Path, sources: Path) -> None:
        options = self.options(run_folder)
        artifacts = self.samples(sources)
        self._write_then_die(options, None, [], [], [Batch.of(artifacts)])
        self.deliver(options, Batch.of(artifacts))
        self.assert_shows(options, artifacts)

    def test_a_closed_sink_goes_on_from_its_token(self, run_folder: Path, sources: Path) -> None:
        options = self.options(run_folder)
        artifacts, batches = self.samples_of_steps(sources, 2)
        token = None
        for number, batch in enumerate(batches):
            sink = open_at(self.sink_class, options, token, batches[:number])
            sink.write(batch)
            token = sink.flush()
            sink.close()
        self.assert_shows(options, artifacts)

    def _write_then_die(
        self,
        options: dict[str, Any],
        token: bytes | None,
        delivered: list[Batch],
        flushed: list[Batch],
        unflushed: list[Batch],
    ) -> bytes | None:
        """In a new process: open, write and flush, write more, then SIGKILL. Returns the last token.

        ``delivered`` is what ``token`` stands for.
        """
        result: bytes | None
        result, exit_code = call_spawned(_die_writing, self.sink_class, options, token, delivered, flushed, unflushed)
        assert exit_code == -signal.SIGKILL
        return result


def _die_writing(
    sink_class: type[Sink],
    options: dict[str, Any],
    token: bytes | None,
    delivered: list[Batch],
    flushed: list[Batch],
    unflushed: list[Batch],
    sender: Connection,
) -> None:
    sink = open_at(sink_class, options, token, delivered)
    for batch in flushed:
        sink.write(batch)
        token = sink.flush()
    for batch in unflushed:
        sink.write(batch)
    sender.send(token)
    sender.close()
    os.kill(os.getpid(), signal.SIGKILL)
