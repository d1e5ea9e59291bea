"""With an emitter, what debuggers return is emitted by its type: numbers, pictures, histograms and pages."""

import re
from pathlib import Path

import numpy as np
import pytest
import torch
from debugger_parts import entry
from digit_models import digit_network, digits
from tracker_adapters.artifacts import Histogram
from tracker_adapters.store.blobs import check_blob
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.base_debugger import BaseDebugger, Picture
from debuggers.feature_map import FeatureMapDebugger
from debuggers.measurement.measure import summarize
from debuggers.pages import load_page
from debuggers.wrappers.sequential_debugger import SequentialDebugger


class Mixture(BaseDebugger):
    def __call__(self, datapoint, model):
        return {
            "float": 0.5,
            "deep": {"int": 3, "flag": True, "tensor": torch.tensor(2.0), "array": np.float32(1.5)},
            "list": [1.0, 2.0],
            "text": "x",
            "vector": torch.ones(3),
            "complex": torch.tensor(1j),
            "nan": float("nan"),
        }


MIXTURE = entry("mix", Mixture)
MAPS = entry("maps", FeatureMapDebugger, layer_name="backbone.conv1")


def run(config, folder, epochs=1, calls=3):
    emitter, model, (images, _) = MemoryEmitter(), digit_network(), digits(2)
    with SequentialDebugger(config, model, emitter=emitter) as sequential:
        for epoch in range(epochs):
            sequential.begin_epoch(folder / str(epoch))
            for idx in range(calls):
                model(images)
                sequential({"meta_info": {"idx": idx}}, model)
            sequential.save_all()
    return emitter.artifacts


def test_numbers_are_scalars_named_by_their_path(tmp_path):
    scalars = {artifact.name: artifact.value for artifact in run([MIXTURE], tmp_path) if artifact.kind == "scalar"}
    assert np.isnan(scalars.pop("mix/nan"))
    assert scalars == {
        "mix/float": 0.5,
        "mix/deep/int": 3,
        "mix/deep/flag": 1,
        "mix/deep/tensor": 2,
        "mix/deep/array": 1.5,
    }


def test_each_call_has_its_own_step(tmp_path):
    artifacts = run([MIXTURE], tmp_path, epochs=2)
    assert [artifact.step for artifact in artifacts if artifact.name == "mix/float"] == [0, 1, 2, 3, 4, 5]


def test_the_caller_may_set_the_step(tmp_path):
    emitter, model = MemoryEmitter(), digit_network()
    with SequentialDebugger([MIXTURE], model, emitter=emitter) as sequential:
        sequential.begin_epoch(tmp_path)
        sequential.step = 700
        sequential({"meta_info": {"idx": 0}}, model)
    assert {artifact.step for artifact in emitter.artifacts} == {700}


