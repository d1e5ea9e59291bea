"""Outputs of all usual layouts beside their targets."""

import math

import pytest
import torch
from torch import nn

from debuggers.signals.agreement import agreement, align, mean_entropy


def accuracy(outputs, targets, *, soft=False, kind=""):
    aligned = align(outputs, targets, soft=soft)
    return None if aligned is None else {name: float(value) for name, value in agreement(aligned, kind).items()}


def one_hot(classes, number):
    return nn.functional.one_hot(classes, number).float()


@pytest.mark.parametrize(
    "layout",
    [
        lambda classes: (one_hot(classes, 5), classes),
        lambda classes: (one_hot(classes, 5).reshape(4, 6, 5), classes.reshape(4, 6)),  # (batch, time, classes)
        lambda classes: (one_hot(classes, 5).reshape(4, 6, 5), classes),  # flattened targets
        lambda classes: (one_hot(classes, 5).reshape(2, 3, 4, 5).movedim(-1, 1), classes.reshape(2, 3, 4)),
    ],
)
def test_classes_are_found_wherever_they_lie(layout):
    classes = torch.arange(24) % 5
    assert accuracy(*layout(classes))["accuracy"] == 1
    outputs, targets = layout(classes)
    wrong = targets.clone()
    wrong.view(-1)[:12] = (wrong.view(-1)[:12] + 1) % 5
    assert accuracy(outputs, wrong)["accuracy"] == 0.5


def test_large_outputs_are_sampled_at_the_same_positions_as_targets():
    classes = torch.randint(0, 7, (3, 300, 400), generator=torch.Generator().manual_seed(0))
    assert accuracy(one_hot(classes, 7).movedim(-1, 1), classes)["accuracy"] == 1


def test_ignored_targets_count_for_nothing():
    classes = torch.tensor([0, 1, 2, 3])
    targets = torch.tensor([0, -100, -100, 1])
    assert accuracy(one_hot(classes, 4), targets)["accuracy"] == 0.5


def test_what_is_predicted_where_targets_are_ignored_counts_for_nothing():
    classes = torch.tensor([0, 2, 2, 2, 1, 1, 0])
    targets = torch.tensor([0, -100, -100, -100, 1, 1, 0])
    assert accuracy(one_hot(classes, 3), targets)["top_predicted_share"] == 0.5


def test_probabilities_of_classes_count_by_their_largest():
    classes = torch.tensor([0, 1, 2, 0])
    assert accuracy(one_hot(classes, 3), one_hot(classes, 3) * 0.8 + 0.05, soft=True)["accuracy"] == 1


def test_a_sign_or_a_probability_decides_between_zero_and_one():
    targets = torch.tensor([0.0, 1.0, 1.0, 0.0])
    assert accuracy(torch.tensor([[-2.0], [3.0], [0.1], [1.0]]), targets)["accuracy"] == 0.75
    assert accuracy(torch.tensor([0.1, 0.9, 0.6, 0.7]), targets, kind="bce")["accuracy"] == 0.75


def test_values_have_a_correlation_and_no_accuracy():
    targets = torch.tensor([1.0, 2.0, 4.0, 8.0])
    found = accuracy(targets[:, None] * 3 + 1, targets)
    assert found["correlation"] == pytest.approx(1) and found["accuracy"] != found["accuracy"]
    assert found["r2"] == pytest.approx(1 - (targets * 2 + 1).square().sum() / (targets - 3.75).square().sum())
    assert accuracy(targets[:, None], targets)["r2"] == 1
    columns = torch.tensor([[0.2, 9.0], [0.4, 9.2]])
    assert accuracy(columns.mean(0).expand(2, 2), columns)["r2"] == pytest.approx(0, abs=1e-9)  # the mean of each
    assert math.isnan(accuracy(targets[:, None], torch.full((4,), 2.5))["r2"])
    constant = accuracy(torch.ones(4, 1), targets)
    assert constant["correlation"] != constant["correlation"]


@pytest.mark.parametrize("signed", [1, -1])
def test_two_classes_have_a_correlation_with_what_tells_them_apart(signed):
    """Also where one of them is never the likelier one, so that the accuracy says nothing."""
    classes = torch.tensor([0, 0, 0, 0, 1, 1])
    scores = signed * torch.where(classes == 1, -1.0, -3.0)
    expected = pytest.approx(signed)

    assert accuracy(torch.stack([torch.zeros(6), scores], 1), classes)["binary_correlation"] == expected
    assert accuracy(scores[:, None], classes.float())["binary_correlation"] == expected
    assert "binary_correlation" not in accuracy(one_hot(classes, 3), classes)
    assert math.isnan(accuracy(torch.stack([torch.zeros(6), scores], 1), classes - 100)["binary_correlation"])
    assert math.isnan(accuracy(scores[:, None], classes * 2.5)["binary_correlation"])


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_broken_outputs_have_no_agreement(broken):
    classes = torch.tensor([0, 1, 2])
    outputs = one_hot(classes, 3).index_fill(0, torch.tensor([1]), broken)
    assert math.isnan(accuracy(outputs, classes)["accuracy"])
    assert math.isnan(accuracy(outputs[:, 0], classes.float())["correlation"])


def test_what_does_not_fit_has_no_agreement():
    assert accuracy(torch.zeros(4, 3), torch.zeros(7, 2)) is None


def test_the_minority_has_an_accuracy_of_its_own():
    classes = torch.tensor([0, 0, 0, 0, 1, 2])
    answers = torch.tensor([0, 0, 0, 0, 1, 0])
    assert accuracy(one_hot(answers, 3), classes)["minority_accuracy"] == 0.5
    assert math.isnan(accuracy(one_hot(answers, 3), torch.zeros(6, dtype=torch.long))["minority_accuracy"])
    ignored = torch.tensor([-100, -100, -100, 0, 0, 1])
    assert accuracy(one_hot(answers, 3), ignored)["minority_accuracy"] == 0
    rare = torch.tensor([[0.0], [0.0], [0.0], [1.0], [1.0]])
    assert accuracy(torch.tensor([[-1.0], [-1.0], [-1.0], [-1.0], [1.0]]), rare)["minority_accuracy"] == 0.5


def test_equal_logits_have_the_entropy_of_a_uniform_guess():
    assert float(mean_entropy(torch.zeros(3, 8))) == pytest.approx(math.log(8))
    assert float(mean_entropy(torch.tensor([[0.0, 60.0, 0.0]]))) == pytest.approx(0, abs=1e-9)
