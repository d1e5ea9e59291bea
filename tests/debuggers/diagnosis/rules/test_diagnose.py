import logging

import numpy as np
import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.argument import Argument
from debuggers.diagnosis.cause import TITLES
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import (
    BatchFacts,
    Facts,
    GroupFacts,
    InvariantFacts,
    LayerFacts,
    LossFacts,
    ParameterFacts,
)
from debuggers.diagnosis.rules import RULES
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series
from debuggers.diagnosis.signals import OF_A_STEP, OF_LAYERS, OF_PARAMETERS, RECORDED_ELSEWHERE

NUMBERS = st.one_of(
    st.floats(allow_nan=True, allow_infinity=True, width=64),
    st.sampled_from([0.0, 1.0, -1.0, 0.5, 1e-30, 1e30, 2.3, float("nan"), float("inf"), float("-inf")]),
)
COURSES = st.one_of(
    st.lists(NUMBERS, max_size=40),
    st.builds(lambda value, count: [value] * count, NUMBERS, st.integers(0, 40)),
    st.builds(lambda first, last: np.linspace(first, last, 40).tolist(), st.floats(-9, 9), st.floats(-9, 9)),
)


@st.composite
def series(draw):
    values = draw(COURSES)
    first, every = draw(st.integers(0, 5)), draw(st.integers(1, 10))
    return Series(first + every * np.arange(len(values), dtype=np.int64), np.array(values, np.float64))


def kinds():
    texts = ("cross_entropy", "nll", "mse", "l1", "bce", "bce_with_logits", "kl_div", "")
    before = ("softmax", "log_softmax", "sigmoid", "tanh", "relu", "")
    shapes = st.lists(st.integers(0, 40), max_size=3).map(tuple)
    return st.builds(
        LossFacts,
        kind=st.sampled_from(texts),
        reduction=st.sampled_from(("mean", "sum", "none", "")),
        factor=NUMBERS,
        negated=st.booleans(),
        before=st.sampled_from(before),
        outputs_shape=shapes,
        targets_shape=shapes,
        broadcast=st.booleans(),
    )


def facts():
    names = st.sampled_from(("fc1.weight", "fc1.bias", "emb.weight", "rnn.weight_hh_l0"))
    roles = st.sampled_from(("trained", "frozen", "without_gradient", "outside_optimizer", "unchanged"))
    shapes = st.lists(st.integers(0, 40), max_size=4).map(tuple)
    parameter = st.builds(ParameterFacts, name=names, shape=shapes, std=NUMBERS, role=roles,
                          dtype=st.sampled_from(("float32", "float16", "bfloat16")))  # fmt: skip
    layer = st.builds(LayerFacts, name=st.sampled_from(("a", "b")), value=st.one_of(st.none(), NUMBERS),
                      kind=st.sampled_from(("Linear", "RNN", "Sigmoid", "Dropout", "BatchNorm1d", "ReLU")))  # fmt: skip
    batch = st.one_of(st.none(), st.builds(BatchFacts, shape=shapes, integer=st.booleans()))
    counts = st.integers(0, 50)
    invariants = ("gradients_zeroed", "replicas_equal")
    invariant = st.builds(InvariantFacts, name=st.sampled_from(invariants),
                          checked=counts, broken=counts, first_step=st.one_of(st.none(), counts))  # fmt: skip
    group = st.builds(
        GroupFacts, settings=st.dictionaries(st.sampled_from(("lr", "weight_decay", "maximize")), NUMBERS)
    )
    return st.builds(
        Facts,
        steps=counts,
        last_step=counts,
        optimizer=st.sampled_from(("SGD", "Adam", "AdamW", "")),
        parameters=st.lists(parameter, max_size=5).map(tuple),
        layers=st.lists(layer, max_size=6).map(tuple),
        groups=st.lists(group, max_size=2).map(tuple),
        loss=st.one_of(st.none(), kinds()),
        outputs=batch,
        targets=batch,
        backward_passes=st.integers(1, 5),
        eval_steps=counts,
        train_validations=counts,
        mixed_precision=st.sampled_from(("", "float16", "bfloat16")),
        clips=st.booleans(),
        invariants=st.lists(invariant, max_size=3).map(tuple),
        error=st.sampled_from(("", "IndexError: Target 10 is out of bounds.")),
    )


