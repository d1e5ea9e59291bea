"""Causes of a moderate degree: each on evidence that just has its sign, and on evidence that just has not."""

import numpy as np
import pytest

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
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = 120
CROSS_ENTROPY = LossFacts(kind="cross_entropy", reduction="mean")


def recurrence(gain):
    """A plain one over 30 positions, with weights of such a deviation times the root of their number."""
    weight = ParameterFacts(name="cell.weight_hh_l0", shape=(24, 24), std=gain / 24**0.5)
    return Facts(
        steps=STEPS,
        loss=CROSS_ENTROPY,
        parameters=(weight,),
        layers=(LayerFacts(name="cell", kind="RNN"),),
        inputs=BatchFacts(shape=(32, 30, 1)),
        targets=BatchFacts(shape=(32,), integer=True),
    )


WEIGHT = ParameterFacts(name="fc.weight", shape=(64, 100), mean=0.1, std=0.1)


KNOWN_ROWS = {"inputs__batch_size": 16.0, "inputs__rows_so_far": 150.0, "inputs__repeated_rows": 1.0}


def evidence(loss, *, tensors=None, facts=None, **signals):
    """Signals by name, with ``__`` for a slash: numbers, or values that are spread evenly over the steps."""

    def series(values):
        values = np.full(STEPS, values) if np.ndim(values) == 0 else np.asarray(values, float)
        return Series(np.linspace(0, STEPS - 1, len(values)).astype(np.int64), values.astype(np.float64))

    found = {name.replace("__", "/"): series(values) for name, values in signals.items()}
    many = {name: {of: series(values) for of, values in each.items()} for name, each in (tensors or {}).items()}
    facts = facts or Facts(steps=STEPS, loss=CROSS_ENTROPY, parameters=(WEIGHT,))
    return Evidence(
        series={"loss": series(loss), "total_norm/gradients": series(1.0)} | found, tensors=many, facts=facts
    )


def to(last, first=2.3):
    """A loss that falls fast at first and has come to an end."""
    return last + (first - last) * np.exp(-np.arange(STEPS) / 15)


def late(bend, length=STEPS):
    """A loss that stands and begins to fall after a share of the steps."""
    return 2.3 - 2.0 * np.clip(np.linspace(0, 1, length) - bend, 0, None)


def slowed(last_third):
    """A loss that falls by little in two straight lines, such a share of it in the last third."""
    return 2.3 - 0.2 * np.interp(np.linspace(0, 1, STEPS), [0, 2 / 3, 1], [0, 1 - last_third, 1])


TRANSFORMER = Facts(
    steps=STEPS, loss=CROSS_ENTROPY, optimizer="RMSprop", parameters=(WEIGHT,),
    layers=(LayerFacts(name="a", kind="NonDynamicallyQuantizableLinear"), LayerFacts(name="b", kind="LayerNorm")),
)  # fmt: skip
DROPPING = Facts(steps=STEPS, loss=CROSS_ENTROPY, layers=(LayerFacts(name="drop", kind="Dropout", value=0.8),))
TWO_TERMS = Facts(steps=STEPS, loss=LossFacts(kind="mse", reduction="mean", terms=2))
WIDE = Facts(steps=STEPS, loss=CROSS_ENTROPY, parameters=(ParameterFacts(name="fc.weight", shape=(64, 64)),))


def of_targets(*shape, codes=False):
    """420 weights, and batches of 16 rows of four numbers, or of codes, with targets of that shape for each."""
    weight, inputs = ParameterFacts(name="fc.weight", shape=(20, 21)), BatchFacts(shape=(16, 4), integer=codes)
    return Facts(
        steps=STEPS, loss=CROSS_ENTROPY, parameters=(weight,), inputs=inputs, targets=BatchFacts(shape=(16, *shape))
    )


