"""The main job, end to end: what the demo emits is what each tracker's own reader gives back."""

import importlib
from collections import Counter

import numpy as np
import pytest
from tracker_adapters.artifacts import KINDS
from tracker_adapters.registry import load_sink
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.testing import MemorySink
from tracker_adapters.testing.samples import shown

import stepscope
from debuggers.pages import PageReader
from stepscope.report_pages.stored_contents import stored_contents

SINKS = ("tensorboard", "mlflow", "wandb", "local")
TENSORBOARD_TEXTS = ("alert", "table", "page", "file")


def emitted(folder):
    sink, reader, after = MemorySink(), StoreReader(folder), 0
    while batch := reader.read(after):
        sink.write(batch)
        after = batch.last_seq
    reader.close()
    return sink


def test_the_demo_trains_and_every_kind_is_emitted(demo):
    artifacts = emitted(demo.folder).artifacts
    assert {artifact.kind for artifact in artifacts} == set(KINDS)
    record = stepscope.read_run(demo.folder)
    assert record.info.status == "finished"
    assert record.scalars("validation/accuracy").values[-1] > 0.95
    assert len(record.scalars("loss")) == 6 * 23
    assert record.scalars("validation/loss").steps.tolist() == [23, 46, 69, 92, 115, 138]
    assert record.scalars("validation/conv1_maps/stats/mean").steps.tolist() == [46, 92, 138]


@pytest.mark.parametrize("name", SINKS)
def test_emitted_is_read_back_by_kind_and_value(demo, name):
    """Nothing is missing, nothing is there twice, and scalars and pictures are what was emitted."""
    artifacts = emitted(demo.folder).artifacts
    read_back = importlib.import_module(f"readback_{name}").read_back
    seen = read_back(load_sink(name).resolve({}, demo.folder))
    as_kind = dict.fromkeys(TENSORBOARD_TEXTS, "text") | {"curve": "image"} if name == "tensorboard" else {}
    assert Counter((s.kind, s.name, s.step) for s in seen) == Counter(
        (as_kind.get(a.kind, a.kind), a.name, a.step) for a in artifacts
    )
    scalars = {(s.name, s.step): s.value for s in seen if s.kind == "scalar"}
    for artifact in artifacts:
        if artifact.kind == "scalar":
            wanted = np.float32(artifact.value) if name == "tensorboard" else artifact.value
            assert scalars[artifact.name, artifact.step] == wanted
    images = {(s.name, s.step): s.value for s in seen if s.kind == "image"}
    for artifact in artifacts:
        if artifact.kind == "image":
            assert images[artifact.name, artifact.step] == shown(artifact).value


def test_the_table_at_the_end_tells_the_truth(demo):
    counts = Counter(artifact.kind for artifact in emitted(demo.folder).artifacts)
    rows = {}
    for line in demo.printed.splitlines():
        if line.startswith("│"):
            kind, *cells = (cell.strip() for cell in line.strip("│").split("│"))
            rows[kind] = cells
    for kind in KINDS:
        assert rows[kind] == [str(counts[kind])] * 4
    assert rows["delivered"] == [str(counts.total())] * 4
    assert rows["pending"] == rows["failed"] == ["0"] * 4
    assert "tensorboard --logdir" in demo.printed
    assert "mlflow ui" in demo.printed
    assert demo.printed.splitlines()[-1].endswith(f"stepscope view {demo.folder} {demo.folder}-lr-0.5")


def test_beside_it_a_training_goes_wrong_and_its_cause_is_told(demo):
    with stepscope.read_run(f"{demo.folder}-lr-0.5") as record:
        contents = stored_contents(record)
        assert record.info.status == "finished"
        assert len(record.scalars("loss")) == 6 * 23
    assert [(content.state, content.causes[0].code) for content in contents] == [("bad", "learning_rate_too_high")]
    with stepscope.read_run(demo.folder) as record:
        assert [content.causes for content in stored_contents(record)] == [()]


def test_pages_lie_in_their_epochs_and_hold_every_validation_datapoint(demo):
    folders = sorted(path.parent.name for path in demo.folder.glob("epoch_*/debugger"))
    assert folders == ["epoch_1", "epoch_3", "epoch_5"]
    for folder in folders:
        pages = PageReader(demo.folder / folder / "debugger")
        assert sorted(pages) == list(range(360))
        assert pages[7]["conv1_maps"]["feature_map"].shape == (16, 8, 8)
        assert (demo.folder / folder / "checkpoint.pt").exists()
        assert (demo.folder / folder / "validation_scores.json").exists()