def test_one_picture_an_epoch(tmp_path):
    images = [artifact for artifact in run([MAPS], tmp_path, epochs=2) if artifact.kind == "image"]
    assert [(image.name, image.step) for image in images] == [("maps/feature_map", 0), ("maps/feature_map", 3)]
    assert (images[0].width, images[0].height) == (65, 65)


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="counts bytes as Linux does")
def test_what_is_written_to_a_page_is_never_read_on_its_way_into_a_run(tmp_path):
    """The checksum is computed while the page is written, and the run's blob is a link to it."""
    nbytes = 32 << 20

    class Large(BaseDebugger):
        def __call__(self, datapoint, model):
            return {"values": torch.full((nbytes // 8,), 1.0, dtype=torch.float64)}

    def read_so_far():
        return int(re.search(r"^rchar: (\d+)$", Path("/proc/self/io").read_text(), re.MULTILINE)[1])

    config = [{"name": "large", "debugger_config": {"class": Large}}]
    with stepscope.open_run(tmp_path / "run", sinks=[]) as recorded:
        with SequentialDebugger(config, digit_network(), emitter=recorded) as sequential:
            sequential.begin_epoch(tmp_path / "pages")
            sequential({"meta_info": {"idx": 0}}, None)
            before = read_so_far()
            sequential.save_all()
        assert recorded.flush(60)
        assert read_so_far() - before < nbytes / 2
    (page,) = stepscope.read_run(tmp_path / "run").pages()
    assert page.size > nbytes
    check_blob(tmp_path / "run", page.sha256, page.size)


def test_pages_come_with_their_contents(tmp_path):
    pages = [artifact for artifact in run([MAPS, MIXTURE], tmp_path, epochs=2) if artifact.kind == "page"]
    assert [(page.name, page.step, page.path) for page in pages] == [
        ("page_0", 2, tmp_path / "0" / "page_0.pkl"),
        ("page_0", 5, tmp_path / "1" / "page_0.pkl"),
    ]
    assert list(load_page(pages[0].path, size=pages[0].size, sha256=pages[0].sha256)) == [0, 1, 2]
    first = pages[0].contents[0]
    assert (len(pages[0].contents), first.datapoint, first.debugger) == (6, 0, "maps")
    number = r"-?\d\S*"
    values = (
        rf"from {number} to {number}, mean {number}, stats {{mean {number}, std {number}, min {number}, max {number}"
    )
    assert re.match(rf"feature_map float32 \(2, 4, 8, 8\) {values}", first.summary)


class Typed(BaseDebugger):
    def __call__(self, datapoint, model):
        values = torch.tensor([-1.0, 0.0, 2.0, float("nan")])
        return {
            "picture": Picture("ignored", torch.linspace(0, 1, 6).reshape(2, 3)),
            "deep": {"summary": summarize([values])[0], "colour": Picture("c", torch.zeros(4, 5, 3))},
            "histogram": Histogram.from_values("other", values.numpy(), step=99, time_ns=7),
            "list": [Picture("p", torch.zeros(2, 2))],
        }


TYPED = {"name": "typed", "debugger_config": {"class": Typed}}


def test_pictures_and_histograms_in_the_outputs_are_emitted_by_their_path(tmp_path):
    artifacts = run([TYPED], tmp_path, calls=2)
    images = [artifact for artifact in artifacts if artifact.kind == "image"]
    assert [(image.name, image.step, image.width, image.height) for image in images[:2]] == [
        ("typed/picture", 0, 3, 2),
        ("typed/deep/colour", 0, 5, 4),
    ]
    assert [(image.name, image.step) for image in images[2:]] == [("typed/picture", 1), ("typed/deep/colour", 1)]
    histograms = [artifact for artifact in artifacts if artifact.kind == "histogram"]
    assert [(each.name, each.step) for each in histograms] == [
        ("typed/deep/summary", 0),
        ("typed/histogram", 0),
        ("typed/deep/summary", 1),
        ("typed/histogram", 1),
    ]
    for each in histograms:
        assert (each.count, each.nan, each.zero, each.min, each.max) == (4, 1, 1, -1, 2)
    assert histograms[1].time_ns == 7


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_in_a_page_pictures_are_arrays_and_summaries_plain_values(tmp_path, rows):
    """Two rows are as many as a picture and the occupied bins have; nothing of them is cut all the same."""
    model = digit_network()
    with SequentialDebugger([TYPED], model) as sequential:
        sequential.begin_epoch(tmp_path)
        sequential({"meta_info": {"idx": list(range(rows))}}, model)
        sequential.save_all()
    for datapoint in load_page(tmp_path / "page_0.pkl").values():
        outputs = datapoint["typed"]
        np.testing.assert_allclose(outputs["picture"], np.linspace(0, 1, 6).reshape(2, 3))
        assert outputs["deep"]["colour"].shape == (4, 5, 3)
        assert outputs["list"][0].shape == (2, 2)
        summary = outputs["deep"]["summary"]
        assert (summary["count"], summary["nan"], summary["max"], summary["counts"]) == (4, 1, 2, [1, 1])
        assert (outputs["histogram"]["name"], outputs["histogram"]["counts"]) == ("other", [1, 1])


def test_a_copied_picture_is_not_changed_later(tmp_path):
    class Live(BaseDebugger):
        values = torch.zeros(2, 2)

        def __call__(self, datapoint, model):
            return {"picture": Picture("p", self.values)}

    with SequentialDebugger([{"name": "live", "debugger_config": {"class": Live}}], digit_network()) as sequential:
        sequential.begin_epoch(tmp_path)
        sequential({"meta_info": {"idx": 0}}, digit_network())
        Live.values += 1
        sequential.save_all()
    assert not load_page(tmp_path / "page_0.pkl")[0]["live"]["picture"].any()


class DrawsBadly(FeatureMapDebugger):
    def pictures(self, outputs, datapoint):
        yield from super().pictures(outputs, datapoint)
        raise RuntimeError("no more")


def test_a_debugger_whose_pictures_fail_is_isolated(tmp_path):
    config = {"class": DrawsBadly, "args": {"layer_name": "backbone.conv?"}}
    artifacts = run([{"name": "bad", "debugger_config": config}, MIXTURE], tmp_path, calls=1)
    assert [artifact.name for artifact in artifacts if artifact.kind == "image"] == [
        "bad/backbone.conv1/feature_map",
        "bad/backbone.conv2/feature_map",
    ]
    (alert,) = [artifact for artifact in artifacts if artifact.kind == "alert"]
    assert "emitting the pictures of debugger 'bad' at layer 'backbone.conv?' failed: RuntimeError" in alert.message
    assert "mix/float" in {artifact.name for artifact in artifacts}


class Unemittable(BaseDebugger):
    def __call__(self, datapoint, model):
        loop = {"deep": 2.0}
        loop["again"] = loop
        return {"": 1.0, "picture": Picture("p", torch.ones(4)), "loop": loop, "last": 3.0}


def test_a_value_that_cannot_be_emitted_costs_no_other(tmp_path):
    artifacts = run([{"name": "d", "debugger_config": {"class": Unemittable}}], tmp_path, calls=1)
    scalars = {artifact.name: artifact.value for artifact in artifacts if artifact.kind == "scalar"}
    assert (scalars["d/last"], scalars["d/loop/deep"]) == (3, 2)
    alerts = [artifact.message for artifact in artifacts if artifact.kind == "alert"]
    assert len(alerts) == 2  # one for each type of exception
    assert "ArtifactError" in alerts[0]
    assert "contain themselves" in alerts[1]
