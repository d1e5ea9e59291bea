"""Each validation is counted once, however it is known."""

import pytest
import torch
from torch import nn

import stepscope
from debuggers.observed_training.validations import Validations


@pytest.mark.parametrize(
    ("way", "told"),
    [
        ("plain", True),
        ("validating", False),
        ("both", True),
        pytest.param("plain", False, marks=pytest.mark.slow),
        pytest.param("validating", True, marks=pytest.mark.slow),
        pytest.param("both", False, marks=pytest.mark.slow),
    ],
)
def test_what_is_told_and_seen_counts_once(told, way):
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def validate():
        with torch.no_grad():
            return sum(model(torch.randn(8, 4)).square().mean() for _ in range(3))

    with stepscope.watch(model, optimizer) as session:
        for number in range(12):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            if number % 4 == 3:
                if way != "validating":
                    loss = validate()
                if way != "plain":
                    with session.validating():
                        loss = validate()
                if told:
                    session.validation(loss)
        optimizer.step()

    facts = session.evidence().facts
    assert (facts.validations, facts.train_validations) == (3, 3)
    assert "no_training_mode_in_validation" in {finding.kind for finding in session.report().findings}


def test_one_call_at_each_step_is_none():
    validations = Validations()
    for _ in range(30):
        validations.see_call(acted=True)
        assert validations.step_ends(step_had_other_passes=False) is None
    assert validations.count == 0


def train(model, validate):
    """The facts of twelve steps, with a call without gradients of ``validate`` after each fourth."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for number in range(12):
            optimizer.zero_grad()
            model(torch.randn(8, 4)).square().mean().backward()
            optimizer.step()
            if number % 4 == 3:
                with torch.no_grad():
                    validate(model)
                model.train()
        optimizer.step()
    return session.evidence().facts


@pytest.mark.parametrize(("calls", "acted"), [(2, True), (10, False)])
def test_outputs_that_are_drawn_for_one_tensor_are_samples(calls, acted):
    rows = torch.randn(8, 4)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Linear(8, 1))
    facts = train(model, lambda model: torch.stack([model(rows) for _ in range(calls)]).std(0))
    assert (facts.validations, facts.train_validations) == (3, 3 * acted)


@pytest.mark.parametrize(("rests", "in_training_mode"), [(True, 0), (False, 3)])
def test_a_pass_over_the_batches_that_computes_statistics_before_a_validation_is_none(rests, in_training_mode):
    def validate(model):
        for mode in (True, not rests):
            model.train(mode)
            for _ in range(3):
                model(torch.randn(8, 4))

    facts = train(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 1)), validate)
    assert (facts.validations, facts.train_validations) == (3, in_training_mode)


def test_one_call_at_some_steps_is_one():
    validations, counted = Validations(), []
    for number in range(30):
        if number % 10 == 5:
            validations.see_call(acted=number == 5)
        counted.append(validations.step_ends(step_had_other_passes=False))
    assert (validations.count, validations.in_training_mode) == (3, 1)
    assert [one for one in counted if one is not None] == [True, False, False]


def test_calls_before_another_models_pass_or_on_a_batch_that_is_trained_on_are_none():
    validations = Validations()
    for number in range(12):
        for _ in range(3):
            validations.see_call(acted=False)
        if number % 2:
            validations.forget_calls()
        validations.step_ends(step_had_other_passes=number % 2 == 0)
    assert validations.count == 0


def test_a_tensor_that_is_trained_on_after_another_one_was_no_validation():
    """As of pseudo-labels: labelled rows are trained on before those that were labelled just now."""
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.1), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for number in range(12):
            rows = torch.randn(8, 4)
            if number % 4 == 3:
                with torch.no_grad():
                    model(rows), model(rows)
            optimizer.zero_grad()
            (model(torch.randn(8, 4)).square().mean() + model(rows).square().mean()).backward()
            optimizer.step()
    assert session.evidence().facts.validations == 0
