"""A loop may call a model, or its parts in its place: what the parts are given and return is seen, too."""

import pytest
import torch
from digits_data import digits_data
from torch import nn
from torch.nn import functional

import stepscope
from debuggers.signals.entrances import Entrances

STEPS = 30


@pytest.fixture(scope="module")
def digits():
    images, labels = digits_data()
    return torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)


class Encodes(nn.Module):
    """Has a forward, which the loop may leave alone."""

    def __init__(self):
        super().__init__()
        self.body, self.heads = nn.Linear(64, 32), nn.ModuleList([nn.Linear(32, 10)])

    def forward(self, inputs):
        return self.heads[0](functional.relu(self.body(inputs)))


def seeded():
    torch.manual_seed(1)
    return Encodes()


def train(digits, model, call, steps=STEPS):
    """Returns the evidence of a training that tells nothing, and its losses."""
    torch.manual_seed(0)
    inputs, labels = digits
    optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for rows in torch.randperm(len(inputs)).split(32)[:steps]:
            loss = functional.cross_entropy(call(model, inputs[rows]), labels[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step()
            optimizer.step()
            losses.append(loss.item())
        return session.evidence(), losses


def whole(model, inputs):
    return model(inputs)


def parts(model, inputs):
    return model.heads[0](functional.relu(model.body(inputs)))


def of_a_dictionary(model, inputs):
    return model["head"](functional.relu(model["body"](inputs)))


def dictionary():
    return nn.ModuleDict({"body": nn.Linear(64, 32), "head": nn.Linear(32, 10)})


@pytest.mark.parametrize(("make", "call"), [(Encodes, whole), (Encodes, parts), (dictionary, of_a_dictionary)])
def test_the_batch_is_seen_whatever_the_loop_calls(digits, make, call):
    torch.manual_seed(1)
    evidence, _ = train(digits, make(), call)

    assert len(evidence["inputs/mean"]) == len(evidence["accuracy"]) == len(evidence["outputs/std"]) == 12
    assert evidence["inputs/max"].values.max() == 1
    assert evidence.facts.inputs.shape == (32, 64)
    assert evidence.facts.outputs.shape == (32, 10)
    assert evidence.facts.loss.kind == "cross_entropy"
    assert set(evidence.of_tensors("dead_units")) == {"body"}  # what a function between the parts makes of its outputs
    assert not evidence.facts.train_validations


def test_a_training_by_parts_is_the_same_with_a_session_and_without(digits):
    def loop(watched):
        torch.manual_seed(1)
        model = Encodes()
        if watched:
            return train(digits, model, parts)[1]
        torch.manual_seed(0)
        optimizer, losses = torch.optim.SGD(model.parameters(), lr=0.1), []
        for rows in torch.randperm(len(digits[0])).split(32)[:STEPS]:
            loss = functional.cross_entropy(parts(model, digits[0][rows]), digits[1][rows])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses

    assert loop(watched=True) == loop(watched=False)


def test_what_is_called_several_times_a_step_gets_only_some_of_the_inputs(digits):
    model = nn.ModuleDict({"cell": nn.GRUCell(8, 16), "head": nn.Linear(16, 10)})

    def call(model, inputs):
        state = torch.zeros(len(inputs), 16)
        for line in inputs.view(-1, 8, 8).unbind(1):
            state = model["cell"](line, state)
        return model["head"](state)

    evidence, _ = train(digits, model, call)

    assert len(evidence["inputs/mean"]) == 0
    assert len(evidence["accuracy"]) == 12


def test_targets_belong_to_the_call_whose_outputs_the_loss_compares(digits):
    def call(model, inputs):
        model(inputs.flip(0))  # for statistics of the loop's own
        return model(inputs)

    (alone, losses), (beside, same) = (train(digits, seeded(), kind) for kind in (whole, call))
    assert same == losses
    assert beside["accuracy"].values.tolist() == alone["accuracy"].values.tolist()


def test_the_parts_of_a_model_that_is_called_itself_are_let_go_after_the_first_step():
    model = Encodes()
    entrances = Entrances(model)
    assert entrances.modules == [model, model.body, model.heads[0]]

    entrances.training_begins(model)

    assert entrances.step_ends()
    assert entrances.modules == [model]
