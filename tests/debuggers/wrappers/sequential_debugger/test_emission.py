"""With an emitter, numbers become scalars, feature maps an image, and pages pages."""

import numpy as np
import torch
from digit_models import digit_network, digits
from tracker_adapters.testing import MemoryEmitter

from debuggers.base_debugger import BaseDebugger
from debuggers.feature_map import FeatureMapDebugger
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


MIXTURE = {"name": "mix", "debugger_config": {"class": Mixture}}
MAPS = {"name": "maps", "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": "backbone.conv1"}}}


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


def test_pages_come_with_their_contents(tmp_path):
    pages = [artifact for artifact in run([MAPS, MIXTURE], tmp_path, epochs=2) if artifact.kind == "page"]
    assert [(page.name, page.step, page.path) for page in pages] == [
        ("page_0", 2, tmp_path / "0" / "page_0.pkl"),
        ("page_0", 5, tmp_path / "1" / "page_0.pkl"),
    ]
    assert list(load_page(pages[0].path, size=pages[0].size, sha256=pages[0].sha256)) == [0, 1, 2]
    first = pages[0].contents[0]
    assert (len(pages[0].contents), first.datapoint, first.debugger) == (6, 0, "maps")
    assert first.summary.startswith("feature_map float32 (2, 4, 8, 8), stats {mean, std, min, max, shape}")
