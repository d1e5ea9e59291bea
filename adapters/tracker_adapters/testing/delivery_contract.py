"""The part of the contract that needs real processes: a killed trainer, a killed delivery, a deadline."""

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

from tracker_adapters.artifacts import KINDS
from tracker_adapters.registry import ENTRY_POINT_GROUP, known_sinks
from tracker_adapters.store.layout import rank_folder
from tracker_adapters.store.ledger import Ledger, position_key
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.testing.sink_tests import SinkTests
from tracker_adapters.testing.sinks import MemorySink

DEADLINE_S = 120.0

TRAINER = """
import json, sys
from pathlib import Path
from tracker_adapters.artifacts import RunInfo
from tracker_adapters.config import SinkConfig
from tracker_adapters.delivery.handle import Delivery
from tracker_adapters.store.manifest import Manifest, claim_folder
from tracker_adapters.store.writing.run_store import RunStore
from tracker_adapters.testing.samples import one_of_each

request = json.load(sys.stdin)
folder, sources = Path(request["run"]), Path(request["sources"])
found = claim_folder(folder)
manifest = found or Manifest(RunInfo(id="killed", name="killed"))
manifest = manifest.with_status("running")
manifest.save(folder)
delivery = None
store = RunStore(folder, resume=found is not None, on_tick=lambda: delivery and delivery.watch())
delivery = Delivery(folder, 0, [SinkConfig(request["type"], request["options"])])
for step in range(request["first"], request["last"]):
    for artifact in one_of_each(sources, step=step):
        artifact = store.adopt(artifact) if hasattr(artifact, "sha256") else artifact
        store.put(artifact, 1000)
    store.flush()
    print(step, flush=True)
    if request["paced"]:
        # Waits until the test opens the other end. A gate that stayed open would let its next opening run ahead.
        with open(request["gate"]) as gate:
            gate.read()
manifest.with_status("finished").save(folder)
store.close()
import time
assert delivery.close(time.monotonic() + 100), delivery.positions()
"""


class DeliveryContract(SinkTests):
    """The tests of SinkContract that start and kill processes."""

    def test_a_killed_trainer_loses_nothing_and_a_resumed_one_doubles_nothing(
        self, run_folder: Path, sources: Path
    ) -> None:
        """The delivery process drains and leaves when its trainer is killed; a resumed run goes on in the tracker."""
        options = self.options(run_folder)
        with self._trainer(run_folder, sources, options, steps=(0, 3), paced=True) as trainer:
            _next_step(trainer, 0)
            child = _delivery_of(trainer)
            trainer.send_signal(signal.SIGKILL)
        assert psutil.wait_procs([child], timeout=DEADLINE_S)[1] == [], "the delivery process did not leave"
        self._assert_position(run_folder, options, "done")
        with self._trainer(run_folder, sources, options, steps=(1, 3)) as trainer:
            assert trainer.wait(DEADLINE_S) == 0
        self._assert_all_shown(run_folder, options, steps=3)

    def test_a_killed_delivery_is_started_again_without_gap_or_double(self, run_folder: Path, sources: Path) -> None:
        options = self.options(run_folder)
        with self._trainer(run_folder, sources, options, steps=(0, 3), paced=True) as trainer:
            for step in range(3):
                _next_step(trainer, step)
                if step < 2:
                    # One kill may come before anything is delivered, the other one comes after.
                    child = _delivery_of(trainer)
                    if step == 1:
                        self._wait_for_position(run_folder, options, len(KINDS))
                    child.kill()
                    psutil.wait_procs([child], timeout=DEADLINE_S)
                (run_folder / "gate").write_text("", encoding="utf-8")
            assert trainer.wait(DEADLINE_S) == 0
        self._assert_all_shown(run_folder, options, steps=3)

    @contextmanager
    def _trainer(
        self,
        run_folder: Path,
        sources: Path,
        options: dict[str, Any],
        *,
        steps: tuple[int, int],
        paced: bool = False,
    ) -> Iterator[subprocess.Popen[str]]:
        """Runs TRAINER; a paced one waits after each step until the pipe ``gate`` is written."""
        gate = run_folder / "gate"
        if not gate.exists():
            os.mkfifo(gate)
        request = {
            "run": str(run_folder),
            "sources": str(sources),
            "type": self._sink_type(),
            "options": options,
            "first": steps[0],
            "last": steps[1],
            "paced": paced,
            "gate": str(gate),
        }
        trainer = subprocess.Popen(
            [sys.executable, "-c", TRAINER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8"
        )
        assert trainer.stdin is not None
        trainer.stdin.write(json.dumps(request))
        trainer.stdin.close()
        try:
            yield trainer
        finally:
            trainer.kill()
            trainer.wait()
            assert trainer.stdout is not None
            trainer.stdout.close()

    def _sink_type(self) -> str:
        for name, spec in known_sinks().items():
            module, _, attribute = spec.location.partition(":")
            if attribute == self.sink_class.__name__ and f"{self.sink_class.__module__}.".startswith(f"{module}."):
                return name
        raise AssertionError(
            f"no entry point of the group {ENTRY_POINT_GROUP!r} leads to {self.sink_class.__name__}: install its "
            "package (pip install --editable .), since the delivery process finds sinks that way"
        )

    def _assert_all_shown(self, run_folder: Path, options: dict[str, Any], *, steps: int) -> None:
        reader, memory = StoreReader(run_folder), MemorySink()
        after = 0
        while batch := reader.read(after):
            memory.write(batch)
            after = batch.last_seq
        reader.close()
        assert Counter(a.kind for a in memory.artifacts) == dict.fromkeys(KINDS, steps)
        self._assert_position(run_folder, options, "done")
        self.assert_shows(options, [self.handed(one) for one in memory.artifacts])

    def _assert_position(self, run_folder: Path, options: dict[str, Any], state: str) -> None:
        ledger = Ledger(rank_folder(run_folder, 0))
        position = ledger.positions()[position_key(self._sink_type(), options["target"])]
        ledger.close()
        assert (position.state, position.failed, position.error) == (state, {}, "")

    def _wait_for_position(self, run_folder: Path, options: dict[str, Any], seq: int) -> None:
        ledger = Ledger(rank_folder(run_folder, 0))
        key = position_key(self._sink_type(), options["target"])
        deadline = time.monotonic() + DEADLINE_S
        while (found := ledger.positions().get(key)) is None or found.seq < seq:
            assert time.monotonic() < deadline, f"the sink stands at {found}"
            time.sleep(0.02)
        ledger.close()


def _next_step(trainer: subprocess.Popen[str], step: int) -> None:
    assert trainer.stdout is not None
    line = trainer.stdout.readline().strip()
    assert line == str(step), f"the trainer said {line!r} instead of step {step}"


def _delivery_of(trainer: subprocess.Popen[str]) -> psutil.Process:
    """The trainer's delivery process, once it is there."""
    deadline = time.monotonic() + DEADLINE_S
    while time.monotonic() < deadline:
        for child in psutil.Process(trainer.pid).children():
            if child.status() != psutil.STATUS_ZOMBIE:
                return child
        time.sleep(0.02)
    raise AssertionError("the trainer has no delivery process")
