"""Modes that are kept on purpose or by mistake, and frozen weights that were drawn at random."""

import numpy as np
import pytest
import torch
from torch import nn

import stepscope
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LayerFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series


@pytest.mark.parametrize(
    ("fresh", "trains_at", "codes"), [(False, None, []), (False, 3, ["wrong_mode"]), (True, None, ["wrong_mode"])]
)
def test_batch_norms_that_were_trained_before_may_keep_their_statistics_from_the_first_step_on(fresh, trains_at, codes):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 1))
    if not fresh:
        nn.init.normal_(model[1].weight, 1.0, 0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    with stepscope.watch(model, optimizer) as session:
        for step in range(30):
            rows = torch.randn(32, 6)
            model.train(step == trains_at)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
            optimizer.step()

    report = session.report()
    assert [cause.code for cause in report.causes] == codes
    assert ("eval_mode_in_training" in {one.kind for one in report.findings}) is bool(codes)


@pytest.mark.parametrize(("trained", "evaluates", "size", "is_one"), [
    (False, True, 0.3, True), (True, True, 0.3, False), (False, False, 0.3, False), (False, False, 1e-3, False),
])  # fmt: skip
def test_new_batch_norms_of_a_part_in_eval_mode_normalise_nothing(trained, evaluates, size, is_one):
    """A recipe of fine tuning keeps the norms of a backbone; in a new one they know no data.

    Inputs whose variance is below the epsilon of a norm become larger in training mode, but not as large as 1.
    """
    torch.manual_seed(0)
    linear = [nn.Linear(6, 6, bias=False) for _ in range(2)]
    layers = [linear[0], nn.BatchNorm1d(6), nn.ReLU(), linear[1], nn.BatchNorm1d(6), nn.ReLU()]
    backbone = nn.Sequential(*layers)
    for norm in layers[1::3]:
        nn.init.normal_(norm.weight, 1.0, 0.1 * trained)
    model = nn.Sequential(backbone, nn.Linear(6, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        backbone.train(not evaluates)
        for _ in range(30):
            rows = size * torch.randn(32, 6)
            optimizer.zero_grad()
            nn.functional.mse_loss(model(rows), rows[:, :1]).backward()
            optimizer.step()

    found = [cause for cause in session.report().causes if cause.code == "wrong_mode"]
    assert any("2 batch norms begin as new" in cause.evidence[0] for cause in found) is is_one


@pytest.mark.parametrize(("second", "mean", "last", "is_one"), [
    (0.34, 0.0, 0.8, True), (0.37, 0.0, 0.8, False), (0.25, 0.0, 0.8, False), (0.3, 0.05, 0.8, False),
    (0.3, 0.0, 0.6, False),
])  # fmt: skip
def test_frozen_tables_of_one_deviation_were_drawn_and_never_trained_where_little_is_learnt(second, mean, last, is_one):
    """Of 512 elements a deviation is known to within 9 %, and a mean to within 0.13 of it, by three errors.

    Vectors of length 1 in 16 dimensions have a deviation of 0.25, whoever made them.
    """
    first = 0.25 if second == 0.25 else 0.29
    tables = [ParameterFacts(name=f"{name}.weight", shape=(90, 16), std=std, mean=shift, role="frozen")
              for name, std, shift in (("users", first, 0.0), ("items", second, mean))]  # fmt: skip
    layers = tuple(LayerFacts(name=name, kind="Embedding") for name in ("users", "items"))
    facts = Facts(steps=200, last_step=199, layers=layers,
                  parameters=(*tables, ParameterFacts(name="head.weight", shape=(8, 32), std=0.1)))  # fmt: skip
    loss = Series(np.arange(200), np.geomspace(1.0, last, 200))
    causes = [cause.code for cause in diagnose(Evidence(series={"loss": loss}, facts=facts))]
    assert ("frozen_parameters" in causes) == is_one
