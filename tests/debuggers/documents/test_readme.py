"""The code and commands of the debuggers' readme stand as they are written."""

import inspect
import typing
from pathlib import Path

import numpy as np
import pytest
import torch

from debuggers.base_debugger import BaseDebugger
from debuggers.forward_debugger import ForwardDebugger
from debuggers.integration import checkpoint_indices
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger

ROOT = Path(__file__).parents[3]
TRAINER_TEST = "integrations_tests/debuggers/test_trainer_example.py"
BLOCKS = [
    ("python", "from debuggers.forward_debugger import ForwardDebugger", "8cc3cd9f", "as it is"),
    ("python", "from debuggers.wrappers.sequential_debugger import SequentialDebugger", "cff34a52", "as it is"),
    ("bash", "python main.py --config-filepath configs/my_config_with_debugger.py", "24174ef3", TRAINER_TEST),
    ("bash", "python eval.py --config-filepath configs/my_evaluator_config_with_debugger.py", "07ca4720", TRAINER_TEST),
    ("", "work_dir/", "83d8963e", TRAINER_TEST),
    ("", "work_dir/", "741e5543", TRAINER_TEST),
    (
        "python",
        "def __call__(self, datapoint: Dict[str, Dict[str, Any]], model: torch.nn.Module) -> Dict[str, Any]:",
        "c7a45a0c",
        "methods of the class `Methods`",
    ),
    (
        "python",
        "def process_forward(self, module: torch.nn.Module, input: Any, output: Any) -> Any:",
        "9edf6e6c",
        "methods of the class `Methods`",
    ),
    (
        "python",
        "def __init__(self, debuggers_config: List[Dict[str, Any]], model: torch.nn.Module, page_size_mb: int = 100):",
        "537d752b",
        "methods of the class `Methods`",
    ),
    ("bash", "# Run all debugger tests", "d8921af9", "tests/debuggers/documents/test_readme.py"),
]
NAMES = {"Any": typing.Any, "Dict": typing.Dict, "List": typing.List, "torch": torch}  # noqa: UP006


@pytest.fixture
def document(open_document):
    return open_document("001_debuggers_readme.md", BLOCKS)


def parameters_of(cls, method):
    """The names and defaults of the parameters that may be given by position."""
    parameters = inspect.signature(getattr(cls, method)).parameters.values()
    return [(each.name, each.default) for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]


def test_every_block_is_listed(document):
    document.check_table()


def test_the_custom_debuggers_run_as_they_are_configured(document, model, batch, tmp_path):
    computed_gradcam = torch.arange(3.0)
    classes = document.run(0, computed_gradcam=computed_gradcam)
    config = document.run(1, **classes)["config"]
    assert checkpoint_indices(config["checkpoint_method"], 10) == [4, 9]
    debugger = config["debugger"]["class"](**config["debugger"]["args"], model=model)
    with debugger:
        assert debugger.page_size == 100 * 1024 * 1024
        debugger.begin_epoch(tmp_path)
        batch["outputs"] = model(batch["inputs"])
        returned = debugger(batch, model)
    features = model.activations(batch["inputs"])["backbone.layer4"].detach()
    assert torch.equal(features, returned["backbone_features"]["feature_map"])
    assert returned["backbone_features"]["stats"] == {"mean": float(features.mean()), "std": float(features.std())}
    assert returned["gradcam_analysis"] == {"gradcam": computed_gradcam}
    pages = PageReader(tmp_path)
    assert list(pages) == [5, 6, 7]
    np.testing.assert_array_equal(features[2], pages[7]["backbone_features"]["feature_map"])
    assert [pages[idx]["gradcam_analysis"]["gradcam"] for idx in pages] == [0, 1, 2]


@pytest.mark.parametrize(("index", "base"), [(6, BaseDebugger), (7, ForwardDebugger)])
def test_the_method_to_implement_is_all_that_a_debugger_needs(document, model, batch, index, base):
    written = document.run(index, Base=base, **NAMES)["Methods"]
    (method,) = base.__abstractmethods__
    assert parameters_of(base, method) == parameters_of(written, method)
    args = {"layer_name": "backbone.layer4"} if base is ForwardDebugger else {}
    config = [{"name": "written", "debugger_config": {"class": written, "args": args}}]
    with SequentialDebugger(config, model) as sequential:
        sequential.enabled = True
        model(batch["inputs"])
        assert list(sequential(batch, model)) == ["written"]
        sequential.reset_buffer()


@pytest.mark.parametrize("method", ["__init__", "__call__"])
def test_the_sequential_debugger_takes_the_written_arguments(document, method):
    written = document.run(8, Base=object, **NAMES)["Methods"]
    assert parameters_of(SequentialDebugger, method) == parameters_of(written, method)


def test_the_test_commands_name_tests(document):
    commands = [line.split() for line in document.blocks[9].text.splitlines() if line and not line.startswith("#")]
    assert len(commands) == 4
    for program, path, *options in commands:
        assert (program, options) == ("pytest", ["-v"])
        assert [*(ROOT / path).rglob("test_*.py")] if path.endswith("/") else (ROOT / path).is_file()
