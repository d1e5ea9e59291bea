"""Histograms of long runs: each tracker shows few, merged ones stand for all, also after a resume."""

import importlib
from collections import defaultdict

import numpy as np
import pytest
from all_sinks import prepared
from tracker_adapters.registry import load_sink

import stepscope

pytestmark = pytest.mark.slow

SINKS = ("tensorboard", "mlflow", "wandb", "local")
NAMES = ("grad/fc1", "grad/fc2", "update")
LIMIT = 10


def train(folder, steps, *, resume=False):
    sinks = [{"type": sink, "histograms": LIMIT} for sink in SINKS]
    with stepscope.open_run(folder, sinks=sinks, resume=resume) as run:
        for step in steps:
            for name in NAMES:
                run.histogram(name, np.arange(step + 1, dtype=np.float32), step=step)
            run.scalar("loss", 1 / (step + 1), step=step)
            if step % 7 == 0:
                assert run.flush(60)
        assert run.close(60)
        for sink in run.stats.sinks.values():
            assert (sink.pending, sink.failed) == (0, {})


def test_every_tracker_shows_few_histograms_that_stand_for_all(tmp_path):
    folder = prepared(tmp_path / "runs" / "long")
    for steps in (range(45), range(45, 60)):
        train(folder, steps, resume=steps.start > 0)
        for sink in SINKS:
            seen = importlib.import_module(f"readback_{sink}").read_back(load_sink(sink).resolve({}, folder))
            shown = defaultdict(list)
            for one in seen:
                if one.kind == "histogram":
                    shown[one.name].append(one)
            assert shown.keys() == set(NAMES)
            for histograms in shown.values():
                assert [one.step for one in histograms[:LIMIT]] == list(range(LIMIT))
                assert LIMIT < len(histograms) < steps.stop // 2 + LIMIT
                assert histograms[-1].step == steps.stop - 1
                assert sum(one.value[0] for one in histograms) == sum(step + 1 for step in range(steps.stop))
                assert histograms[-1].value[2] == pytest.approx(steps.stop - 1)
        with stepscope.read_run(folder) as record:
            assert len(record.histograms("update")) == steps.stop
