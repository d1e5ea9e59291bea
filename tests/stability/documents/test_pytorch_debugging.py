"""The code blocks of the document on torch's debugging tools run as they are written.

Only the name in their import line is changed to ``stability``; ``prelude`` declares the names that they leave open.
"""

import dataclasses
import hashlib
import json
import os
import re
from pathlib import Path

import pytest
import torch
from torch import nn

import stability
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, PyTorchDebuggingConfig

FOLDER = Path(os.environ.get("STEPSCOPE_DOCUMENTS") or Path(__file__).parents[4] / "shared" / "seeds")
DOCUMENT = FOLDER / "003_pytorch_debugging_integration.md"
BLOCKS = [
    ("python", "@dataclass", "f41013cb"),
    ("python", "debug_config = PyTorchDebuggingConfig(", "79534a01"),
    ("python", "debug_config = PyTorchDebuggingConfig(", "e1a7cc36"),
    ("python", "debug_config = PyTorchDebuggingConfig(", "990d2f9c"),
    ("python", "debug_config = PyTorchDebuggingConfig(", "674f2562"),
    ("python", "debug_config = PyTorchDebuggingConfig(", "b5020c2f"),
    ("python", "from gradient_clipping_nan_handling import (", "9a34bdcc"),
    ("python", "from gradient_clipping_nan_handling import create_training_wrapper", "e8b90546"),
    ("python", "# Comprehensive debugging for production training", "98faab07"),
    ("", "debug_output/", "80ce5261"),
    ("json", "{", "ce4b8097"),
    ("python", "# In Gradio interface", "afaf97ce"),
]
CONFIGURATIONS = [1, 2, 3, 4, 5, 8, 11]
BATCHES = 6


@pytest.fixture
def blocks():
    if not DOCUMENT.is_file():
        pytest.skip(f"no {DOCUMENT}: the environment variable STEPSCOPE_DOCUMENTS names the documents' folder")
    return re.findall(r"^```(\w*)\n(.*?)^```", DOCUMENT.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


@pytest.fixture
def prelude():
    """What the blocks leave open."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    names = {name: getattr(stability, name) for name in stability.__all__}
    return names | {
        "dataclass": dataclasses.dataclass,
        "clipping_config": GradientClippingConfig(),
        "nan_config": NaNHandlingConfig(),
        "model": model,
        "criterion": nn.MSELoss(),
        "optimizer": torch.optim.SGD(model.parameters(), lr=0.01),
        "dataloader": [torch.randn(16, 4) for _ in range(BATCHES)],
        "target": torch.randn(16, 1),
        "num_epochs": 2,
    }


def run(text, names):
    text = text.replace("from gradient_clipping_nan_handling import", "from stability import")
    exec(compile(text, "<document>", "exec", dont_inherit=True), names)
    return names


def test_every_block_is_listed(blocks):
    found = [
        (language, text.partition("\n")[0], hashlib.sha256(text.encode()).hexdigest()[:8]) for language, text in blocks
    ]
    assert found == BLOCKS


def test_the_configuration_has_the_fields_and_defaults_that_are_written(blocks, prelude):
    written = run(blocks[0][1], prelude)["PyTorchDebuggingConfig"]

    fields = dataclasses.asdict(PyTorchDebuggingConfig())
    assert dataclasses.asdict(written()).items() <= fields.items()
    assert list(fields)[: len(dataclasses.fields(written))] == [field.name for field in dataclasses.fields(written)]


@pytest.mark.parametrize("index", CONFIGURATIONS)
def test_a_written_configuration_runs_a_session(blocks, prelude, index, tmp_path):
    names = run(blocks[index][1], prelude)
    config = dataclasses.replace(names["debug_config"], debug_output_dir=str(tmp_path))
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), config)
    model, optimizer = names["model"], names["optimizer"]

    manager.start_debug_session("written")
    for batch in names["dataloader"]:
        loss = names["criterion"](model(batch), names["target"])
        loss.backward()
        manager.step(model, loss, optimizer)
        optimizer.step()
        optimizer.zero_grad()
    manager.stop_debug_session()

    summary = manager.get_debug_summary()
    assert (summary["total_iterations"], summary["anomalies_detected"]) == (BATCHES, 0)
    assert all("CUDA" in note for note in summary["notes"])
    assert sum(path.suffix == ".json" for path in tmp_path.iterdir()) == 4


def test_the_basic_setup_runs_and_reports_what_it_found(blocks, prelude, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    names = run(blocks[6][1], prelude)

    assert names["debug_summary"]["total_iterations"] == 2 * BATCHES
    assert capsys.readouterr().out == "Total anomalies detected: 0\n"
    assert not torch.is_anomaly_enabled()


def test_the_basic_setup_prints_the_anomalies_of_a_poisoned_batch(blocks, prelude, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    prelude["dataloader"][-1][0, 0] = torch.nan
    prelude["num_epochs"] = 1

    run(blocks[6][1], prelude)

    assert "Debug anomalies detected: [{'kind': 'nan_loss'" in capsys.readouterr().out


def test_the_training_wrapper_runs(blocks, prelude, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)

    run(blocks[7][1], prelude)

    assert capsys.readouterr().out == f"Training completed with {2 * BATCHES} debug iterations\n"
    assert len(list((tmp_path / "debug_output").iterdir())) == 4


def test_the_files_have_the_names_that_are_written(blocks, prelude, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(blocks[6][1], prelude)

    kinds = set(re.findall(r"(\w+)_<timestamp>\.json", blocks[9][1]))
    assert len(kinds) == 4
    files = list((tmp_path / "debug_output").iterdir())
    assert kinds == {re.sub(r"_\d{8}_\d{6}_\d{6}\.json", "", path.name) for path in files}


def test_the_debug_information_has_the_structure_that_is_written(blocks, prelude, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    info = run(blocks[6][1], prelude)["stability_result"]["debug_info"]
    written = json.loads(blocks[10][1])
    if "cuda_memory" not in info["memory_info"]:
        del written["memory_info"]["cuda_memory"]

    assert_same_structure(written, info)


def assert_same_structure(written, found):
    """Every key that is written is there, with a value of the same type."""
    for key, value in written.items():
        assert type(found[key]) is type(value), key
        if isinstance(value, dict):
            assert_same_structure(value, found[key])
