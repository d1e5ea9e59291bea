"""What is known of a run: its configuration becomes JSON, whatever is in it."""

import argparse
import enum
import json
import math
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from tracker_adapters.artifacts import (
    RunInfo,
)
from tracker_adapters.errors import ArtifactError

UNDECODABLE = b"caf\xe9.txt".decode("utf-8", "surrogateescape")


class Mode(enum.StrEnum):
    FAST = "fast"


class Level(enum.IntEnum):
    HIGH = 3


def test_a_configuration_becomes_json(tmp_path):
    config = {
        "lr": np.float32(0.5),
        "epochs": np.int64(3),
        "layers": (1, 2),
        "bad": math.nan,
        "path": tmp_path,
        "dtype": torch.bfloat16,
        "cls": torch.nn.ReLU,
        "mode": Mode.FAST,
        "level": Level.HIGH,
        "weight": torch.tensor(2.0),
        "long": np.longdouble(0.5),
        "name": UNDECODABLE,
        "nested": {"a": {1: None}},
        "args": vars(argparse.Namespace(seed=1)),
    }
    info = RunInfo(id="i", name="n", config=config)
    kept = json.loads(json.dumps(info.config, allow_nan=False))
    assert kept == info.config
    assert msgspec.json.decode(msgspec.json.encode(info.config)) == kept
    assert kept == {
        "lr": 0.5,
        "epochs": 3,
        "layers": [1, 2],
        "bad": "nan",
        "path": str(tmp_path),
        "dtype": "torch.bfloat16",
        "cls": "ReLU",
        "mode": "fast",
        "level": 3,
        "weight": 2.0,
        "long": 0.5,
        "name": r"caf\udce9.txt",
        "nested": {"a": {"1": None}},
        "args": {"seed": 1},
    }


def test_a_configuration_is_copied_and_can_be_flattened():
    config: dict[str, Any] = {"optim": {"lr": 0.1, "betas": [0.9, 0.99]}, "empty": {}, "seed": 1}
    info = RunInfo(id="i", name="n", config=config)
    config["optim"]["lr"] = 9
    assert info.flat_config() == {"optim.lr": 0.1, "optim.betas": "[0.9, 0.99]", "empty": "{}", "seed": 1}


@pytest.mark.parametrize("config", [None, [1], "lr=1"])
def test_a_configuration_is_a_mapping(config):
    with pytest.raises(ArtifactError, match=r"^config is .*; expected a dict"):
        RunInfo(id="i", name="n", config=config)


def test_a_configuration_that_contains_itself_is_refused():
    config: dict[str, Any] = {}
    config["self"] = config
    with pytest.raises(ArtifactError, match="or contains itself"):
        RunInfo(id="i", name="n", config=config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"tags": "a,b"}, "tags are 'a,b'; expected a list of str"),
        ({"tags": [""]}, "tags hold ''; expected non-empty str"),
        ({"tags": [1]}, "tags hold 1"),
        ({"tags": 3}, "tags are 3"),
        ({"status": "done"}, "run 'n': status is 'done'; expected one of"),
        ({"name": 3}, "name is int 3; expected a str"),
        ({"id": None}, "id is NoneType None; expected a str"),
    ],
)
def test_wrong_information_is_refused(change, message):
    with pytest.raises(ArtifactError, match=message):
        RunInfo(**({"id": "i", "name": "n"} | change))