def findings():
    names = ("exploding_gradient", "vanishing_gradient", "dead_units", "non_finite_loss", "non_finite_gradient",
             "outside_optimizer", "weights_stand_still", "memory_leak", "large_update", "zero_gradient")  # fmt: skip
    return st.builds(
        lambda kind, step: Finding(kind=kind, name="fc1.weight", level="warning", step=step, last_step=step, steps=1,
                                   ongoing=True, value=1.0, threshold=0.5, evidence="evidence", rule="rule"),
        st.sampled_from(names), st.integers(0, 40),
    )  # fmt: skip


def evidences():
    alone = [signal.name for signal in (*RECORDED_ELSEWHERE, *OF_A_STEP)]
    many = [signal.name for signal in (*OF_PARAMETERS, *OF_LAYERS)]
    tensors = st.dictionaries(st.sampled_from(("fc1.weight", "fc1", "a", "b", "emb.weight")), series(), max_size=4)
    return st.builds(
        Evidence,
        findings=st.lists(findings(), max_size=4).map(tuple),
        series=st.dictionaries(st.sampled_from(alone), series(), max_size=25),
        tensors=st.dictionaries(st.sampled_from(many), tensors, max_size=6),
        facts=facts(),
    )


@settings(max_examples=examples(150), deadline=None)
@given(evidences())
def test_no_rule_fails_whatever_was_recorded(evidence):
    with np.errstate(all="ignore"):
        for rule in RULES:
            argument = rule(evidence)
            assert argument.code == rule.__name__
            assert 0 <= argument.confidence <= 1, argument.code
            if (cause := argument.cause) is not None:
                assert cause.advice
                assert all(cause.evidence)


def test_there_is_a_rule_for_each_cause_of_the_vocabulary():
    assert {rule.__name__ for rule in RULES} == set(TITLES)


def test_nothing_recorded_has_no_cause():
    assert diagnose(Evidence()) == ()


def test_a_rule_that_fails_is_told_and_left_out(monkeypatch, caplog):
    def broken(evidence):
        raise RuntimeError("broken rule")

    monkeypatch.setattr("debuggers.diagnosis.rules.diagnose.RULES", (broken, *RULES))
    series = Series(np.arange(5), np.array([3.0, 0, 0, 0, 0]))
    with caplog.at_level(logging.ERROR):
        causes = diagnose(Evidence(series={"inputs/non_finite": series}))
    assert [cause.code for cause in causes] == ["non_finite_inputs"]
    assert "the rule broken failed" in caplog.text


def test_a_consequence_that_came_later_ranks_below_its_cause_and_says_so():
    steps = np.arange(40)
    series = {
        "inputs/non_finite": Series(steps, np.where(steps >= 5, 2.0, 0.0)),
        "loss": Series(steps, np.where(steps >= 5, np.nan, 1.0)),
    }
    causes = diagnose(Evidence(series=series))
    assert causes[0].code == "non_finite_inputs"
    assert causes[0].since_step == 5
    for cause in causes[1:]:
        assert "it follows from non_finite_inputs" in cause.against


def named(*causes):
    """Rules that each name a cause with a confidence."""

    def rule(code, weight):
        return lambda _: Argument(code).add(weight, "a sign")

    return tuple(rule(*cause) for cause in causes)


def reported(monkeypatch, *causes):
    monkeypatch.setattr("debuggers.diagnosis.rules.diagnose.RULES", named(*causes))
    return [(cause.code, round(cause.confidence, 3)) for cause in diagnose(Evidence())]


def test_what_is_possible_is_named_beside_a_likely_cause_alone(monkeypatch):
    assert reported(monkeypatch, ("memory_leak", 0.5), ("class_imbalance", 0.4)) == []
    likely = reported(monkeypatch, ("memory_leak", 0.51), ("class_imbalance", 0.26), ("shape_broadcast", 0.25))
    assert likely == [("memory_leak", 0.51), ("class_imbalance", 0.26)]


def test_a_consequence_is_named_with_half_of_its_confidence(monkeypatch):
    causes = reported(monkeypatch, ("labels_unrelated", 0.9), ("schedule_collapsed", 0.6))
    assert causes == [("schedule_collapsed", 0.6), ("labels_unrelated", 0.45)]


