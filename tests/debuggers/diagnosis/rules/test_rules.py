"""Each cause on evidence that just has it, and on evidence that just has not."""

import numpy as np
import pytest
from made_evidence import STANDING, STEPS, of_loss

from debuggers.detectors.finding import Finding
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

FALLING = np.geomspace(2.3, 0.2, STEPS)


def series(values):
    values = (
        np.broadcast_to(np.asarray(values, np.float64), STEPS) if np.ndim(values) == 0 else np.asarray(values, float)
    )
    return Series(np.arange(len(values), dtype=np.int64), values)


def evidence(*, findings=(), tensors=None, loss=STANDING, facts=None, **signals):
    """Signals by name, with ``__`` for a slash: numbers, or one value for each step."""
    found = {name.replace("__", "/"): series(values) for name, values in signals.items()}
    found |= {"loss": series(loss), "total_norm/gradients": found.get("total_norm/gradients", series(1.0))}
    many = {name: {of: series(values) for of, values in each.items()} for name, each in (tensors or {}).items()}
    known = tuple(finding(kind) for kind in findings)
    return Evidence(findings=known, series=found, tensors=many, facts=facts or Facts(steps=STEPS, last_step=STEPS - 1))


def finding(kind):
    return Finding(kind=kind, name="fc1.weight", level="warning", step=3, last_step=50, steps=40, ongoing=True,
                   value=1.0, threshold=0.5, evidence="evidence", rule="rule")  # fmt: skip


def of_parameters(*roles, size=10, std=0.1):
    parameters = tuple(ParameterFacts(name=f"fc{i}.weight", shape=(size, size), std=std, role=role)
                       for i, role in enumerate(roles))  # fmt: skip
    return Facts(steps=STEPS, parameters=parameters, loss=LossFacts(kind="cross_entropy", reduction="mean"))


def of_invariant(name, broken):
    return Facts(steps=STEPS, invariants=(InvariantFacts(name=name, checked=STEPS, broken=broken, first_step=1),))


