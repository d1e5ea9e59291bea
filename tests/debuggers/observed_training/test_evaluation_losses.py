"""The validation loss of a loop that tells none is found, and that of rows that were trained on is left out."""

import pytest
import torch
from torch.nn import functional

import stepscope
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.series import Series

ROWS = torch.randn(300, 6, generator=torch.Generator().manual_seed(0))
KINDS = (ROWS[:, 0] > 0).long() + (ROWS[:, 1] > 0).long()
TRAINED, NEW = slice(0, 40), slice(200, 300)


def trained(evaluate, *, steps=40, every=10, tell=False):
    """A training whose loop calls ``evaluate(model)`` without gradients after every tenth step."""
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(6, 16), torch.nn.ReLU(), torch.nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer) as session:
        for step in range(steps):
            rows = torch.randint(40, (16,))
            optimizer.zero_grad()
            functional.cross_entropy(model(ROWS[TRAINED][rows]), KINDS[TRAINED][rows]).backward()
            optimizer.step()
            if step % every == every - 1:
                with torch.no_grad():
                    loss = evaluate(model)
                if tell:
                    session.validation(loss)
    return session.evidence()


def whole(model):
    return functional.cross_entropy(model(ROWS[NEW]), KINDS[NEW])


@torch.enable_grad()
def with_gradients_on(outputs):
    return functional.cross_entropy(outputs, KINDS[NEW])


def test_it_is_the_loss_of_calls_without_gradients_over_their_rows():
    known = []

    def in_batches(model):
        pieces = zip(ROWS[NEW].split(30), KINDS[NEW].split(30), strict=True)
        sums = [functional.cross_entropy(model(rows), kinds, reduction="sum") for rows, kinds in pieces]
        known.append(sum(map(float, sums)) / 100)

    found = trained(in_batches)["evaluation/loss"]
    assert found.steps.tolist() == [9, 19, 29, 39]
    assert found.values.tolist() == pytest.approx(known, rel=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("evaluate", "is_seen"),
    [
        pytest.param(whole, True, id="rows that are new"),
        pytest.param(lambda model: with_gradients_on(model(ROWS[NEW])), True, id="judged after it"),
        pytest.param(
            lambda model: functional.nll_loss(model(ROWS[NEW]).log_softmax(1), KINDS[NEW]),
            True,
            id="another name of it",
        ),
        pytest.param(lambda model: functional.cross_entropy(model(ROWS[TRAINED]), KINDS[TRAINED]), False, id="trained"),
        pytest.param(
            lambda model: functional.mse_loss(model(ROWS[NEW]), torch.zeros(100, 3)), False, id="another loss"
        ),
        pytest.param(
            lambda model: functional.cross_entropy(model(ROWS[NEW])[:50], KINDS[NEW][:50]), False, id="other outputs"
        ),
        pytest.param(lambda model: model(ROWS[NEW]).argmax(1), False, id="no loss"),
    ],
)
def test_only_new_rows_in_a_loss_of_the_trainings_kind_count(evaluate, is_seen):
    assert (len(trained(evaluate).validation) > 0) == is_seen


def test_what_the_loop_tells_counts_before_what_is_seen():
    found = trained(lambda model: whole(model) + 1, tell=True)
    assert (found.validation.values > found["evaluation/loss"].values + 0.9).all()


@pytest.mark.parametrize(("seen", "counts"), [(20, True), (21, False)])
def test_a_loss_without_gradients_at_most_steps_is_no_validation(seen, counts):
    series = {"loss": steps(40), "evaluation/loss": steps(seen)}
    assert (len(Evidence(series=series).validation) > 0) == counts


def test_calls_that_no_loss_judges_are_looked_at_no_more():
    def evaluate(model):
        for rows in ROWS[NEW].split(3):  # 34 calls
            model(rows)
        return whole(model)

    assert not len(trained(evaluate)["evaluation/loss"])


def steps(count):
    return Series(torch.arange(count).numpy(), torch.ones(count).double().numpy())