DEEP = Facts(
    steps=STEPS, loss=CROSS_ENTROPY, parameters=(WEIGHT, ParameterFacts(name="out.weight", shape=(10, 64), std=0.1))
)
SMALL = Facts(steps=STEPS, loss=CROSS_ENTROPY, parameters=(ParameterFacts(name="fc.weight", shape=(10, 64)),))
HELD_DOWN = Facts(
    steps=STEPS, loss=CROSS_ENTROPY, layers=(LayerFacts(name="fc", kind="Linear"), LayerFacts(name="act", kind="ReLU")),
    parameters=(WEIGHT, ParameterFacts(name="fc.bias", shape=(64,), mean=-0.6, std=1.0)),
)  # fmt: skip
FALLS = np.linspace(0.3, 0.1, 12)
WEIGHTED = Facts(steps=STEPS, loss=LossFacts(kind="cross_entropy", reduction="mean", weighted=True))
DEAD = {"dead_units": {"act": np.full(20, 0.55)}}
HALF_DROPPED = Facts(steps=STEPS, loss=CROSS_ENTROPY, layers=(LayerFacts(name="drop", kind="Dropout", value=0.6),))
DECAYED = Facts(steps=STEPS, loss=CROSS_ENTROPY, optimizer="SGD", groups=(GroupFacts(settings={"weight_decay": 0.1}),))
OF_ROWS = {"facts": Facts(steps=STEPS, loss=CROSS_ENTROPY, parameters=(WEIGHT,), inputs=BatchFacts(shape=(16, 9)),
                          targets=BatchFacts(shape=(16,), integer=True))}  # fmt: skip
RARE = {"targets__classes_so_far": 5.0, "targets__top_share_so_far": 0.9, "inputs__repeated_rows": 1.0,
        "inputs__batch_size": 16.0, "minority_accuracy": np.full(10, 0.9), "top_predicted_share": 0.9}  # fmt: skip
STRANGERS = Facts(steps=20, parameters=tuple(
    ParameterFacts(name=name, shape=(8, 8), role="outside_optimizer") for name in ("a", "b")))  # fmt: skip
FROZEN = Facts(steps=STEPS, parameters=(
    ParameterFacts(name="body", shape=(64, 100), std=(3 * 100) ** -0.5, role="frozen"),
    ParameterFacts(name="head", shape=(10, 64), std=0.07)))  # fmt: skip
UNUSED = Facts(invariants=(InvariantFacts(name="gradients_are_used", checked=1, broken=1, first_step=0),))
OF_VALUES = Facts(steps=STEPS, loss=LossFacts(kind="mse", reduction="mean"))
PENALIZED = Facts(steps=STEPS, loss=LossFacts(kind="mse", reduction="mean", penalized=True))
SHRINK = {"weight_norm": np.linspace(5.0, 2.0, 20), "decay_cosine": 0.8, "baseline_loss": 2.3, "update_ratio": 0.02}
FAR = {"targets__min": -10.0, "targets__max": 10.0, "targets__std": 6.0, "outputs__std": 0.5,
       "correlation": np.full(20, 0.9), "update_ratio": 0.02}  # fmt: skip
SAME = {"mean": 0.3, "std": 0.4, "min": 0.0, "max": 1.0}
GIVES_BACK = {f"{side}__{name}": value for side in ("inputs", "targets") for name, value in SAME.items()} | {
    "baseline_loss": 0.074, "correlation": np.full(15, 0.35), "update_ratio": 0.02}  # fmt: skip