CLASSES = {"targets__classes_so_far": 10.0, "targets__top_share_so_far": 0.12, "targets__rarest_share_so_far": 0.08}
CASES = {
    "non_finite_inputs": (
        evidence(inputs__non_finite=np.arange(STEPS) >= 7),
        evidence(inputs__non_finite=0.0),
    ),
    "inputs_constant": (
        evidence(inputs__batch_std=0.0, inputs__max=1.0, inputs__batch_size=8.0),
        evidence(inputs__batch_std=1e-4, inputs__max=1.0, inputs__batch_size=8.0),
    ),
    "inputs_not_normalized": (
        evidence(inputs__mean=0.0, inputs__std=31.0),
        evidence(inputs__mean=0.0, inputs__std=9.0),
    ),
    "duplicated_data": (
        evidence(inputs__duplicates=0.35, inputs__batch_size=32.0),
        evidence(inputs__duplicates=0.25, inputs__batch_size=32.0),
    ),
    "single_class_labels": (
        evidence(targets__classes_so_far=1.0, inputs__batch_size=32.0),
        evidence(targets__classes_so_far=2.0, inputs__batch_size=32.0),
    ),
    "class_imbalance": (
        evidence(targets__classes_so_far=2.0, targets__top_share_so_far=0.95, targets__rarest_share_so_far=0.05,
                 top_predicted_share=0.99),
        evidence(targets__classes_so_far=2.0, targets__top_share_so_far=0.85, targets__rarest_share_so_far=0.15,
                 top_predicted_share=0.99),
    ),
    "unshuffled_data": (
        evidence(targets__between_batches=6.0, inputs__batch_size=32.0),
        evidence(targets__between_batches=4.0, inputs__batch_size=32.0),
    ),
    "labels_unrelated": (
        evidence(baseline_loss=2.3, update_ratio=1e-2, outputs__batch_std=0.1, accuracy=0.11, **CLASSES),
        evidence(baseline_loss=2.3, update_ratio=1e-2, outputs__batch_std=0.1, accuracy=0.5, loss=FALLING, **CLASSES),
    ),
    "wrong_output_or_loss": (evidence(facts=of_loss(before="softmax")), evidence(facts=of_loss(before=""))),
    "target_out_of_range": (
        evidence(facts=of_loss(kind="mse", before="sigmoid"), targets__min=0.0, targets__max=1.2),
        evidence(facts=of_loss(kind="mse", before="sigmoid"), targets__min=0.0, targets__max=1.0),
    ),
    "shape_broadcast": (evidence(facts=of_loss(kind="mse", broadcast=True)), evidence(facts=of_loss(kind="mse"))),
    "flipped_loss_sign": (
        evidence(facts=of_loss(negated=True), loss=-STANDING),
        evidence(facts=of_loss(negated=True), loss=STANDING),  # the minus sign stands in the targets
    ),
    "loss_sum_not_mean": (
        evidence(facts=of_loss(reduction="sum"), inputs__batch_size=32.0),
        evidence(facts=of_loss(reduction="sum", factor=1 / 32), inputs__batch_size=32.0),
    ),
    "poor_initialization": (
        evidence(facts=of_parameters("trained", std=3.0)),
        evidence(facts=of_parameters("trained", std=0.3)),
    ),
    "unbroken_symmetry": (
        evidence(tensors={"unit_similarity": {"fc1.weight": 1.0}}),
        evidence(tensors={"unit_similarity": {"fc1.weight": [1.0] + [0.0] * (STEPS - 1)}}),
    ),
    "vanishing_gradients": (
        evidence(tensors={"gradient_rms": {"fc0": 1e-6, "fc1": 1e-4, "fc2": 1e-2}}),
        evidence(tensors={"gradient_rms": {"fc0": 2e-5, "fc1": 1e-4, "fc2": 1e-2}}),
    ),
    "exploding_gradients": (
        evidence(tensors={"gradient_rms": {"fc0": 80.0, "fc1": 9.0, "fc2": 1.0}}, findings=["exploding_gradient"]),
        evidence(tensors={"gradient_rms": {"fc0": 60.0, "fc1": 9.0, "fc2": 1.0}}),
    ),
    "dead_units": (
        evidence(loss=np.linspace(2.3, 2.1, STEPS), tensors={"dead_units": {"relu": 0.55}}),
        evidence(loss=np.linspace(2.3, 2.1, STEPS), tensors={"dead_units": {"relu": 0.45}}),
    ),
    "saturated_units": (
        evidence(tensors={"saturated": {"tanh": 0.55}}),
        evidence(tensors={"saturated": {"tanh": 0.45}}),
    ),
    "parameters_not_in_optimizer": (
        evidence(facts=of_parameters("trained", "outside_optimizer"), findings=("outside_optimizer",)),
        evidence(facts=of_parameters("trained", "outside_optimizer")),
    ),
    "detached_parameters": (
        evidence(facts=of_parameters("without_gradient", "trained"), tensors={"output_std": {"fc0": 1.0, "fc1": 1.0}}),
        evidence(facts=of_parameters("without_gradient", "trained"), tensors={"output_std": {"fc1": 1.0}},
                 loss=FALLING),
    ),
    "frozen_parameters": (
        evidence(facts=of_parameters("frozen", "trained", std=10 ** -0.5 / 3**0.5), loss=np.tile(STANDING, 2)),
        evidence(facts=of_parameters("frozen", "trained", std=0.1), loss=FALLING),
    ),
    "no_update": (evidence(update_ratio=0.0), evidence(update_ratio=1e-3)),
    "wrong_mode": (
        evidence(facts=Facts(steps=STEPS, eval_steps=20)),
        evidence(facts=Facts(steps=STEPS, eval_steps=17)),
    ),
    "gradients_not_zeroed": (
        evidence(facts=of_invariant("gradients_zeroed", 20)),
        evidence(facts=of_invariant("gradients_zeroed", 2)),
    ),
    "clipping_too_strong": (
        evidence(clipped_norm=0.01, unclipped_norm=1.0, update_ratio=1e-5),
        evidence(clipped_norm=0.06, unclipped_norm=1.0, update_ratio=1e-3),
    ),
    "clipping_ineffective": (
        evidence(facts=Facts(steps=STEPS, clips=True), findings=["exploding_gradient"],
                 total_norm__gradients=np.r_[np.full(STEPS - 1, 1.0), 21.0]),
        evidence(facts=Facts(steps=STEPS, clips=True), total_norm__gradients=np.r_[np.full(STEPS - 1, 1.0), 19.0]),
    ),
    "accumulation_not_averaged": (
        evidence(facts=Facts(steps=STEPS, backward_passes=4, loss=LossFacts(kind="mse", reduction="mean")),
                 loss=np.linspace(2.3, 9.0, STEPS)),
        evidence(facts=Facts(steps=STEPS, backward_passes=4,
                             loss=LossFacts(kind="mse", reduction="mean", factor=0.25))),
    ),
    "learning_rate_too_high": (
        evidence(update_ratio=0.6, loss=np.linspace(2.3, 9.0, STEPS)),
        evidence(update_ratio=0.01, loss=FALLING),
    ),
    "learning_rate_too_low": (
        evidence(update_ratio=9e-6, loss=np.linspace(2.3, 2.29, STEPS)),
        evidence(update_ratio=2e-3, loss=np.linspace(2.3, 2.29, STEPS)),
    ),
    "schedule_collapsed": (
        evidence(learning_rate=np.where(np.arange(STEPS) < 20, 0.1, 1e-4)),
        evidence(learning_rate=np.where(np.arange(STEPS) < 50, 0.1, 1e-4)),
    ),
    "missing_warmup": (
        evidence(loss=np.r_[2.3, 2.4, 5.0, 4.0, np.geomspace(3.0, 1.0, STEPS - 4)],
                 update_ratio=np.geomspace(0.09, 0.005, STEPS), facts=Facts(steps=STEPS, optimizer="Adam")),
        evidence(loss=np.r_[2.3, 2.4, 2.4, 2.3, np.geomspace(2.2, 1.0, STEPS - 4)],
                 update_ratio=np.geomspace(0.09, 0.005, STEPS), facts=Facts(steps=STEPS, optimizer="Adam")),
    ),
    "stopped_too_early": (
        evidence(loss=np.linspace(2.3, 1.4, STEPS), update_ratio=1e-3, validation__loss=np.linspace(2.3, 1.5, 6)),
        evidence(loss=FALLING, update_ratio=1e-3, validation__loss=np.geomspace(2.3, 0.3, 6)),
    ),
    "over_regularized": (
        evidence(weight_norm=np.linspace(5.0, 1.0, STEPS)),
        evidence(weight_norm=np.linspace(5.0, 4.0, STEPS)),
    ),
    "overfitting": (
        evidence(loss=FALLING, validation__loss=[2.3, 1.0, 1.1, 1.3, 1.5]),
        evidence(loss=FALLING, validation__loss=[2.3, 1.0, 0.8, 0.6, 0.5]),
    ),
    "non_finite_forward": (
        evidence(loss=np.where(np.arange(STEPS) >= 30, np.nan, 1.0)),
        evidence(loss=np.full(STEPS, 1.0)),
    ),
    "non_finite_backward": (evidence(findings=["non_finite_gradient"]), evidence()),
    "fp16_underflow": (
        evidence(facts=Facts(steps=STEPS, mixed_precision="float16"), tensors={"gradient_zeros": {"fc0.weight": 0.4}}),
        evidence(facts=Facts(steps=STEPS, mixed_precision="bfloat16"), tensors={"gradient_zeros": {"fc0.weight": 0.4}}),
    ),
    "batch_mixing": (
        evidence(facts=Facts(steps=STEPS, probes={"batch_mixing": {"mixed": True}})),
        evidence(facts=Facts(steps=STEPS, probes={"batch_mixing": {"mixed": False}})),
    ),
    "memory_leak": (
        evidence(process_mb=500 + 2 * np.arange(STEPS)),
        evidence(process_mb=500 + 100 * (1 - 0.9 ** np.arange(STEPS))),
    ),
    "data_loading_bound": (
        evidence(data_share=0.75, step_ms=10.0),
        evidence(data_share=0.65, step_ms=10.0),
    ),
    "rank_desync": (
        evidence(facts=of_invariant("replicas_equal", 1)),
        evidence(facts=of_invariant("replicas_equal", 0)),
    ),
}  # fmt: skip


