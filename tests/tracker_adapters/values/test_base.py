"""What every artifact has: a kind, a name, a step and a time."""

import enum
import math
from dataclasses import FrozenInstanceError, fields
from typing import Any

import numpy as np
import pytest
import torch
from tracker_adapters.artifacts import (
    KINDS,
    Scalar,
    Text,
)
from tracker_adapters.errors import ArtifactError, StepscopeError
from tracker_adapters.testing.samples import ODD_NAMES, one_of_each


class Mode(enum.StrEnum):
    FAST = "fast"


def test_each_kind_has_one_word(tmp_path):
    assert list(KINDS) == ["scalar", "histogram", "image", "text", "alert", "table", "page", "file", "curve"]
    assert [artifact.kind for artifact in one_of_each(tmp_path)] == list(KINDS)
    assert all(type(artifact) is KINDS[artifact.kind] for artifact in one_of_each(tmp_path))


def test_artifacts_are_immutable(tmp_path):
    for artifact in one_of_each(tmp_path):
        for field in fields(artifact):
            with pytest.raises(FrozenInstanceError):
                setattr(artifact, field.name, 1)


@pytest.mark.parametrize("name", [*ODD_NAMES, "x", "x" * 1000, "\x01", np.str_("loss"), Mode.FAST])
def test_any_text_is_a_name(name):
    scalar = Scalar(name=name, step=0, value=1.0)
    assert scalar.name == name
    assert type(scalar.name) is str


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "the name '' has 0 characters; expected 1 to 1000"),
        ("x" * 1001, "has 1001 characters; expected 1 to 1000"),
        ("a\0b", "NUL"),
        ("a\udc80", "lone surrogate"),
        (None, "the name is NoneType None; expected a str"),
        (3, "the name is int 3; expected a str"),
        (b"loss", "the name is bytes b'loss'"),
    ],
)
def test_a_wrong_name_is_refused(name, message):
    with pytest.raises(ArtifactError, match=f"^scalar: .*{message}"):
        Scalar(name=name, step=0, value=1.0)


@pytest.mark.parametrize("step", [0, 1, 2**53 + 1, 2**63 - 1, np.int64(7), np.uint8(7), torch.tensor(7)])
def test_any_integer_from_zero_on_is_a_step(step):
    scalar = Scalar(name="s", step=step, value=1.0)
    assert scalar.step == int(step)
    assert type(scalar.step) is int


@pytest.mark.parametrize(
    ("step", "message"),
    [
        (-1, "step is -1"),
        (2**63, "step is 9223372036854775808"),
        (1.0, "step is float 1.0"),
        (1.5, "step is float 1.5"),
        (math.nan, "step is float nan"),
        (True, "step is the bool True"),
        ("1", "step is str '1'"),
        (None, "step is NoneType None"),
        (np.float64(2), "step is float64"),
    ],
)
@pytest.mark.parametrize("field", ["step", "time_ns"])
def test_a_wrong_step_or_time_is_refused(field, step, message):
    arguments: dict[str, Any] = {"step": 0, "time_ns": 0} | {field: step}
    message = message.replace("step", field)
    with pytest.raises(ArtifactError, match=rf"^text 't': {message}.*; expected an integer from 0 to 2\*\*63 - 1$"):
        Text(name="t", text="", **arguments)


def test_a_wrong_argument_is_a_value_error_and_ours():
    assert issubclass(ArtifactError, ValueError)
    assert issubclass(ArtifactError, StepscopeError)