STANDING = 2.3 + 0.01 * np.sin(np.arange(STEPS))
SEVERAL_LABELS = Facts(
    steps=20, loss=LossFacts(kind="bce_with_logits", reduction="mean"), targets=BatchFacts(shape=(64, 6), integer=False)
)
FEW_APPLY = {"targets__classes_so_far": 2.0, "targets__top_share_so_far": 0.97, "targets__rarest_share_so_far": 0.03}
MORE_APPLY = FEW_APPLY | {"targets__rarest_share_so_far": 0.033}
CLASSES = {"targets__classes_so_far": 5.0, "targets__top_share_so_far": 0.9, "targets__rarest_share_so_far": 0.02}
ROWS = {"inputs__batch_size": 16.0, "baseline_loss": 2.3, "inputs__repeated": 0.0}
FEW_ROWS = ROWS | {"inputs__rows_so_far": 40.0, "inputs__repeated_rows": 1.0}
ONE_BATCH = {"inputs__repeated": 1.0}
MOVES = {"update_ratio": 0.02, "outputs__batch_std": 0.3}
STANDS = MOVES | {"baseline_loss": 2.3, "accuracy": np.full(10, 0.1), "targets__top_share_so_far": 0.12}
BEGUN = {"update_ratio": 0.005}
CASES = [
    ("stopped_too_early", evidence(late(0.5), update_ratio=0.01), evidence(to(1.0), update_ratio=0.01)),
    ("stopped_too_early", evidence(late(0.5, 60), update_ratio=0.01), evidence(late(0.5, 59), update_ratio=0.01)),
    ("stopped_too_early", evidence(late(0, 60) / 4 + 1.7, update_ratio=3e-3),
     evidence(late(0, 59) / 4 + 1.7, update_ratio=3e-3)),
    ("inputs_constant", evidence(to(2.2), inputs__top_row_share=0.85, inputs__batch_size=32.0),
     evidence(to(2.2), inputs__top_row_share=0.75, inputs__batch_size=32.0)),
    ("dead_units", evidence(to(1.0), tensors={"dead_units": {"fc": np.full(20, 0.55)}}),
     evidence(to(1.0), tensors={"dead_units": {"fc": np.full(20, 0.45)}})),
    ("learning_rate_too_high",
     evidence(to(1.5), update_ratio=[0.5, *[0.05] * 19], tensors={"dead_units": {"fc": np.linspace(0, 0.95, 20)}}),
     evidence(to(1.5), update_ratio=[0.05] * 20, tensors={"dead_units": {"fc": np.linspace(0, 0.4, 20)}})),
    ("learning_rate_too_high",
     evidence(to(1.8), facts=DEEP, update_ratio=np.full(20, 0.5), weight_norm=np.linspace(1, 3.1, 20)),
     evidence(to(0.2), facts=DEEP, update_ratio=np.full(20, 0.5), weight_norm=np.linspace(1, 3.1, 20))),
    ("missing_warmup", evidence(to(1.8), facts=TRANSFORMER, update_ratio=[*np.full(5, 0.2), *np.full(15, 0.005)]),
     evidence(to(1.8), facts=TRANSFORMER, update_ratio=[*np.full(5, 0.045), *np.full(15, 0.005)])),
    ("unbroken_symmetry", evidence(to(1.6), tensors={"unit_similarity": {"fc.weight": [1.0, 0.5, 0.0, 0.0]}}),
     evidence(to(0.3), tensors={"unit_similarity": {"fc.weight": [1.0, 0.5, 0.0, 0.0]}})),
    ("over_regularized", evidence(to(1.2), facts=DROPPING), evidence(to(0.5), facts=DROPPING)),
    # What starts too large shrinks, too, where nothing but the loss asks for it.
    ("over_regularized", evidence(to(1.2), facts=PENALIZED, **SHRINK), evidence(to(1.2), facts=OF_VALUES, **SHRINK)),
    ("over_regularized",
     evidence(to(0.6), facts=DROPPING, baseline_loss=2.3, **{"validation/loss": np.full(4, 0.47)}),
     evidence(to(0.6), facts=DROPPING, baseline_loss=2.3, **{"validation/loss": np.full(4, 0.45)})),
    ("over_regularized", evidence(to(1.2), facts=TWO_TERMS, correlation=np.full(15, 0.03), update_ratio=0.02),
     evidence(to(1.2), facts=TWO_TERMS, correlation=np.full(15, 0.2), update_ratio=0.02)),
    ("class_imbalance",
     evidence(to(0.2), facts=WEIGHTED, top_predicted_share=0.93, minority_accuracy=FALLS, **CLASSES),
     evidence(to(0.2), facts=WEIGHTED, top_predicted_share=0.93, minority_accuracy=FALLS[::-1], **CLASSES)),
    ("class_imbalance", evidence(to(0.2), top_predicted_share=0.93, minority_accuracy=np.full(10, 0.4), **CLASSES),
     evidence(to(0.2), top_predicted_share=0.93, minority_accuracy=np.full(10, 0.6), **CLASSES)),
    ("labels_unrelated",
     evidence(to(1.9), inputs__rows_so_far=100.0, inputs__repeated_rows=1.0, **MOVES, **ROWS),
     evidence(to(1.9), inputs__rows_so_far=400.0, inputs__repeated_rows=1.0, **MOVES, **ROWS)),
    ("overfitting",
     evidence(to(1e-4), baseline_loss=2.3, **{"validation/loss": [2.3, 0.56, 0.56, 0.56]}, **KNOWN_ROWS),
     evidence(to(0.01), baseline_loss=2.3, **{"validation/loss": [2.3, 0.56, 0.56, 0.56]}, **KNOWN_ROWS)),
    ("overfitting", evidence(to(0.05), **{"validation/loss": np.array([2.3, 1.0, 1.1, 1.2])}),
     evidence(to(0.05), facts=Facts(steps=STEPS, weights_replaced=True),
              **{"validation/loss": np.array([2.3, 1.0, 1.1, 1.2])})),
    ("overfitting", evidence(to(0.05), facts=WIDE, inputs__rows_so_far=40.0, inputs__repeated_rows=1.0, **ROWS),
     evidence(to(0.05), facts=WIDE, inputs__rows_so_far=42.0, inputs__repeated_rows=1.0, **ROWS)),
    ("overfitting", evidence(to(0.05), facts=WIDE, inputs__rows_so_far=40.0, inputs__repeated_rows=1.0, **ROWS),
     evidence(to(0.05), facts=WIDE, inputs__rows_so_far=40.0, inputs__repeated_rows=1.0, **ROWS | ONE_BATCH)),
    ("overfitting",
     evidence(to(0.05), facts=SMALL, evaluation__entropy=0.48, inputs__rows_so_far=90.0, inputs__repeated_rows=1.0,
              **ROWS),
     evidence(to(0.05), facts=SMALL, evaluation__entropy=0.44, inputs__rows_so_far=90.0, inputs__repeated_rows=1.0,
              **ROWS)),
    ("overfitting",
     evidence(to(0.05), facts=of_targets(), **FEW_ROWS), evidence(to(0.05), facts=of_targets(2), **FEW_ROWS)),
    ("overfitting",
     evidence(to(0.05), facts=of_targets(), **FEW_ROWS), evidence(to(0.05), facts=of_targets(codes=True), **FEW_ROWS)),
    ("overfitting",
     evidence(to(0.8), validation__loss=[2.0, 1.0, 1.2, 1.2, 1.4], baseline_loss=2.3),
     evidence(to(0.8), validation__loss=[2.0, 1.0, 1.6, 0.9, 1.2], baseline_loss=2.3)),
    ("dead_units", evidence(to(0.2), facts=HELD_DOWN, tensors=DEAD), evidence(to(0.2), tensors=DEAD)),
    ("learning_rate_too_high",
     evidence(to(1.5), update_ratio=[0.05] * 20, tensors={"dead_units": {"fc": np.linspace(0, 0.95, 20)}}),
     evidence(to(1.5), update_ratio=[0.03] * 20, tensors={"dead_units": {"fc": np.linspace(0, 0.95, 20)}})),
    ("inputs_constant",
     evidence(to(2.2), inputs__top_row_share=0.55, inputs__duplicates=0.55, inputs__batch_size=32.0),
     evidence(to(2.2), inputs__top_row_share=0.55, inputs__duplicates=0.70, inputs__batch_size=32.0)),
    ("duplicated_data",
     evidence(to(0.5), inputs__rows_so_far=39.0, inputs__repeated_rows=1.0, **ROWS),
     evidence(to(0.5), inputs__rows_so_far=41.0, inputs__repeated_rows=1.0, **ROWS)),
    ("over_regularized", evidence(to(1.6), facts=HALF_DROPPED), evidence(to(1.4), facts=HALF_DROPPED)),
    ("over_regularized",
     evidence(to(1.0), facts=DECAYED, learning_rate=0.1, weight_norm=np.geomspace(1, 0.65, 20)),
     evidence(to(1.0), facts=DECAYED, learning_rate=0.08, weight_norm=np.geomspace(1, 0.65, 20))),
    ("schedule_collapsed",
     evidence(to(1.2), baseline_loss=2.3, learning_rate=0.95 ** np.arange(STEPS)),
     evidence(to(0.8), baseline_loss=2.3, learning_rate=0.95 ** np.arange(STEPS))),
    ("learning_rate_too_low", evidence(STANDING, update_ratio=5e-6, learning_rate=np.linspace(1e-5, 0, STEPS)),
     evidence(STANDING, update_ratio=5e-6, learning_rate=np.geomspace(1e-3, 1e-7, STEPS))),
    ("schedule_collapsed",
     evidence(STANDING, learning_rate=0.9 ** np.arange(STEPS), **STANDS),
     evidence(STANDING, learning_rate=np.linspace(1, 0, STEPS), **STANDS)),
    ("over_regularized",
     evidence(np.r_[to(0.3)[:60], np.linspace(0.3, 0.65, 60)], baseline_loss=2.3, weight_norm=np.geomspace(1, 0.6, 20)),
     evidence(np.r_[to(0.3)[:60], np.linspace(0.3, 0.5, 60)], baseline_loss=2.3, weight_norm=np.geomspace(1, 0.6, 20))),
    ("overfitting",
     evidence(to(0.8), validation__loss=[2.0, 1.0, 1.2, 1.4, 1.6], baseline_loss=2.3),
     evidence(np.r_[to(0.8)[:60], np.linspace(0.8, 1.5, 60)], validation__loss=[2.0, 1.0, 1.2, 1.4, 1.6],
              baseline_loss=2.3)),
    ("labels_unrelated",
     evidence(2.3 + 0.5 * np.tile([0, 0, 0, 0, 1, -2, -2, -2, 0, 0], 12), baseline_loss=2.3, inputs__batch_size=32.0,
              correlation=np.tile([0.1, -0.1], 10), **MOVES),
     evidence(2.3 + 0.5 * np.tile([0, 0, 0, 0, 1, -2, -2, -2, 0, 0], 12), baseline_loss=2.3, inputs__batch_size=32.0,
              correlation=np.full(20, 0.3), **MOVES)),
    ("stopped_too_early",
     evidence(to(2.2, 4.0), facts=OF_VALUES, update_ratio=3e-3, baseline_loss=2.3, gradient_cosine=np.full(20, 0.55)),
     evidence(to(2.2, 4.0), facts=OF_VALUES, update_ratio=3e-3, baseline_loss=2.3, gradient_cosine=np.full(20, 0.45))),
    ("labels_unrelated",
     evidence(STANDING, gradient_cosine=np.full(20, 0.45), **STANDS | BEGUN),
     evidence(STANDING, gradient_cosine=np.full(20, 0.55), **STANDS | BEGUN)),
    ("labels_unrelated",
     evidence(STANDING, gradient_cosine=np.full(20, 0.55), **STANDS | {"update_ratio": 0.009}),
     evidence(STANDING, gradient_cosine=np.full(20, 0.55), **STANDS | {"update_ratio": 0.008})),
    ("stopped_too_early", evidence(slowed(0.22), update_ratio=3e-3, baseline_loss=2.3),
     evidence(slowed(0.17), update_ratio=3e-3, baseline_loss=2.3)),
    ("class_imbalance",
     evidence(to(0.2), inputs__rows_so_far=500.0, targets__rarest_share_so_far=0.029, **RARE, **OF_ROWS),
     evidence(to(0.2), inputs__rows_so_far=500.0, targets__rarest_share_so_far=0.031, **RARE, **OF_ROWS)),
    ("class_imbalance", evidence(to(0.2), facts=SEVERAL_LABELS, top_predicted_share=1.0, **FEW_APPLY),
     evidence(to(0.2), facts=SEVERAL_LABELS, top_predicted_share=0.99, **FEW_APPLY)),
    ("class_imbalance",
     evidence(to(0.2), facts=SEVERAL_LABELS, top_predicted_share=np.r_[0.9, np.ones(19)], **FEW_APPLY),
     evidence(to(0.2), facts=SEVERAL_LABELS, top_predicted_share=np.r_[np.ones(16), 0.99, np.ones(3)], **FEW_APPLY)),
    ("class_imbalance", evidence(to(0.2), facts=SEVERAL_LABELS, top_predicted_share=1.0, **FEW_APPLY),
     evidence(to(0.2), facts=SEVERAL_LABELS, top_predicted_share=1.0, **MORE_APPLY)),
    ("overfitting",
     evidence(to(0.05), facts=WIDE, inputs__duplicates=0.0, **FEW_ROWS),
     evidence(to(0.05), facts=WIDE, inputs__duplicates=0.2, **FEW_ROWS)),
    ("stopped_too_early",
     evidence(late(0.5) / 2, update_ratio=0.01, baseline_loss=2.3),
     evidence(late(0.5) / 4, update_ratio=0.01, baseline_loss=2.3)),
    ("clipping_too_strong",
     evidence(to(1.0), clipped_norm=np.full(20, 0.004), unclipped_norm=np.linspace(1.0, 0.5, 20)),
     evidence(to(1.0), clipped_norm=np.linspace(1.0, 0.5, 20) / 256, unclipped_norm=np.linspace(1.0, 0.5, 20))),
    ("frozen_parameters", evidence(to(1.7), facts=FROZEN), evidence(to(1.5), facts=FROZEN)),
    ("no_update", evidence(to(2.2), facts=UNUSED), evidence(to(2.2))),
    ("parameters_not_in_optimizer", evidence(to(2.2), facts=STRANGERS), evidence(to(2.2))),
    ("learning_rate_too_high", evidence(np.r_[2.3, 24, to(0.6)[2:]], facts=DEEP, update_ratio=[1.1, *[0.02] * 19]),
     evidence(np.r_[2.3, 22, to(0.6)[2:]], facts=DEEP, update_ratio=[1.1, *[0.02] * 19])),
    ("stopped_too_early", evidence(late(0) / 12 + 2.1, update_ratio=3e-3, baseline_loss=2.3),
     evidence(late(0) / 12 + 2.1, update_ratio=3e-3, baseline_loss=2.4)),
    ("target_out_of_range", evidence(to(30, 40), facts=OF_VALUES, outputs__min=-0.4, outputs__max=0.97, **FAR),
     evidence(to(30, 40), facts=OF_VALUES, outputs__min=-0.4, outputs__max=np.linspace(0.2, 0.85, 20), **FAR)),
    ("target_out_of_range", evidence(to(30, 40), facts=OF_VALUES, outputs__min=-2.0, outputs__max=2.0, **FAR),
     evidence(to(30, 40), facts=OF_VALUES, outputs__min=-2.0, outputs__max=2.0, **FAR | {"outputs__std": 1.9})),
    ("over_regularized", evidence(to(0.072, 0.4), facts=TWO_TERMS, **GIVES_BACK),
     evidence(to(0.069, 0.4), facts=TWO_TERMS, **GIVES_BACK)),
    ("vanishing_gradients", evidence(STANDING, facts=recurrence(0.58), update_ratio=0.02),
     evidence(STANDING, facts=recurrence(0.60), update_ratio=0.02)),
]  # fmt: skip


