"""The part of the contract about sharing a process: several sinks run in one, and a failed one is replaced there."""

import os
import signal
import threading
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from tracker_adapters.artifacts import Histogram
from tracker_adapters.batch import Batch, Column
from tracker_adapters.sink import Sink
from tracker_adapters.testing.samples import INFO
from tracker_adapters.testing.sink_tests import SinkTests, open_at
from tracker_adapters.testing.spawned import call_spawned


class ProcessContract(SinkTests):
    """The tests of SinkContract about what a sink does to its process."""

    def test_a_sink_prints_nothing_and_leaves_nothing_behind(self, run_folder: Path, sources: Path) -> None:
        """In a new process, where nothing but the sink has set up its tracker's SDK."""
        options, printed = self.options(run_folder), sources / "printed"
        batch = Batch.of(self.samples(sources))
        left_behind, exit_code = call_spawned(_visit, self.sink_class, options, batch, printed)
        text = printed.read_text(encoding="utf-8", errors="replace")
        assert (exit_code, text, left_behind) == (0, "", []), f"left {left_behind}, printed {text!r}"

    def test_after_a_failed_write_a_new_sink_carries_on_in_the_same_process(
        self, run_folder: Path, sources: Path
    ) -> None:
        options = self.options(run_folder)
        artifacts, batches = self.samples_of_steps(sources, 2)
        sink = open_at(self.sink_class, options, None, [])
        sink.write(batches[0])
        token = sink.flush()
        first, last = batches[1].first_seq, batches[1].last_seq
        broken = Column([first], [cast("Histogram", object())])
        with pytest.raises(Exception, match=r"."):
            sink.write(Batch(first_seq=first, last_seq=last, scalars=batches[1].scalars, histograms=broken))
        sink.close()
        sink = open_at(self.sink_class, options, token, batches[:1])
        sink.write(batches[1])
        sink.flush()
        sink.finish("finished")
        sink.close()
        self.assert_shows(options, artifacts)


def _visit(sink_class: type[Sink], options: dict[str, Any], batch: Batch, printed: Path, sender: Connection) -> None:
    """Delivers a batch with standard output and error going to ``printed``, and sends what is left of the sink."""
    descriptor = os.open(printed, os.O_WRONLY | os.O_CREAT)
    for standard in (1, 2):
        os.dup2(descriptor, standard)
    before = _threads_processes_and_handlers()
    sink = sink_class(**options)
    sink.open(INFO, None)
    sink.write(batch)
    sink.flush()
    sink.finish("finished")
    sink.close()
    sender.send(sorted(_threads_processes_and_handlers() - before))
    sender.close()


def _threads_processes_and_handlers() -> set[str]:
    return {
        *(f"thread {thread.name}" for thread in threading.enumerate()),
        *(f"process {child.pid}: {child.name()}" for child in psutil.Process().children(recursive=True)),
        *(f"{number!r} handled by {signal.getsignal(number)}" for number in signal.valid_signals()),
    }
