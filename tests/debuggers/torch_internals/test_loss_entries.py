"""What is expected of the functions that compute torch's losses; needs nothing but torch."""

import pytest
import torch
from torch.nn import functional
from torch.nn.functional import cross_entropy  # as loops import it, before anything is replaced

from debuggers.torch_internals import loss_entries

VALUES, CLASSES = torch.tensor([[0.2, 0.7], [0.6, 0.1], [0.5, 0.4]]), torch.tensor([0, 1, 1])
GOALS = torch.tensor([[0.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
LOSSES = {
    "cross_entropy": (cross_entropy, CLASSES),
    "nll": (functional.nll_loss, CLASSES),
    "mse": (functional.mse_loss, GOALS),
    "l1": (torch.nn.L1Loss(), GOALS),
    "smooth_l1": (functional.smooth_l1_loss, GOALS),
    "huber": (functional.huber_loss, GOALS),
    "bce": (functional.binary_cross_entropy, GOALS),
    "bce_with_logits": (torch.nn.BCEWithLogitsLoss(), GOALS),
}


def replaced(kind):
    found, before = [], loss_entries.current_loss_entry(kind)

    def noting(*arguments, **keywords):
        found.append(arguments)
        return before(*arguments, **keywords)

    loss_entries.replace_loss_entry(kind, noting)
    assert loss_entries.current_loss_entry(kind) is noting
    return found, before


def test_each_kind_has_a_loss_here():
    assert set(LOSSES) == set(loss_entries.KINDS) == set(loss_entries.REDUCTION_AT)


@pytest.mark.parametrize("kind", LOSSES)
def test_a_loss_calls_it_with_outputs_targets_and_its_reduction(kind):
    loss, goals = LOSSES[kind]
    expected = loss(VALUES, goals)
    found, before = replaced(kind)
    try:
        assert torch.equal(loss(VALUES, goals), expected)
    finally:
        loss_entries.replace_loss_entry(kind, before)
    assert torch.equal(loss(VALUES, goals), expected)
    (arguments,) = found
    assert torch.equal(arguments[0], VALUES)
    assert torch.equal(arguments[1], goals)
    assert arguments[loss_entries.REDUCTION_AT[kind]] == 1


def scripted(values, classes):
    return functional.cross_entropy(values, classes) * 2


def test_what_takes_a_place_is_the_same_operator_to_torch_script_and_to_the_compiler():
    expected = scripted(VALUES, CLASSES)
    _, before = replaced("cross_entropy")
    try:
        assert torch.equal(torch.jit.script(scripted)(VALUES, CLASSES), expected)
        assert torch.equal(torch.compile(scripted, backend="eager", fullgraph=True)(VALUES, CLASSES), expected)
    finally:
        loss_entries.replace_loss_entry("cross_entropy", before)


def test_an_entry_is_a_function_of_outputs_and_targets():
    assert loss_entries.LossEntry == loss_entries.Callable[..., loss_entries.Any]


def test_a_function_stands_for_an_operator_of_torch_script_once():
    def passing(values, share, training):
        return torch.dropout(values, share, training)

    for _ in range(2):
        loss_entries.stand_for(torch.dropout, passing)
    loss_entries.stand_for(scripted, test_each_kind_has_a_loss_here)  # no operator: nothing to stand for
    assert torch.equal(torch.jit.script(calling(passing))(VALUES), VALUES)


def calling(drop):
    def call(values):
        return drop(values, 0.5, False)

    return call