@pytest.mark.parametrize("code", CASES)
def test_a_cause_is_named_where_its_signs_are_there(code):
    with_it, _ = CASES[code]
    found = {cause.code: cause for cause in diagnose(with_it)}
    assert code in found
    assert found[code].evidence
    assert found[code].advice


@pytest.mark.parametrize("code", CASES)
def test_it_is_not_named_just_below(code):
    _, without = CASES[code]
    assert code not in [cause.code for cause in diagnose(without)]


@pytest.mark.parametrize(("step_ms", "expected"), [(10.0, []), (40.0, ["data_loading_bound"])])
def test_short_waits_of_the_first_steps_are_those_of_a_training_that_warms_up(step_ms, expected):
    signals = evidence(data_share=np.full(12, 0.75), step_ms=np.full(12, step_ms))
    assert [cause.code for cause in diagnose(signals)] == expected


@pytest.mark.parametrize(("top_share", "shuffled"), [(0.99, True), (0.5, False)])
def test_batches_of_a_frequent_class_alone_come_by_chance(top_share, shuffled):
    alone = np.where(np.arange(STEPS) % 3, 1.0, 2.0)  # two thirds of the batches; 0.99 to the 32nd is 72 %
    codes = [cause.code for cause in diagnose(evidence(
        inputs__batch_size=32.0, targets__classes=alone, targets__classes_so_far=2.0,
        targets__top_share_so_far=top_share, targets__rarest_share_so_far=1 - top_share,
    ))]  # fmt: skip

    assert ("unshuffled_data" not in codes) is shuffled


