"""Rates that are too high at first, or fall too far, beside the signs that the tests of all rules have."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, GroupFacts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series


@pytest.mark.parametrize(("ratio", "learnt", "optimizer", "start", "is_one"), [
    (0.06, 0.6, "Adam", 1.0, True), (0.04, 0.6, "Adam", 1.0, False), (0.06, 0.98, "Adam", 1.0, False),
    (0.06, 0.6, "SGD", 1.0, False), (0.06, 0.6, "Adam", 0.1, False), (0.7, 0.6, "Adam", 1.0, True),
    (0.7, 0.98, "Adam", 1.0, False),
])  # fmt: skip
def test_first_steps_of_a_twentieth_are_too_large_for_attention(ratio, learnt, optimizer, start, is_one):
    """Unless the rate rises, or all there is was learnt."""
    facts = Facts(
        steps=STEPS,
        optimizer=optimizer,
        loss=LossFacts(kind="cross_entropy", reduction="mean"),
        layers=(LayerFacts(name="attention", kind="MultiheadAttention"), LayerFacts(name="norm", kind="LayerNorm")),
    )
    found = evidence(
        facts=facts, loss=np.geomspace(2.3, 2.3 * (1 - learnt), STEPS), baseline_loss=np.full(STEPS, 2.3),
        update_ratio=np.geomspace(ratio, 0.005, STEPS), learning_rate=np.linspace(start, 1.0, STEPS),
    )  # fmt: skip
    assert ("missing_warmup" in [cause.code for cause in diagnose(found)]) == is_one


INVERSE_ROOT = 6e-3 * np.minimum(1.0, (20 / (np.arange(STEPS) + 1)) ** 0.5)
WITH_A_RISE = np.minimum(INVERSE_ROOT, 6e-3 * (np.arange(STEPS) + 1) / 20)


@pytest.mark.parametrize(("rates", "ratio", "optimizer", "is_one"), [
    (INVERSE_ROOT, 0.03, "Adam", True), (INVERSE_ROOT, 0.02, "Adam", False), (INVERSE_ROOT, 0.03, "SGD", False),
    (WITH_A_RISE, 0.03, "Adam", False), (np.full(STEPS, 6e-3), 0.03, "Adam", False),
    (np.linspace(6e-3, 1e-3, STEPS), 0.03, "Adam", False),
])  # fmt: skip
def test_a_fall_by_the_inverse_root_wants_the_rise_that_belongs_to_it(rates, ratio, optimizer, is_one):
    layers = (LayerFacts(name="attention", kind="MultiheadAttention"), LayerFacts(name="norm", kind="LayerNorm"))
    loss = LossFacts(kind="cross_entropy", reduction="mean")
    found = evidence(
        facts=Facts(steps=STEPS, optimizer=optimizer, loss=loss, layers=layers),
        loss=np.geomspace(2.3, 1.5, STEPS), baseline_loss=np.full(STEPS, 2.3),
        update_ratio=np.geomspace(ratio, 0.005, STEPS), learning_rate=rates,
    )  # fmt: skip
    assert ("missing_warmup" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("called", "is_one"), [
    ((), True),
    (("enter", "norm", "dropout", "attention"), False),
    (("enter", "dropout", "attention", "norm"), True),
])  # fmt: skip
def test_blocks_that_normalise_what_enters_their_attention_need_no_warm_up(called, is_one):
    kinds = {"enter": "Linear", "attention": "MultiheadAttention", "dropout": "Dropout", "norm": "LayerNorm"}
    layers = tuple(LayerFacts(name=name, kind=kind) for name, kind in kinds.items())
    loss = LossFacts(kind="cross_entropy", reduction="mean")
    found = evidence(
        facts=Facts(steps=STEPS, optimizer="Adam", loss=loss, layers=layers, called=called),
        loss=np.geomspace(2.3, 1.0, STEPS), baseline_loss=np.full(STEPS, 2.3),
        update_ratio=np.geomspace(0.06, 0.005, STEPS), learning_rate=np.ones(STEPS),
    )  # fmt: skip
    assert ("missing_warmup" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("grown", "first"), [(1.4, "missing_warmup"), (1.6, "learning_rate_too_high")])
def test_a_rate_that_has_made_all_weights_larger_is_too_high_at_any_time(grown, first):
    """Later updates are small beside the weights that they have made large."""
    layers = (LayerFacts(name="attention", kind="MultiheadAttention"), LayerFacts(name="norm", kind="LayerNorm"))
    loss = LossFacts(kind="cross_entropy", reduction="mean")
    found = evidence(
        facts=Facts(steps=STEPS, optimizer="Adam", loss=loss, layers=layers),
        loss=np.concatenate([[2.1, 3.4], np.geomspace(2.0, 1.5, STEPS - 2)]), baseline_loss=np.full(STEPS, 2.1),
        update_ratio=np.geomspace(0.22, 0.005, STEPS), weight_norm=np.linspace(1, grown, STEPS),
    )  # fmt: skip
    assert [cause.code for cause in diagnose(found)][:1] == [first]


@pytest.mark.parametrize(("ratio", "spread", "role", "is_one"), [
    (0.05, 0.009, "trained", True), (0.05, 0.02, "trained", False), (0.02, 0.009, "trained", False),
    (0.05, 0.009, "frozen", False),  # a prompt before it may be trained
])  # fmt: skip
def test_a_transformer_whose_outputs_collapse_with_its_first_updates_lacks_a_warm_up(ratio, spread, role, is_one):
    """The outputs vary again later, with nothing that could be learnt any more."""
    facts = Facts(
        steps=STEPS,
        optimizer="Adam",
        loss=LossFacts(kind="cross_entropy"),
        layers=(LayerFacts(name="attention", kind="MultiheadAttention"), LayerFacts(name="norm", kind="LayerNorm")),
        parameters=(ParameterFacts(name="attention.in_proj_weight", shape=(24, 8), std=0.3, role=role),),
    )
    found = evidence(
        facts=facts, loss=np.full(STEPS, 2.3), baseline_loss=np.full(STEPS, 2.3),
        update_ratio=np.geomspace(ratio, 0.005, STEPS),
        **{"outputs/batch_std": np.concatenate([[0.1], np.full(10, spread), np.full(STEPS - 11, 0.3)])},
    )  # fmt: skip
    assert ("missing_warmup" in [cause.code for cause in diagnose(found)]) == is_one


def test_a_rate_that_falls_to_a_tenth_but_for_rounding_stops_no_rule(caplog):
    """0.2 / 10 is less than 0.1 * 0.2."""
    rate = np.where(np.arange(STEPS) < 3, 0.2, 0.02)
    diagnose(evidence(facts=of_loss(), loss=np.full(STEPS, 2.3), learning_rate=rate))
    assert not caplog.records


@pytest.mark.parametrize(("thawed_at", "is_one"), [(0, True), (20, False)])
def test_a_head_whose_body_is_thawed_later_may_take_large_first_steps(thawed_at, is_one):
    facts = Facts(
        steps=STEPS, optimizer="Adam", loss=LossFacts(kind="cross_entropy", reduction="mean"),
        layers=(LayerFacts(name="attention", kind="MultiheadAttention"), LayerFacts(name="norm", kind="LayerNorm")),
    )  # fmt: skip
    values = {"loss": np.geomspace(2.3, 0.9, STEPS), "baseline_loss": np.full(STEPS, 2.3),
              "update_ratio": np.geomspace(0.06, 0.005, STEPS)}  # fmt: skip
    series = {name: Series(np.arange(STEPS), one) for name, one in values.items()}
    updates = {
        "head.weight": Series(np.arange(STEPS), np.full(STEPS, 0.06)),
        "attention.in_proj_weight": Series(np.arange(thawed_at, STEPS), np.full(STEPS - thawed_at, 0.01)),
    }
    found = Evidence(series=series, tensors={"parameter_update_ratio": updates}, facts=facts)
    assert ("missing_warmup" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("scale", "falls_at", "rest", "is_one"), [
    (8.0, 25, 0.3, True), (8.0, 50, 0.3, False), (8.0, 50, 0.7, True), (40.0, 50, 0.3, True),
])  # fmt: skip
def test_a_rate_that_falls_behind_a_loss_that_stands_takes_nothing(scale, falls_at, rest, is_one):
    """Of a loss that comes to its rest as exp(-step / scale): not where much was left, or the rate fell at once."""
    steps = np.arange(200)
    values = {
        "loss": 2.3 * (rest + (1 - rest) * np.exp(-np.minimum(steps, falls_at) / scale)),
        "baseline_loss": np.full(200, 2.3), "learning_rate": np.where(steps < falls_at, 0.01, 1e-4),
    }  # fmt: skip
    facts = Facts(steps=200, last_step=199, loss=LossFacts(kind="cross_entropy", reduction="mean"))
    found = {name: Series(steps, one) for name, one in values.items()}
    codes = [cause.code for cause in diagnose(Evidence(series=found, facts=facts))]
    assert ("schedule_collapsed" in codes) == is_one


def test_a_rate_that_is_told_where_it_changes_stays_until_the_last_step():
    """Twice a division by ten: 0.004 / 10 / 10 is not below 0.01 times 0.004."""
    steps = np.arange(200)
    rates = Series(np.array([0, 30, 60, 100]), np.array([0.004, 0.004, 0.0004, 0.00004]))
    loss = Series(steps, 2.1 - 0.7 * np.minimum(steps, 80) / 80)
    facts = Facts(steps=200, last_step=199, loss=LossFacts(kind="cross_entropy", reduction="mean"))
    series = {"loss": loss, "learning_rate": rates, "baseline_loss": Series(steps, np.full(200, 2.1))}
    causes = diagnose(Evidence(series=series, facts=facts))
    assert causes[0].code == "schedule_collapsed"
    assert causes[0].since_step == 100


@pytest.mark.parametrize(("norms", "kind", "learnt", "ratio", "is_one"), [
    (8, "LayerNorm", 0.2, 0.06, True), (7, "LayerNorm", 0.2, 0.06, False), (8, "BatchNorm1d", 0.2, 0.06, False),
    (8, "LayerNorm", 0.6, 0.06, False), (8, "LayerNorm", 0.2, 0.04, False),
])  # fmt: skip
def test_many_blocks_that_normalise_need_small_first_steps_without_attention_too(norms, kind, learnt, ratio, is_one):
    layers = tuple(LayerFacts(name=f"norms.{place}", kind=kind) for place in range(norms))
    loss = LossFacts(kind="cross_entropy", reduction="mean")
    found = evidence(
        facts=Facts(steps=STEPS, optimizer="Adam", loss=loss, layers=layers),
        loss=np.geomspace(2.3, 2.3 * (1 - learnt), STEPS), baseline_loss=np.full(STEPS, 2.3),
        update_ratio=np.geomspace(ratio, 0.005, STEPS),
    )  # fmt: skip
    assert ("missing_warmup" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(
    ("optimizer", "setting", "first", "rise", "is_one"),
    [
        ("RMSprop", {"alpha": 0.999}, 0.8, 10.0, True),
        ("RMSprop", {"alpha": 0.9}, 0.8, 10.0, False),  # later steps are as large as a fourth of the first
        ("RMSprop", {"alpha": 0.999}, 0.45, 10.0, False),
        ("RMSprop", {"alpha": 0.999}, 0.8, 4.0, False),
        ("Adagrad", {"initial_accumulator_value": 0.0}, 1.9, 10.0, True),
        ("Adagrad", {"initial_accumulator_value": 0.1}, 1.9, 10.0, False),
        ("Adam", {}, 0.8, 10.0, False),
    ],
)
def test_squares_that_are_counted_from_zero_want_a_warm_up(optimizer, setting, first, rise, is_one):
    steps = np.arange(100)
    losses = np.where(steps == 0, 2.3, np.where(steps < 10, 2.3 * rise, 1.5))
    made = evidence(
        facts=Facts(steps=100, optimizer=optimizer, groups=(GroupFacts(settings={"lr": 5e-3, **setting}),)),
        loss=losses, baseline_loss=np.full(100, 2.3), update_ratio=np.where(steps < 5, first, 0.02),
    )  # fmt: skip
    causes = diagnose(made)
    assert (bool(causes) and causes[0].code == "missing_warmup") == is_one
    assert any("counts squares of gradients from zero" in one for cause in causes for one in cause.evidence) == is_one
