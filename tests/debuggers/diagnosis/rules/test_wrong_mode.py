"""Modes that are kept on purpose or by mistake, and norms whose statistics do not follow."""

import numpy as np
import pytest
import torch
from made_evidence import STEPS
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


@pytest.mark.parametrize(("keeps", "out", "scale", "last", "is_one"), [
    (True, 0.9, 1.0, 2.0, False), (True, 0.2, 1.0, 2.0, True), (True, 0.2, 0.5, 2.0, False),
    (True, 0.2, 1.0, 0.1, False), (False, 0.9, 1.0, 2.0, True),
])  # fmt: skip
def test_statistics_that_are_kept_on_purpose_are_those_of_what_enters(keeps, out, scale, last, is_one):
    """Norms of another training that put out a fifth of their scale, and leave much to learn, normalise nothing."""
    names = ("0", "1", "2")
    series = {"loss": np.geomspace(2.3, last, STEPS), "baseline_loss": np.full(STEPS, 2.3)}
    facts = Facts(
        steps=STEPS,
        eval_steps=STEPS,
        keeps_statistics=keeps,
        layers=tuple(LayerFacts(name=name, kind="BatchNorm1d") for name in names),
        parameters=tuple(ParameterFacts(name=f"{name}.weight", shape=(8,), mean=scale, std=0.01) for name in names),
    )
    outputs = {name: Series(np.arange(STEPS), np.full(STEPS, out)) for name in names}
    found = {name: Series(np.arange(STEPS), one) for name, one in series.items()}
    causes = diagnose(Evidence(series=found, tensors={"output_std": outputs}, facts=facts))
    assert ("wrong_mode" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("momentum", "deviation", "validated", "is_one"), [
    (1e-4, 0.0, 1.0, True), (1e-2, 0.0, 1.0, False), (1e-4, 0.0, 0.25, False), (1e-4, 0.1, 1.0, False),
])  # fmt: skip
def test_statistics_that_hardly_follow_are_those_of_a_new_layer_in_eval_mode(momentum, deviation, validated, is_one):
    """Of a norm that was trained before, the statistics are those of its data."""
    facts = Facts(
        steps=200,
        layers=(LayerFacts(name="norm", kind="BatchNorm1d", value=momentum),),
        parameters=(ParameterFacts(name="norm.weight", shape=(8,), mean=1.0, std=deviation),),
    )
    values = {"loss": np.geomspace(2.3, 0.2, 200), "validation/loss": np.full(200, np.nan)}
    values["validation/loss"][50::50] = validated
    found = {name: Series(np.arange(200), one) for name, one in values.items()}
    codes = [cause.code for cause in diagnose(Evidence(series=found, facts=facts))]
    assert ("wrong_mode" in codes) == is_one


@pytest.mark.parametrize(("share", "norms", "is_one"), [(0.1, False, False), (0.3, False, True), (0.1, True, True)])
def test_a_tenth_of_dropout_may_rest_in_training(share, norms, is_one):
    layers = [LayerFacts(name="drop", kind="Dropout", value=share), LayerFacts(name="norm", kind="BatchNorm1d")]
    facts = Facts(steps=STEPS, eval_steps=STEPS, layers=tuple(layers[: 1 + norms]))
    loss = Series(np.arange(STEPS), np.geomspace(2.3, 0.1, STEPS))
    codes = [cause.code for cause in diagnose(Evidence(series={"loss": loss}, facts=facts))]
    assert ("wrong_mode" in codes) == is_one
