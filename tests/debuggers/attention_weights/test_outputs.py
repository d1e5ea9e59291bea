"""Attention weights are found in what a layer returned, and nothing else is taken for them."""

from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from tracker_adapters.errors import ArtifactError

from debuggers.attention_weights.outputs import output_weights, returned_weights

HIDDEN = torch.randn(2, 5, 8)
WEIGHTS = torch.rand(2, 3, 5, 7).softmax(-1)


class Named(NamedTuple):
    hidden: Any
    attn: Any


@dataclass
class ModelOutput:
    last_hidden_state: Any
    attentions: Any = None
    cross_attentions: Any = None


def names(output):
    return list(returned_weights(output))


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ((HIDDEN, WEIGHTS), ["1"]),
        ([HIDDEN, None, WEIGHTS], ["2"]),
        ((HIDDEN, WEIGHTS, WEIGHTS), ["1"]),
        ((HIDDEN, WEIGHTS.mean(1)), ["1"]),
        ((HIDDEN[0], WEIGHTS[0, 0]), ["1"]),
        ((torch.randn(2, 8, 4, 4), torch.rand(2, 16, 16).softmax(-1)), ["1"]),
        ({"out": HIDDEN, "attn_weights": WEIGHTS}, ["attn_weights"]),
        (Named(HIDDEN, WEIGHTS), ["attn"]),
        (ModelOutput(HIDDEN, (WEIGHTS, WEIGHTS)), ["attentions_0", "attentions_1"]),
        (ModelOutput(HIDDEN, (WEIGHTS,), (None, WEIGHTS)), ["attentions_0", "cross_attentions_1"]),
        (vars(ModelOutput(HIDDEN, (WEIGHTS,))), ["attentions_0"]),
    ],
)
def test_weights_beside_the_result_are_found(output, expected):
    assert names(output) == expected
    assert all(found.shape[-2] in (4, 5, 16) for found in returned_weights(output).values())


@pytest.mark.parametrize(
    "output",
    [
        None,
        "text",
        7,
        (),
        HIDDEN,
        WEIGHTS,
        (HIDDEN,),
        (HIDDEN, None),
        (HIDDEN, HIDDEN),
        (HIDDEN, torch.randn(2, 3, 5, 7)),
        (HIDDEN, torch.rand(2, 3, 9, 4)),
        (HIDDEN, torch.rand(2, 3, 5, 7).to_sparse()),
        (HIDDEN, torch.ones(5, 5, dtype=torch.int64)),
        (HIDDEN, torch.rand(5)),
        (HIDDEN, torch.nested.nested_tensor([torch.ones(2, 2), torch.ones(3, 3)])),
        (None, WEIGHTS),
        {"out": HIDDEN, "attention": HIDDEN},
        ModelOutput(HIDDEN),
        ModelOutput(HIDDEN, "text"),
        nn.GRU(8, 6, batch_first=True)(HIDDEN),
        nn.LSTM(8, 6, batch_first=True)(HIDDEN),
    ],
)
def test_other_outputs_hold_none(output):
    assert names(output) == []


def test_a_tensor_is_taken_for_weights():
    assert output_weights(WEIGHTS).source == "output"
    assert torch.equal(WEIGHTS, output_weights(WEIGHTS).block(0, 5))


@pytest.mark.parametrize(
    "output", [HIDDEN, torch.ones(2, 2, dtype=torch.bool), torch.ones(2, 2, dtype=torch.complex64)]
)
def test_what_cannot_be_weights_is_refused(output):
    with pytest.raises(ArtifactError, match=r"attention weights|negative"):
        output_weights(output)


BIAS = torch.zeros(1, 4, 5, 7)
CROSS = torch.randn(2, 4, 5, 7).softmax(-1)
RESULT = torch.randn(2, 5, 8)


@pytest.mark.parametrize("bias", [BIAS, BIAS + 0.3, torch.rand(1, 4, 5, 7)])
def test_what_stands_beside_the_result_and_is_no_distribution_is_passed_over(bias):
    """As the position bias of T5, which comes before the weights, or without any."""
    assert names((RESULT, bias, CROSS)) == ["2"]
    assert names((RESULT, bias)) == []


@pytest.mark.parametrize(
    "weights",
    [
        CROSS.bfloat16(),
        CROSS.masked_fill(torch.arange(5)[:, None] == 2, 0),
        CROSS.masked_fill(torch.arange(5)[:, None] == 2, float("nan")),
        torch.full_like(CROSS, float("nan")),
        CROSS.mean(1),
    ],
)
def test_rounded_masked_and_lost_rows_are_weights_all_the_same(weights):
    assert names((RESULT, BIAS, weights)) == ["2"]


def test_dropout_keeps_sums_on_average_and_counts_only_in_training():
    torch.manual_seed(0)
    dropped = torch.nn.functional.dropout(torch.randn(2, 4, 5, 64).softmax(-1), 0.3)
    assert list(returned_weights((RESULT, BIAS, dropped), training=True)) == ["2"]
    assert list(returned_weights((RESULT, BIAS, dropped))) == []
    assert list(returned_weights((RESULT, BIAS + 0.5), training=True)) == []
