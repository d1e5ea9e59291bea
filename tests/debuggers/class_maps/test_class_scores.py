"""Scores are found in what models return; what is none of that is refused with a way out."""

import re
from collections import namedtuple
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from debuggers.class_maps.class_scores import checked_target_class, chosen_classes, class_scores
from debuggers.errors import DebuggerConfigError

SCORES = torch.tensor([[1.0, 3.0, 2.0], [0.5, 0.0, -1.0]])
WithAuxiliary = namedtuple("WithAuxiliary", ["auxiliary", "logits"])


@dataclass
class ModelOutput:
    logits: torch.Tensor
    loss: torch.Tensor | None = None


@pytest.mark.parametrize(
    "output",
    [
        SCORES,
        {"loss": torch.zeros(()), "logits": SCORES},
        ModelOutput(SCORES),
        WithAuxiliary(SCORES * 2, SCORES),
        (SCORES, torch.zeros(2, 4)),
        [None, SCORES],
    ],
    ids=lambda output: type(output).__name__,
)
def test_the_scores_are_found(output):
    assert torch.equal(SCORES, class_scores(output))


def test_a_callable_finds_them_where_they_are():
    assert torch.equal(SCORES, class_scores({"out": {"x": SCORES}}, lambda output: output["out"]["x"]))


def test_dense_scores_are_summed_over_the_positions():
    dense = torch.randn(2, 3, 4, 5)

    torch.testing.assert_close(class_scores(dense), dense.sum((2, 3)))
    # A sum that float16 cannot hold.
    assert class_scores(torch.full((1, 2, 100, 100), 10.0, dtype=torch.float16)).tolist() == [[1e5, 1e5]]


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("text", "returned a str"),
        (None, "returned a NoneType"),
        ({"out": SCORES}, "returned a dict with the keys out"),
        ((), "returned a tuple"),
        (SCORES.long(), "torch.int64"),
        (SCORES.to("meta"), "meta"),
        (SCORES[0], r"shape \(3,\)"),
        (SCORES[None], r"shape \(1, 2, 3\)"),
        (SCORES[:, :0], r"shape \(2, 0\)"),
    ],
)
def test_what_holds_no_scores_is_refused(output, message):
    with pytest.raises(DebuggerConfigError, match=f"{message}.*pass logits=callable"):
        class_scores(output)


def test_what_the_callable_returns_is_checked_too():
    with pytest.raises(DebuggerConfigError, match="logits returned a list"):
        class_scores(SCORES, lambda scores: scores.tolist())


def test_classes_are_the_highest_scores_or_those_asked_for():
    assert chosen_classes(SCORES, None).tolist() == [1, 0]
    assert chosen_classes(SCORES, 2).tolist() == [2, 2]
    assert chosen_classes(SCORES, [2, 0]).tolist() == [2, 0]
    assert chosen_classes(SCORES, 2).dtype == torch.int64


@pytest.mark.parametrize(
    ("target_class", "message"),
    [
        (3, "target_class is 3; expected a class from 0 to 2"),
        (-1, "target_class is -1"),
        ([0, 3], "target_class is 3"),
        ([0, 1, 2], "target_class has 3 entries; expected one for each of 2 samples"),
    ],
)
def test_classes_that_do_not_exist_are_refused(target_class, message):
    with pytest.raises(DebuggerConfigError, match=re.escape(message)):
        chosen_classes(SCORES, target_class)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, None),
        (2, 2),
        (np.int64(2), 2),
        (torch.tensor(2), 2),
        ((1, 2), [1, 2]),
        ([np.int8(1), torch.tensor(2)], [1, 2]),
        (torch.tensor([1, 2]), [1, 2]),
        (np.array([1, 2]), [1, 2]),
    ],
)
def test_target_classes_become_plain_numbers(given, expected):
    assert checked_target_class(given) == expected


@pytest.mark.parametrize("given", ["3", 1.0, True, [1, None], [[1]], torch.tensor([1.0]), torch.tensor([True])])
def test_target_classes_of_other_types_are_refused(given):
    with pytest.raises(DebuggerConfigError, match="target_class is"):
        checked_target_class(given)