@pytest.mark.parametrize("index", range(len(CASES)))
def test_a_cause_is_named_by_its_sign_and_not_just_below_it(index):
    code, has, has_not = CASES[index]

    assert [cause.code for cause in diagnose(has)][:1] == [code]
    assert code not in [cause.code for cause in diagnose(has_not)]


@pytest.mark.parametrize(("steps", "validations", "is_low"), [(99, 0, False), (99, 2, True), (100, 0, True)])
def test_a_short_trial_has_no_rate_that_is_too_low_unless_it_validates(steps, validations, is_low):
    loss = np.linspace(2.3, 2.25, steps)
    facts = Facts(steps=steps, loss=CROSS_ENTROPY, validations=validations)
    causes = diagnose(evidence(loss, facts=facts, update_ratio=2e-4))
    assert ("learning_rate_too_low" in [cause.code for cause in causes]) is is_low


def test_the_learning_rates_of_several_groups_are_one_schedule():
    decay = {"learning_rate/0": 0.8 ** np.arange(STEPS), "learning_rate/1": 0.1 * 0.8 ** np.arange(STEPS)}
    given = evidence(to(2.0), facts=Facts(steps=STEPS, groups=(GroupFacts(), GroupFacts())), **decay)
    assert diagnose(given)[0].code == "schedule_collapsed"