@pytest.mark.parametrize(("accuracy", "named"), [(0.15, True), (0.3, False)])
def test_labels_that_are_predicted_better_than_by_chance_are_not_unrelated(accuracy, named):
    found = diagnose(evidence(baseline_loss=2.3, update_ratio=1e-2, outputs__batch_std=0.1, gradient_cosine=0.0,
                              accuracy=accuracy, inputs__batch_size=8.0, **CLASSES))  # fmt: skip

    assert ("labels_unrelated" in [cause.code for cause in found]) is named


@pytest.mark.parametrize("kind", ["cross_entropy", "bce_with_logits"])
@pytest.mark.parametrize("before", ["softmax", "sigmoid", "tanh", "relu"])
def test_no_activation_belongs_before_a_loss_of_logits(kind, before):
    (cause,) = diagnose(evidence(facts=of_loss(kind=kind, before=before), loss=FALLING))

    assert cause.code == "wrong_output_or_loss"
    assert f" gets the output of {before}" in cause.evidence[0]
    assert before in cause.advice


def test_an_operator_over_the_batch_is_named_where_it_is_found_in_most_batches():
    (cause,) = diagnose(evidence(facts=of_invariant("samples_are_apart", 0.8 * STEPS), loss=FALLING))
    assert cause.code == "batch_mixing"
    assert diagnose(evidence(facts=of_invariant("samples_are_apart", 0.5 * STEPS), loss=FALLING)) == ()


@pytest.mark.parametrize("columns", [1, 16])
def test_classes_of_positions_may_go_together_within_a_batch(columns):
    shapes = {"inputs": BatchFacts(shape=(32, 16)), "targets": BatchFacts(shape=(32 * columns,), integer=True)}
    causes = diagnose(evidence(targets__between_batches=9.0, loss=FALLING, facts=Facts(steps=STEPS, **shapes)))
    assert [cause.code for cause in causes] == ["unshuffled_data"] * (columns == 1)


def test_outputs_that_were_put_into_another_shape_are_not_broadcast():
    shapes = {"kind": "bce", "outputs_shape": (32, 1), "targets_shape": (32,)}
    assert diagnose(evidence(facts=of_loss(**shapes), loss=FALLING)) == ()


def test_some_gradients_of_zeros_are_no_underflow():
    half = Facts(steps=STEPS, mixed_precision="float16")
    zeros = {"a": 0.4, "b": 0.0, "c": 0.0}
    assert diagnose(evidence(facts=half, tensors={"gradient_zeros": zeros}, loss=FALLING)) == ()


def test_a_frozen_backbone_that_lets_the_loss_fall_is_healthy():
    facts = of_parameters("frozen", "trained", std=10**-0.5 / 3**0.5)
    assert diagnose(evidence(facts=facts, loss=FALLING)) == ()


def test_what_the_model_normalises_itself_is_normalised():
    facts = Facts(steps=STEPS, layers=(LayerFacts(name="bn", kind="BatchNorm1d"), LayerFacts(name="fc", kind="Linear")))
    assert diagnose(evidence(inputs__mean=100.0, inputs__std=300.0, loss=FALLING, facts=facts)) == ()