@pytest.mark.parametrize(("since", "follows"), [(0, False), (1, True)])
def test_what_shows_before_the_first_update_follows_from_none(monkeypatch, since, follows):
    rules = (
        lambda _: Argument("learning_rate_too_high").add(0.9, "a sign", since=0),
        lambda _: Argument("dead_units").add(0.6, "a sign", since=since),
    )
    monkeypatch.setattr("debuggers.diagnosis.rules.diagnose.RULES", rules)
    found = diagnose(Evidence())

    assert [cause.code for cause in found] == ["learning_rate_too_high", "dead_units"]
    assert found[1].confidence == (0.3 if follows else 0.6)


def test_what_shows_at_the_first_step_follows_from_nothing_later(monkeypatch):
    """Gradients that explode at once make the first update too large, and that makes the next outputs infinite."""
    rules = (
        lambda _: Argument("learning_rate_too_high").add(0.8, "a sign", since=0),
        lambda _: Argument("non_finite_forward").add(0.7, "a sign", since=1),
        lambda _: Argument("exploding_gradients").add(0.6, "a sign", since=0),
    )
    monkeypatch.setattr("debuggers.diagnosis.rules.diagnose.RULES", rules)

    assert [cause.code for cause in diagnose(Evidence())] == [
        "exploding_gradients",
        "learning_rate_too_high",
        "non_finite_forward",
    ]


def test_a_wrong_setting_that_is_noticed_later_explains_the_first_step_all_the_same(monkeypatch):
    rules = (
        lambda _: Argument("clipping_ineffective").add(0.9, "a sign", since=1),
        lambda _: Argument("exploding_gradients").add(0.8, "a sign", since=0),
    )
    monkeypatch.setattr("debuggers.diagnosis.rules.diagnose.RULES", rules)

    assert [cause.confidence for cause in diagnose(Evidence())] == [0.9, 0.4]


def test_outputs_of_weights_that_decay_reach_no_target(monkeypatch):
    causes = reported(monkeypatch, ("over_regularized", 0.82), ("target_out_of_range", 0.6))
    assert causes == [("over_regularized", 0.82), ("target_out_of_range", 0.3)]


def test_causes_that_lead_to_one_another_in_a_circle_are_named(monkeypatch):
    circle = ("wrong_output_or_loss", 0.9), ("vanishing_gradients", 0.8), ("dead_units", 0.7)
    leads = {"wrong_output_or_loss": ("vanishing_gradients",), "vanishing_gradients": ("dead_units",),
             "dead_units": ("wrong_output_or_loss",)}  # fmt: skip
    monkeypatch.setattr("debuggers.diagnosis.rules.diagnose._LEADS_TO", leads)
    assert reported(monkeypatch, *circle) == list(circle)


@pytest.mark.parametrize("steps", [0, 1, 2])
def test_a_run_of_few_steps_has_no_cause_in_its_course(steps):
    loss = Series(np.arange(steps), np.linspace(1, 0.9, steps))
    assert diagnose(Evidence(series={"loss": loss})) == ()


def test_batch_norms_that_scale_nothing_in_eval_mode_let_gradients_vanish(monkeypatch):
    rules = (
        lambda _: Argument("wrong_mode").add(0.85, "a sign", since=0),
        lambda _: Argument("vanishing_gradients").add(0.95, "a sign", since=0),
    )
    monkeypatch.setattr("debuggers.diagnosis.rules.diagnose.RULES", rules)

    assert [cause.code for cause in diagnose(Evidence())] == ["wrong_mode", "vanishing_gradients"]


@pytest.mark.parametrize(("since", "told"), [(0, 1000), (1040, 1040), (None, None)])
def test_no_cause_begins_before_the_first_step_that_was_watched(monkeypatch, since, told):
    """As of a training that was resumed."""
    monkeypatch.setattr(
        "debuggers.diagnosis.rules.diagnose.RULES", (lambda _: Argument("no_update").add(0.9, "a sign", since=since),)
    )
    (cause,) = diagnose(Evidence(series={"loss": Series(np.arange(1000, 1060), np.ones(60))}))
    assert cause.since_step == told
