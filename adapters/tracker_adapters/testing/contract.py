"""The contract suite: what every sink must do, checked through its tracker's own reader.

A sink's test subclasses SinkContract and supplies ``options`` and ``read_back``; pytest does the rest::

    class TestLocalSink(SinkContract):
        sink_class = LocalSink

        def read_back(self, options):
            return read_local_files(options["target"])
"""

import math
from pathlib import Path

import numpy as np
import pytest

from tracker_adapters.artifacts import Histogram, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkConfigError
from tracker_adapters.testing.crash_contract import CrashContract
from tracker_adapters.testing.delivery_contract import DeliveryContract
from tracker_adapters.testing.process_contract import ProcessContract
from tracker_adapters.testing.samples import (
    INFO,
    ODD_NAMES,
    ODD_VALUES,
    TIME_NS,
    Shown,
    one_of_each,
    pixel_digest,
    shown,
)

__all__ = [
    "INFO",
    "ODD_NAMES",
    "ODD_VALUES",
    "TIME_NS",
    "Shown",
    "SinkContract",
    "one_of_each",
    "pixel_digest",
    "shown",
]


class SinkContract(CrashContract, DeliveryContract, ProcessContract):
    """Subclass it, set ``sink_class``, override ``read_back`` and what differs."""

    def test_every_kind_is_shown(self, run_folder: Path, sources: Path) -> None:
        options = self.options(run_folder)
        artifacts = self.samples(sources)
        assert not self.deliver(options, Batch.of(artifacts))
        self.assert_shows(options, artifacts)

    def test_one_name_can_hold_every_kind(self, run_folder: Path, sources: Path) -> None:
        options = self.options(run_folder)
        artifacts = self.samples(sources, name="layer1/weight")
        assert not self.deliver(options, Batch.of(artifacts))
        self.assert_shows(options, artifacts)

    def test_values_survive_nan_and_infinity_included(self, run_folder: Path) -> None:
        options = self.options(run_folder)
        scalars = [Scalar(name="loss", value=v, step=i, time_ns=TIME_NS + i) for i, v in enumerate(ODD_VALUES)]
        assert not self.deliver(options, Batch.of(scalars))
        self.assert_shows(options, scalars)

    def test_a_series_keeps_its_order(self, run_folder: Path) -> None:
        options = self.options(run_folder)
        scalars = [
            Scalar(name=name, value=step / 8, step=step, time_ns=TIME_NS + step)
            for step in range(1500)
            for name in ("a", "b")
        ]
        half = len(scalars) // 2
        batches = Batch.of(scalars[:half]), Batch.of(scalars[half:], first_seq=half + 1)
        assert not self.deliver(options, *batches)
        seen = self.read_back(options)
        for name in ("a", "b"):
            assert [s.step for s in seen if s.name == name] == list(range(1500))
            assert [s.value for s in seen if s.name == name] == [step / 8 for step in range(1500)]

    def test_the_largest_step_is_kept(self, run_folder: Path) -> None:
        options = self.options(run_folder)
        scalars = [Scalar(name="loss", value=1.0, step=step, time_ns=TIME_NS) for step in (0, 2**53 + 1, 2**63 - 1)]
        assert not self.deliver(options, Batch.of(scalars))
        self.assert_shows(options, scalars)

    @pytest.mark.parametrize(
        "values",
        [[], [math.nan] * 3, [math.inf, -math.inf], [2.5] * 4, [0.0, 0.0], [-1.0, math.nan, math.inf, 4.0], [1e300]],
        ids=["empty", "all-nan", "all-inf", "constant", "zeros", "mixed", "beyond-float32"],
    )
    def test_hard_histograms(self, run_folder: Path, values: list[float]) -> None:
        options = self.options(run_folder)
        histogram = Histogram.from_values("h", values, step=0, time_ns=TIME_NS)
        unshown = self.deliver(options, Batch.of([histogram, Scalar(name="after", value=1.0, step=0, time_ns=TIME_NS)]))
        assert not unshown
        seen = {s.name: s for s in self.read_back(options)}
        assert seen["after"].value == 1.0
        assert seen["h"].kind == "histogram"
        assert seen["h"].value[0] == histogram.finite_count
        if histogram.finite_count:
            np.testing.assert_allclose(seen["h"].value[1:], (histogram.min, histogram.max), rtol=1e-6, atol=1e-300)

    def test_odd_names_come_back_and_stay_inside_the_folder(self, run_folder: Path, sources: Path) -> None:
        options = self.options(run_folder)
        root = run_folder.parent.parent
        artifacts = [a for name in ODD_NAMES for a in self.samples(sources, name=name)]
        before = {path for path in root.rglob("*") if run_folder.parent not in path.parents}
        assert not self.deliver(options, Batch.of(artifacts))
        self.assert_shows(options, artifacts)
        after = {path for path in root.rglob("*") if run_folder.parent not in path.parents}
        assert after == before

    def test_every_artifact_is_accounted_for_when_steps_repeat(self, run_folder: Path, sources: Path) -> None:
        options = self.options(run_folder)
        first, again = self.samples(sources, step=5), self.samples(sources, step=5)
        earlier = [Scalar(name="scalar", value=9.0, step=2, time_ns=TIME_NS + 1)]
        written = [*first, *again[1:], *earlier]
        unshown = self.deliver(options, Batch.of(written))
        assert len(self.read_back(options)) + sum(unshown.values()) == len(written)
        if self.drops_late_steps:
            assert unshown["late_step"] >= 1
        else:
            assert not unshown

    def test_close_and_finish_can_be_repeated(self, run_folder: Path) -> None:
        options = self.options(run_folder)
        self.sink_class(**options).close()
        sink = self.sink_class(**options)
        sink.open(INFO, None)
        sink.flush()
        sink.finish("failed")
        sink.finish("failed")
        sink.close()
        sink.close()
        assert self.read_back(options) == []

    def test_an_unknown_option_is_named(self, run_folder: Path) -> None:
        with pytest.raises(SinkConfigError, match="no option 'colour'"):
            self.sink_class.resolve({"colour": "red"}, run_folder)

    def test_options_survive_json(self, run_folder: Path) -> None:
        import json

        options = self.options(run_folder)
        assert json.loads(json.dumps(options)) == options
        assert isinstance(options["target"], str)