def test_an_index_that_the_loss_refuses_is_told_from_its_error():
    facts = Facts(steps=0, error="IndexError: Target 10 is out of bounds.")
    (cause,) = diagnose(Evidence(facts=facts))
    assert cause.code == "target_out_of_range"
    assert "Target 10" in cause.evidence[0]


def test_the_advice_for_a_learning_rate_names_one(code="learning_rate_too_high"):
    facts = Facts(steps=STEPS, groups=(GroupFacts(settings={"lr": 0.1}),), outputs=BatchFacts(shape=(32, 10)))
    causes = diagnose(evidence(update_ratio=0.3, loss=np.linspace(2.3, 9.0, STEPS), facts=facts))
    (cause,) = [cause for cause in causes if cause.code == code]
    assert cause.advice.startswith("lr: 0.1 → 0.0003 (the update ratio is 0.3")


def test_the_spread_of_an_embedding_or_of_a_position_is_no_scale_of_weights():
    parameters = tuple(ParameterFacts(name=name, shape=(100, 64), std=1.0) for name in ("wte.weight", "position"))
    layers = (LayerFacts(name="wte", kind="Embedding"), LayerFacts(name="head", kind="Linear"))
    assert diagnose(evidence(facts=Facts(steps=STEPS, parameters=parameters, layers=layers))) == ()


def test_a_validation_loss_that_rises_by_little_of_what_it_fell_is_no_overfitting():
    signals = {"validation__loss": [2.2, 0.1, 0.075, 0.09, 0.1, 0.1], "baseline_loss": 2.3}
    assert diagnose(evidence(loss=np.geomspace(2.3, 0.006, STEPS), **signals)) == ()


def test_a_share_of_errors_is_not_compared_with_the_training_loss():
    errors = [0.4, 0.3, 0.2, 0.18, 0.19, 0.18]
    assert diagnose(evidence(loss=FALLING, validation__loss=errors, baseline_loss=2.3)) == ()


def test_weights_that_stay_where_they_were_have_learnt_nothing():
    (cause,) = diagnose(evidence(update_ratio=6e-4, loss=np.linspace(2.3, 2.28, 150), baseline_loss=2.3))
    assert cause.code == "learning_rate_too_low"
    assert "9.0% of their size" in cause.evidence[0]


def test_the_first_steps_of_a_loop_that_is_tried_out_say_nothing_of_the_learning_rate():
    assert diagnose(evidence(update_ratio=1.5e-3, loss=np.linspace(2.3, 2.28, STEPS))) == ()


def test_a_single_batch_with_a_large_loss_is_no_blow_up():
    loss = np.r_[np.full(30, 1.0), 2.5, np.full(29, 1.02)] + 0.05 * np.sin(np.arange(STEPS))
    assert diagnose(evidence(loss=loss)) == ()


def test_a_loss_that_may_be_negative_may_rise():
    assert diagnose(evidence(loss=np.linspace(-0.2, 0.16, STEPS))) == ()


@pytest.mark.parametrize(("classes", "flipped"), [(10.0, True), (160.0, False)])
def test_no_hit_is_below_chance_where_some_were_to_be_expected(classes, flipped):
    codes = [cause.code for cause in diagnose(evidence(
        accuracy=0.0, inputs__batch_size=16.0, targets__classes_so_far=classes, loss=np.linspace(2.0, 3.0, STEPS),
    ))]  # fmt: skip

    assert ("flipped_loss_sign" in codes) is flipped


def test_a_model_that_came_trained_may_stay_where_it_is():
    known = {"update_ratio": 1.5e-3, "baseline_loss": 2.3, "facts": of_loss()}
    assert diagnose(evidence(loss=np.linspace(0.21, 0.2, STEPS), **known)) == ()


def test_a_loss_that_rises_because_another_model_learns_is_no_sign():
    known = {"update_ratio": 0.15, "loss": np.linspace(0.7, 2.0, STEPS)}
    assert "learning_rate_too_high" in [cause.code for cause in diagnose(evidence(**known))]
    assert diagnose(evidence(**known, facts=Facts(steps=STEPS, trained_with_others=True))) == ()


