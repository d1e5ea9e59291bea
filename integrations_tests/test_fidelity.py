"""100,000 mixed artifacts: what was emitted is what each tracker's own reader gives back, value for value.

The conversions that ``docs/sinks.md`` states are applied to what was emitted; then everything must be equal, and
nothing may be missing or there twice.
"""

import importlib
import json
import math
from collections import Counter, defaultdict
from typing import Any

import numpy as np
import pytest
from tracker_adapters.artifacts import Histogram, Image, Page, PageEntry
from tracker_adapters.registry import load_sink
from tracker_adapters.testing.samples import ODD_VALUES, Shown, pixel_digest
from tracker_adapters.values.image import pixels

import stepscope

pytestmark = pytest.mark.slow
SINKS = ("tensorboard", "mlflow", "wandb", "local")
STEPS = 2240
COUNTS = {
    "scalar": 40 * STEPS, "histogram": 8000, "image": 600, "text": 800, "alert": 600, "table": 200, "page": 100,
    "file": 100,
}  # fmt: skip
HISTOGRAM_ULPS = 1e-15
FLOAT32 = 1e-6
TENSORBOARD_TEXTS = ("alert", "table", "page", "file")


def emit_all(run, sources):
    """Emits 100,000 artifacts, and yields what a tracker without limits shows of each."""
    rng = np.random.default_rng(0)
    for step in range(STEPS):
        for number in range(40):
            value = float(rng.normal() * 10.0 ** rng.integers(-30, 30))
            if rng.random() < 0.01:
                value = ODD_VALUES[rng.integers(len(ODD_VALUES))]
            name = f"layer{number}/norm"
            run.scalar(name, value, step=step)
            yield Shown("scalar", name, step, value)
        for number in range(16 if step < 500 else 0):
            values = rng.normal(number, 10.0 ** rng.integers(-8, 8), 50).astype(np.float32)
            values[: number // 8] = np.nan
            name = f"grad/{number}"
            run.histogram(name, values, step=step)
            summary = Histogram.from_values(name, values, step=step)
            yield Shown("histogram", name, step, (summary.finite_count, summary.min, summary.max))
        if step < 600:
            picture = rng.integers(0, 256, (9, 13, 3), dtype=np.uint8)
            run.image("input", picture, step=step, layout="HWC")
            png = Image.from_pixels("input", pixels("input", picture, "HWC", None), step=step).png
            yield Shown("image", "input", step, pixel_digest(png))
            text = f"*step* {step} <b>&amp;</b> {'ü' * (step % 50)}"
            run.alert("slow_step", text, step=step, level="warning")
            yield Shown("alert", "slow_step", step, ("warning", text))
        if step < 800:
            run.text("notes", f"line one of {step}\nline two: |x| & <y>", step=step)
            yield Shown("text", "notes", step, f"line one of {step}\nline two: |x| & <y>")
        if step < 200:
            rows = [["fc1", float(step)], ["a|b", math.nan], [None, -math.inf]]
            run.table("norms", ["layer", "norm"], rows, step=step)
            yield Shown("table", "norms", step, (("layer", "norm"), tuple(map(tuple, rows))))
        if step < 100:
            for kind in ("page", "file"):
                path = sources / f"{kind}_{step}.pkl"
                path.write_bytes(rng.bytes(100 + step))
                if kind == "page":
                    run.page(
                        path, name="page", step=step, contents=[PageEntry(datapoint=step, debugger="d", summary="s")]
                    )
                else:
                    run.file(path, name="file", step=step)
                yield Shown(kind, kind, step, Page(name="x", path=path, step=0).sha256)


def key(one):
    return one.kind, one.name, one.step


def assert_same_value(wanted, seen, sink):
    value = wanted.value
    if wanted.kind == "scalar":
        if sink == "tensorboard":
            with np.errstate(over="ignore"):
                value = float(np.float32(value))
        assert seen.value == value or (math.isnan(seen.value) and math.isnan(value)), (wanted, seen)
    elif wanted.kind == "histogram":
        tolerance = FLOAT32 if sink == "tensorboard" else HISTOGRAM_ULPS
        np.testing.assert_allclose(seen.value, value, rtol=tolerance, atol=0)
    elif sink == "tensorboard" and wanted.kind in TENSORBOARD_TEXTS:
        assert_text_stands_for(wanted, str(seen.value))
    else:
        # Through JSON, NaN equals NaN, and tuples equal lists.
        assert json.dumps(seen.value) == json.dumps(value), (wanted, seen)


def assert_text_stands_for(wanted, text):
    match wanted.kind:
        case "alert":
            assert wanted.value[1] in text
        case "table":
            assert all(cell in text for cell in ("layer", "norm", "fc1", str(wanted.value[1][0][1])))
        case _:
            assert wanted.value in text


@pytest.mark.timeout(900)
def test_100000_artifacts_come_back_from_every_tracker(tmp_path):
    sources = tmp_path / "sources"
    sources.mkdir()
    run = stepscope.open_run(tmp_path / "runs" / "fidelity", sinks=list(SINKS))
    emitted = list(emit_all(run, sources))
    assert Counter(one.kind for one in emitted) == COUNTS
    assert len(emitted) == 100_000
    assert run.close(600)
    stats = run.stats
    assert (stats.emitted, stats.stored, stats.lost) == (100_000, 100_000, {})
    wanted = {key(one): one for one in emitted}
    for sink in SINKS:
        assert (stats.sinks[sink].delivered, stats.sinks[sink].failed) == (100_000, {})
        shown = importlib.import_module(f"readback_{sink}").read_back(load_sink(sink).resolve({}, run.path))
        as_kind = dict.fromkeys(TENSORBOARD_TEXTS, "text") if sink == "tensorboard" else {}
        seen: dict[tuple[str, str, int], list[Any]] = defaultdict(list)
        for one in shown:
            seen[key(one)].append(one)
        assert len(shown) == 100_000
        for (kind, name, step), one in wanted.items():
            (found,) = seen[as_kind.get(kind, kind), name, step]
            assert_same_value(one, found, sink)