def test_zeros_that_begin_equal_are_meant_so():
    zeros = Facts(steps=STEPS, parameters=(ParameterFacts(name="fc.weight", shape=(64, 100)),))
    same = {"unit_similarity": {"fc.weight": [1.0, 0.5, 0.0, 0.0]}}
    assert not diagnose(evidence(to(1.6), tensors=same, facts=zeros))


@pytest.mark.parametrize(("validation", "code"), [(4.9, "duplicated_data"), (5.1, "overfitting")])
def test_few_rows_that_a_validation_shows_to_be_learnt_by_heart_are_overfitting_first(validation, code):
    signals = {"inputs__rows_so_far": 39.0, "inputs__repeated_rows": 1.0}
    found = evidence(to(0.5), evaluation__loss=[2.5, validation, validation, validation], **signals, **ROWS)
    assert diagnose(found)[0].code == code


@pytest.mark.parametrize(("values", "last", "found"), [
    ([1.6, 1.3, 1.2, 1.2], 0.25, []),  # it stands, at five times the training loss
    ([1.6, 1.3, 1.2, 1.2], 0.11, ["overfitting"]),  # at more than ten times
    ([1.6, 1.2, 1.22, 1.24], 0.25, ["overfitting"]),  # it has turned
])  # fmt: skip
def test_a_validation_loss_that_stands_far_above_is_overfitting_if_hardly_anything_is_left(values, last, found):
    signals = {"evaluation__loss": values, "baseline_loss": 2.3}
    assert [cause.code for cause in diagnose(evidence(to(last), **signals))] == found