def test_graphs_that_are_kept_are_a_leak_though_memory_does_not_show_it():
    (cause,) = diagnose(evidence(facts=of_invariant("graphs_freed", 40), loss=FALLING))
    assert cause.code == "memory_leak"
    assert diagnose(evidence(facts=of_invariant("graphs_freed", 20), loss=FALLING)) == ()


COLLAPSED = {"update_ratio": np.geomspace(0.05, 0.002, STEPS), "outputs__batch_std": np.geomspace(0.3, 0.001, STEPS),
             "baseline_loss": 2.3, "accuracy": 0.11, **CLASSES}  # fmt: skip


def test_outputs_that_large_updates_made_constant_are_not_blamed_on_the_labels():
    causes = diagnose(evidence(**COLLAPSED, facts=of_loss()))
    assert [cause.code for cause in causes if cause.is_likely] == ["learning_rate_too_high"]
    small = COLLAPSED | {"update_ratio": np.geomspace(0.03, 0.002, STEPS)}
    assert [cause.code for cause in diagnose(evidence(**small, facts=of_loss()))] == ["labels_unrelated"]


def test_gradients_that_fall_from_large_ones_need_no_clipping():
    norms = {"total_norm__gradients": np.geomspace(2000.0, 2.0, STEPS), "loss": np.geomspace(2.3, 1.2, STEPS)}
    assert diagnose(evidence(findings=["exploding_gradient"], facts=Facts(steps=STEPS, clips=True), **norms)) == ()


def test_a_training_whose_schedule_has_ended_is_not_stopped_too_early():
    falls = {"loss": np.linspace(2.3, 1.4, STEPS), "update_ratio": 1e-3, "validation__loss": np.linspace(2.3, 1.5, 6)}
    assert diagnose(evidence(**falls, learning_rate=np.linspace(0.1, 0.0, STEPS))) == ()


def test_a_loss_that_rises_for_a_few_steps_only_has_lost_nothing():
    loss, adam = np.r_[2.3, 2.4, 5.0, 4.0, np.geomspace(2.2, 1.0, STEPS - 4)], Facts(steps=STEPS, optimizer="Adam")
    assert diagnose(evidence(loss=loss, update_ratio=np.geomspace(0.09, 0.005, STEPS), facts=adam)) == ()


def test_a_transformer_that_collapses_at_adams_full_rate_misses_its_warmup():
    layers = (LayerFacts(name="norm", kind="LayerNorm"), LayerFacts(name="out", kind="NonDynamicallyQuantizableLinear"))
    facts = Facts(steps=STEPS, optimizer="Adam", layers=layers, loss=of_loss().loss)
    assert diagnose(evidence(**COLLAPSED, facts=facts))[0].code == "missing_warmup"
    warm = evidence(**COLLAPSED, facts=facts, learning_rate=np.linspace(0.001, 0.01, STEPS))
    assert "missing_warmup" not in [cause.code for cause in diagnose(warm)]


def test_gradients_that_grow_without_anything_learnt_explode():
    facts = Facts(steps=STEPS, layers=(LayerFacts(name="cell", kind="RNN"),), loss=of_loss().loss)
    grown = {"total_norm__gradients": np.geomspace(0.1, 6.0, STEPS), "baseline_loss": 2.3, "facts": facts}
    assert [cause.code for cause in diagnose(evidence(**grown))] == ["exploding_gradients"]
    assert diagnose(evidence(**grown | {"total_norm__gradients": np.geomspace(0.1, 4.0, STEPS)})) == ()


def test_saturation_comes_before_the_gradients_that_it_takes():
    gradients = {"fc0": 1e-7, "fc1": 1e-4, "fc2": 1e-2}
    causes = diagnose(evidence(tensors={"saturated": {"tanh": 1.0}, "gradient_rms": gradients}))
    assert causes[0].code == "saturated_units"


def test_units_saturated_by_large_weights_are_named_although_the_loss_falls():
    tensors = {"saturated": {"tanh": 0.85}}
    causes = diagnose(evidence(tensors=tensors, loss=FALLING, facts=of_parameters("trained", std=3.0)))
    assert "saturated_units" in [cause.code for cause in causes]
    assert diagnose(evidence(tensors=tensors, loss=FALLING, facts=of_parameters("trained", std=0.3))) == ()
