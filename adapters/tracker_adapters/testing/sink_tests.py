"""What all parts of the contract use: the sink that is tested, samples, fixtures, and how what it shows is compared."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from tracker_adapters.artifacts import Alert, Artifact, Curve, File, Histogram, Page, Scalar, Table
from tracker_adapters.batch import Batch
from tracker_adapters.errors import StartOver
from tracker_adapters.sink import Sink
from tracker_adapters.testing.samples import INFO, Shown, one_of_each, pixel_digest, shown


class SinkTests:
    """The base of the parts of the contract; see ``SinkContract``."""

    sink_class: ClassVar[type[Sink]]
    float32: ClassVar[bool] = False
    """Whether the tracker rounds scalars to float32."""
    degraded: ClassVar[dict[str, str]] = {}
    """Kinds shown as another one, for example ``{"page": "text"}``; the value is checked by ``check_degraded``."""
    drops_late_steps: ClassVar[bool] = False
    """Whether a step that is not above the last one of its name is counted as ``late_step`` instead of shown."""

    def options(self, folder: Path) -> dict[str, Any]:
        """Returns the sink's resolved options for a run in ``folder``."""
        return self.sink_class.resolve({}, folder)

    def read_back(self, options: dict[str, Any]) -> list[Shown]:
        """Returns everything that the tracker shows, in its order, read with the tracker's own reader."""
        raise NotImplementedError

    def check_degraded(self, artifact: Artifact, seen: Shown) -> None:
        """Checks an artifact that is shown as another kind; by default, a text that says what it stands for."""
        text = str(seen.value)
        if isinstance(artifact, (Page, File)):
            assert artifact.filename in text
        if isinstance(artifact, Page):
            for entry in artifact.contents:
                assert str(entry.datapoint) in text
                assert entry.debugger in text
                assert entry.summary in text
        if isinstance(artifact, Alert):
            assert artifact.message in text
            assert artifact.level in text.lower()
        if isinstance(artifact, Curve):  # of trackers that show pictures
            assert seen.value == pixel_digest(artifact.drawn().png)
        if isinstance(artifact, Table):
            assert all(column in text for column in artifact.columns)

    def samples(self, folder: Path, **about: Any) -> list[Artifact]:
        """Returns one artifact of every kind as the sink is handed them; see ``one_of_each``."""
        return [self.handed(artifact) for artifact in one_of_each(folder, **about)]

    def samples_of_steps(self, folder: Path, steps: int) -> tuple[list[Artifact], list[Batch]]:
        """Returns ``samples`` of each step from 1 on: all of them, and as a batch for each step."""
        parts = [self.samples(folder, step=step) for step in range(1, 1 + steps)]
        batches = [Batch.of(part, first_seq=1 + number * len(part)) for number, part in enumerate(parts)]
        return [artifact for part in parts for artifact in part], batches

    def handed(self, artifact: Artifact) -> Artifact:
        """Returns what delivery hands to the sink for an artifact."""
        return artifact if artifact.kind in self.sink_class.kinds else artifact.plainer()

    @pytest.fixture
    def run_folder(self, tmp_path: Path) -> Path:
        """The folder of a run, which is empty."""
        folder = tmp_path / "runs" / "exp1"
        folder.mkdir(parents=True)
        return folder

    @pytest.fixture
    def sources(self, tmp_path: Path) -> Path:
        """Where ``samples`` puts the files of pages and files."""
        folder = tmp_path / "sources"
        folder.mkdir()
        return folder

    def deliver(self, options: dict[str, Any], *batches: Batch) -> Counter[str]:
        """Opens a new sink, writes the batches, finishes and closes; returns what could not be shown."""
        sink = self.sink_class(**options)
        sink.open(INFO, None)
        unshown: Counter[str] = Counter()
        for batch in batches:
            unshown.update(sink.write(batch))
            sink.flush()
        sink.finish("finished")
        sink.close()
        return unshown

    def assert_shows(self, options: dict[str, Any], artifacts: Sequence[Artifact]) -> None:
        """Asserts that the tracker shows exactly ``artifacts``: kinds, names, steps and values."""
        seen = self.read_back(options)
        wanted = Counter((self.degraded.get(a.kind, a.kind), a.name, a.step) for a in artifacts)
        assert Counter((s.kind, s.name, s.step) for s in seen) == wanted
        for artifact in artifacts:
            key = (self.degraded.get(artifact.kind, artifact.kind), artifact.name, artifact.step)
            candidates = [s for s in seen if (s.kind, s.name, s.step) == key]
            if artifact.kind in self.degraded:
                _any_passes(artifact, candidates, self.check_degraded)
            else:
                _any_passes(artifact, candidates, self._check_value)

    def _check_value(self, artifact: Artifact, seen: Shown) -> None:
        wanted = shown(artifact).value
        if isinstance(artifact, Scalar) and self.float32:
            wanted = float(np.float32(wanted))
        if isinstance(artifact, (Scalar, Histogram)):
            # A bin needs a width, so Histogram.edges moves an extreme that lies on an edge to the next float64.
            tolerance = 1e-15 if isinstance(artifact, Histogram) else 0.0
            tolerance = 1e-6 if self.float32 else tolerance
            np.testing.assert_allclose(seen.value, wanted, rtol=tolerance, atol=0, equal_nan=True)
        else:
            assert seen.value == wanted


def open_at(sink_class: type[Sink], options: dict[str, Any], token: bytes | None, delivered: Sequence[Batch]) -> Sink:
    """Opens a new sink as delivery does; where it asks to start over, writes again what was ``delivered``."""
    sink = sink_class(**options)
    try:
        sink.open(INFO, token)
    except StartOver:
        sink.close()
        sink = sink_class(**options)
        sink.open(INFO, None)
        for batch in delivered:
            sink.write(batch)
    return sink


def _any_passes(artifact: Artifact, candidates: list[Shown], check: Any) -> None:
    """Runs ``check`` on each candidate: with several artifacts at one name and step, one of them must fit."""
    failures = []
    for candidate in candidates:
        try:
            check(artifact, candidate)
        except AssertionError as error:
            failures.append(error)
        else:
            return
    raise failures[0] if failures else AssertionError(f"nothing shown for {artifact.kind} {artifact.name!r}")
