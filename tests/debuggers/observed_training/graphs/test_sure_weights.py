"""Focal losses with the power of the right probability in the place of 1 minus it, and losses that come near."""

import pytest
import torch
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes

LABELS = torch.tensor([0, 2, 1, 1, 0, 2, 1, 0])
OLD = torch.linspace(0.1, 1, 8)[:, None]
SHARES = functional.one_hot(LABELS, 3).float()


def viewed(loss_of):
    torch.manual_seed(0)
    outputs = torch.randn(8, 3).requires_grad_() * 1
    return loss_view(loss_of(outputs), output_nodes([outputs]))


def logarithm(z):
    return z.log_softmax(1).gather(1, LABELS[:, None])


def each(z):
    return functional.cross_entropy(z, LABELS, reduction="none")


def binary(z):
    return functional.binary_cross_entropy_with_logits(z, SHARES, reduction="none")


def times(weight, losses):
    return (weight(losses) * losses).mean()


def powered(power, logarithms):
    return power(logarithms.exp()) * logarithms


WEIGHED = {
    "p log p": ("trained", lambda z: -powered(lambda p: p, logarithm(z)).mean()),
    "p² log p": ("trained", lambda z: (-powered(lambda p: 0.25 * p**2, logarithm(z))).sum() / 8),
    "of a cross entropy": ("trained", lambda z: times(lambda c: (-c).exp() ** 2, each(z))),
    "of a binary one": ("trained", lambda z: 3 * times(lambda b: (-b).exp().pow(1.5), binary(z))),
    "of one-hot rows": ("trained", lambda z: -(SHARES * z.softmax(1) ** 2 * z.log_softmax(1)).sum(1).mean()),
    "without a gradient": ("constant", lambda z: -powered(lambda p: p.detach() ** 2, logarithm(z)).mean()),
    "of a cross entropy, without": ("constant", lambda z: times(lambda c: (-2 * c.detach()).exp(), each(z))),
}
NOT_WEIGHED = {
    "focal": lambda z: -powered(lambda p: (1 - p) ** 2, logarithm(z)).mean(),
    "focal, without a gradient": lambda z: -powered(lambda p: (1 - p.detach()) ** 2, logarithm(z)).mean(),
    "focal cross entropy": lambda z: times(lambda c: (1 - (-c).exp()) ** 2, each(z)),
    "focal, binary": lambda z: times(lambda b: (1 - (-b).exp()) ** 2, binary(z)),
    "generalised": lambda z: ((1 - logarithm(z).exp() ** 0.7) / 0.7).mean(),
    "generalised, by its gradient": lambda z: -powered(lambda p: p.detach() ** 0.7, logarithm(z)).mean(),
    "ratios to others": lambda z: -powered(lambda p: p.detach() / OLD, logarithm(z)).mean(),
    "weights of 0 and 1": lambda z: times(lambda c: (c.detach() < 1.2).float(), each(z)),
    "entropy": lambda z: -(z.softmax(1) * z.log_softmax(1)).sum(1).mean(),
    "entropy of what may be chosen": lambda z: -((1 - SHARES) * z.softmax(1) * z.log_softmax(1)).sum(1).mean(),
    "made large": lambda z: powered(lambda p: p, logarithm(z)).mean(),
    "rare ones first": lambda z: -powered(lambda p: p**-0.5, logarithm(z)).mean(),
}  # fmt: skip


@pytest.mark.parametrize("name", WEIGHED)
def test_a_power_of_the_right_probability_weighs_what_is_right_already(name):
    weight, loss_of = WEIGHED[name]
    assert viewed(loss_of).facts.weighs_the_sure == weight


@pytest.mark.parametrize("name", NOT_WEIGHED)
def test_other_weights_do_not(name):
    assert viewed(NOT_WEIGHED[name]).facts.weighs_the_sure == ""


def test_the_labels_of_such_a_loss_are_known():
    assert viewed(WEIGHED["p log p"][1]).targets.flatten().tolist() == LABELS.tolist()
