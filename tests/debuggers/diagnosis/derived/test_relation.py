"""What speaks for outputs that have to do with their targets, whatever the loss has come to."""

import numpy as np
import pytest

from debuggers.diagnosis.derived.relation import explains, has_far_to_go, learnt_of_new_rows, reaches, reconstructs
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = 120


def series(values):
    values = np.full(STEPS, values) if np.ndim(values) == 0 else np.asarray(values, float)
    return Series(np.linspace(0, STEPS - 1, len(values)).astype(np.int64), values.astype(np.float64))


def evidence(kind="cross_entropy", **signals):
    facts = Facts(steps=STEPS, loss=LossFacts(kind=kind, reduction="mean"))
    return Evidence(series={name.replace("__", "/"): series(values) for name, values in signals.items()}, facts=facts)


def about(level, spread=0.1, seed=0):
    return np.random.default_rng(seed).normal(level, spread, STEPS)


STANDS = {"baseline_loss": 2.3, "update_ratio": 1e-2, "outputs__batch_std": 0.3, "gradient_cosine": 0.0}
BATCHES = {"inputs__batch_size": 16.0, "inputs__rows_so_far": np.arange(1, STEPS + 1) * 16.0}
NEW = BATCHES | {"inputs__repeated_rows": 0.0}
AGAIN = {"inputs__batch_size": 16.0, "inputs__rows_so_far": 160.0, "inputs__repeated_rows": 1.0}


@pytest.mark.parametrize(("level", "named"), [(2.3, True), (2.15, False)])
def test_a_loss_of_new_rows_below_that_of_a_constant_comes_of_the_inputs(level, named):
    found = evidence(loss=about(level), **STANDS, **NEW)

    assert (learnt_of_new_rows(found) is None) is named
    assert ("labels_unrelated" in [cause.code for cause in diagnose(found)]) is named


@pytest.mark.parametrize(("related", "repeated", "named"), [
    (0.3, 0.0, False), (0.1, 0.0, True), (-0.3, 0.0, True),
    (0.3, 1.0, True),  # rows that come for the tenth time may be known by heart
])  # fmt: skip
def test_a_rare_class_that_outputs_go_with_has_to_do_with_the_inputs(related, repeated, named):
    """Of 28 % that clicked none is the likelier one to click, in 40 late batches of 16 rows."""
    classes = {"accuracy": 0.72, "targets__top_share_so_far": 0.72, "binary_correlation": related}
    found = evidence(loss=about(2.3), **STANDS, **classes, **(AGAIN | {"inputs__repeated_rows": repeated}))

    assert ("labels_unrelated" in [cause.code for cause in diagnose(found)]) is named


@pytest.mark.parametrize(("ratio", "named"), [(1e-3, True), (8e-4, False)])
def test_labels_are_not_judged_before_weights_have_moved(ratio, named):
    found = evidence(loss=about(2.3), **STANDS | {"update_ratio": ratio})

    assert ("labels_unrelated" in [cause.code for cause in diagnose(found)]) is named


@pytest.mark.parametrize(("of_targets", "named"), [(0.3, False), (0.31, True)])
def test_targets_that_are_the_inputs_have_to_do_with_them(of_targets, named):
    values = {f"inputs__{name}": 0.3 for name in ("mean", "std", "min", "max")}
    values |= {f"targets__{name}": of_targets for name in ("mean", "std", "min", "max")}
    found = evidence("mse", loss=about(2.3), **STANDS, **values)

    assert reconstructs(found) is not named
    assert ("labels_unrelated" in [cause.code for cause in diagnose(found)]) is named


def test_of_rows_that_come_again_the_first_visit_counts():
    loss = np.concatenate([about(2.3)[:10], about(2.1)[10:]])

    assert learnt_of_new_rows(evidence(loss=loss, **STANDS, **AGAIN)) is None
    assert learnt_of_new_rows(evidence(loss=about(2.1, 0.02), **STANDS, **AGAIN)) == pytest.approx(2.1, abs=0.03)
    assert learnt_of_new_rows(evidence(loss=about(2.1), **STANDS)) is None, "whether rows were new is not known"


@pytest.mark.parametrize(("correlation", "expected"), [(0.9, True), (0.6, True), (0.4, False), (-0.9, False)])
def test_a_correlation_says_what_a_line_would_explain(correlation, expected):
    found = evidence("mse", loss=about(2.3), correlation=correlation, inputs__batch_size=16.0)

    assert explains(found) is expected


def test_a_correlation_of_few_rows_is_chance():
    assert not explains(evidence("mse", correlation=np.full(5, 0.7), inputs__batch_size=4.0))


OUTPUTS = {"outputs__min": -4.0, "outputs__max": 4.0, "outputs__mean": 0.0, "outputs__std": 1.2}
FAR = {"targets__min": -45.0, "targets__max": 56.0, "targets__mean": 0.0}


@pytest.mark.parametrize(
    ("targets", "correlation", "reached"),
    [
        ({"targets__std": 4.5}, 0.3, True),  # few are far off
        ({"targets__std": 30.0}, 0.9, False),  # all are
        ({"targets__std": 30.0, "targets__mean": 150.0, "targets__max": 300.0}, 0.0, False),
    ],
)
def test_targets_are_out_of_reach_if_they_are_as_a_whole(targets, correlation, reached):
    found = evidence("huber", loss=about(1.0), correlation=correlation, **OUTPUTS, **FAR | targets)

    assert reaches(found) is reached
    assert [cause.code for cause in diagnose(found)] == ["target_out_of_range"] * (not reached)


@pytest.mark.parametrize(("mean", "last", "is_far"), [(150.0, 40.0, True), (10.0, 5.0, False), (150.0, 2000.0, False)])
def test_outputs_have_far_to_go_to_targets_that_are_far_larger(mean, last, is_far):
    """Not if they have gone too far already."""
    outputs = {"outputs__mean": np.geomspace(0.1, last, STEPS), "outputs__std": np.geomspace(0.5, last / 2, STEPS)}
    assert has_far_to_go(evidence(loss=2.3, targets__mean=mean, targets__std=mean / 2, **outputs)) is is_far
    assert not has_far_to_go(evidence(loss=2.3, **outputs))
