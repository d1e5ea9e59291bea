"""Terms that outweigh the comparison: outputs no longer depend on the row, weights are drawn back."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss
from msgspec.structs import replace

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import BatchFacts, Facts, GroupFacts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

LONG = 120


def _names(**signals):
    """The causes of 120 steps whose points are half of them, with weights that go about their own size."""
    facts, loss = signals.pop("facts"), signals.pop("loss")
    values = {name: np.broadcast_to(np.asarray(value, np.float64), STEPS) for name, value in signals.items()}
    made = evidence(facts=facts, loss=loss, update_ratio=np.full(STEPS, 0.02), **values)
    steps = np.linspace(0, LONG - 1, LONG).astype(np.int64)
    series = dict(made.series)
    series["loss"] = type(series["loss"])(steps, np.interp(steps, np.linspace(0, LONG - 1, STEPS), loss))
    return [cause.code for cause in diagnose(type(made)(series=series, facts=made.facts))]


@pytest.mark.parametrize(("last", "deviation", "fields", "is_one"), [
    (0.0018, 0.26, {"terms": 2}, True), (0.0018, 0.26, {"penalized": True}, True),
    (0.0022, 0.26, {"terms": 2}, False),  # a tenth of what it was
    (0.0018, 0.06, {"terms": 2}, False),  # outputs vary by as little between them
    (0.0018, 0.26, {}, False),
    (0.0018, 0.26, {"terms": 2, "kind": "bce_with_logits"}, False),  # a discriminator that is no surer than chance
])  # fmt: skip
def test_outputs_that_are_one_vector_for_all_rows_are_what_another_term_leaves(last, deviation, fields, is_one):
    facts = of_loss(**{"kind": "mse", "outputs_shape": (64, 8)} | fields)
    spread = np.r_[np.full(5, 0.02), np.full(STEPS - 5, last)]
    signals = {"outputs/batch_std": spread, "outputs/std": deviation}
    found = _names(facts=facts, loss=np.geomspace(0.63, 0.075, STEPS), **signals)
    assert found == ["over_regularized"] * is_one


@pytest.mark.parametrize(("last", "terms", "is_one"), [(0.0058, 2, True), (0.0062, 2, False), (0.0058, 1, False)])
def test_outputs_that_vary_a_fiftieth_of_their_targets_are_what_another_term_leaves(last, terms, is_one):
    """From the first step on, as where a total variation outweighs an error; they may still fall and rise together."""
    signals = {"outputs/batch_std": last, "outputs/std": last, "targets/std": 0.3, "correlation": 0.9}
    facts = of_loss(kind="mse", terms=terms, outputs_shape=(64, 8))
    found = _names(facts=facts, loss=np.geomspace(0.63, 0.075, STEPS), **signals)
    assert found == ["over_regularized"] * is_one


@pytest.mark.parametrize(
    ("strength", "last", "is_one"), [(1e-3, 2.3, False), (2e-3, 2.3, True), (1e-3, 2.25, True)], ids=str
)
def test_a_usual_decay_shrinks_weights_that_learn_nothing_at_all(strength, last, is_one):
    groups = (GroupFacts(settings={"lr": 1e-2, "weight_decay": strength}),)
    found = _names(facts=replace(of_loss(kind="cross_entropy"), groups=groups), loss=np.linspace(2.3, last, STEPS),
                   weight_norm=np.geomspace(1, 0.5, STEPS))  # fmt: skip
    assert ("over_regularized" in found) == is_one


@pytest.mark.parametrize(("largest", "is_one"), [(0.9, True), (1.1, False)])
def test_weights_that_an_update_has_thrown_away_are_taken_by_no_other_term(largest, is_one):
    spread = np.r_[np.full(5, 0.02), np.full(STEPS - 5, 0.001)]
    made = evidence(
        facts=of_loss(kind="mse", terms=2), loss=np.full(STEPS, 0.5),
        update_ratio=np.r_[largest, np.full(STEPS - 1, 0.02)],
        **{"outputs/batch_std": spread, "outputs/std": np.full(STEPS, 0.3)},
    )  # fmt: skip
    series = dict(made.series) | {"loss": type(made.series["loss"])(np.arange(LONG), np.full(LONG, 0.5))}
    codes = [cause.code for cause in diagnose(type(made)(series=series, facts=made.facts))]
    assert ("over_regularized" in codes) == is_one


@pytest.mark.parametrize(
    ("related", "penalized", "is_one"), [(0.3, False, True), (0.0, False, False), (0.0, True, True)]
)
def test_a_loss_alone_draws_weights_to_zero_where_targets_are_unrelated(related, penalized, is_one):
    """Where outputs go with their targets, and weights shrink all the same, something holds them down."""
    signals = {"inputs/batch_size": 32.0, "correlation": related, "weight_norm": np.geomspace(1, 0.3, STEPS)}
    found = _names(facts=of_loss(kind="mse", penalized=penalized), loss=np.linspace(1.1, 1.0, STEPS), **signals)
    assert ("over_regularized" in found) == is_one


@pytest.mark.parametrize(("stands_at", "accuracy", "penalized", "is_one"), [
    (4.7, 0.5, True, True), (3.4, 0.5, True, False), (4.7, 0.6, True, False), (4.7, 0.5, False, False),
])  # fmt: skip
def test_a_penalty_that_draws_weights_back_leaves_predictions_as_they_were(stands_at, accuracy, penalized, is_one):
    """A loss far above a constant output's may also be a large constant beside predictions that get better."""
    right = np.r_[np.full(STEPS // 2, 0.5), np.full(STEPS // 2, accuracy)] + 0.01 * np.sin(np.arange(STEPS))
    found = _names(facts=of_loss(penalized=penalized), loss=np.linspace(stands_at * 1.1, stands_at, STEPS),
                   accuracy=right, baseline_loss=2.3)  # fmt: skip
    assert ("over_regularized" in found) == is_one


@pytest.mark.parametrize(
    ("size", "accuracy", "is_one"), [(0.5, 0.12, False), (0.5, 0.2, True), (0.2, 0.12, True)], ids=str
)
def test_half_of_the_weights_would_tell_rows_apart_if_targets_were_related(size, accuracy, is_one):
    """Logits that are half as large have the same largest one; of weights that are nearly gone, nothing follows."""
    signals = {
        "inputs/batch_size": 64.0, "accuracy": accuracy, "weight_norm": np.geomspace(1, size, STEPS),
        "targets/classes_so_far": 10.0, "targets/top_share_so_far": 0.12,
    }  # fmt: skip
    facts = of_loss(kind="cross_entropy")
    groups = (GroupFacts(settings={"lr": 1e-3, "weight_decay": 0.1}),)
    found = _names(facts=replace(facts, groups=groups), loss=np.full(STEPS, 2.3), **signals)
    assert ("over_regularized" in found) == is_one


@pytest.mark.parametrize(("explained", "terms", "of_inputs", "falls_on", "is_one"), [
    (0.2, 2, 0.3, False, True), (0.3, 2, 0.3, False, False), (0.2, 1, 0.3, False, False),
    (0.2, 2, 0.31, False, False),  # something else than the inputs is to be put out
    (0.2, 2, 0.3, True, False),  # it is on its way
])  # fmt: skip
def test_what_gives_hardly_a_quarter_of_its_inputs_back_is_outweighed(explained, terms, of_inputs, falls_on, is_one):
    values = {f"targets/{name}": 0.3 for name in ("mean", "std", "min", "max")}
    values |= {f"inputs/{name}": of_inputs for name in ("mean", "std", "min", "max")}
    course = np.linspace(1.2, 0.8, STEPS) if falls_on else np.where(np.arange(STEPS) < 5, 1.2, 0.9)
    found = _names(facts=of_loss(kind="mse", terms=terms), loss=course, correlation=0.55, r2=explained, **values)
    assert ("over_regularized" in found) == is_one


@pytest.mark.parametrize(("layers", "decay", "is_one"), [(1, 0.0, False), (2, 0.0, True), (1, 1e-2, True)])
def test_the_weights_of_one_layer_shrink_to_its_solution(layers, decay, is_one):
    """From a first draw that is larger; noise of the targets leaves most of the loss."""
    parameters = tuple(ParameterFacts(name=f"{place}.weight", shape=(1, 30), std=0.2) for place in range(layers))
    facts = replace(of_loss(kind="bce_with_logits"), parameters=parameters,
                    groups=(GroupFacts(settings={"lr": 0.1, "weight_decay": decay}),))  # fmt: skip
    signals = {"weight_norm": np.geomspace(1, 0.4, STEPS), "decay_cosine": 0.8}
    found = _names(facts=facts, loss=np.linspace(0.75, 0.66, STEPS), **signals)
    assert ("over_regularized" in found) == is_one


@pytest.mark.parametrize(("validated", "kind", "is_one"), [
    (0.95, "ReLU", False), (1.1, "ReLU", True), (None, "ReLU", True),
    (0.95, "Dropout", True),  # which makes the training loss larger, too
])  # fmt: skip
def test_a_decay_leaves_noise_of_the_training_targets_to_be_learnt(validated, kind, is_one):
    """The training loss comes to 1.14, of 2.3; others' rows have a lower one if their targets are cleaner."""
    groups = (GroupFacts(settings={"lr": 1.0, "weight_decay": 0.03}),)
    signals = {"weight_norm": np.geomspace(1, 0.65, STEPS), "baseline_loss": 2.3, "learning_rate": 1.0}
    if validated is not None:
        signals["validation/loss"] = np.linspace(2.0, validated, STEPS)
    layers = (LayerFacts(name="0", kind=kind, value=0.3),)
    facts = replace(of_loss(), groups=groups, optimizer="SGD", layers=layers)
    found = _names(facts=facts, loss=np.geomspace(2.3, 1.05, STEPS), **signals)
    assert ("over_regularized" in found) == is_one


@pytest.mark.parametrize(("largest", "is_one"), [(0.9, True), (1.1, False)])
def test_a_penalty_that_has_grown_with_weights_that_were_thrown_away_outweighs_nothing(largest, is_one):
    ratios = np.r_[largest, np.full(STEPS - 1, 0.02)]
    made = evidence(facts=of_loss(kind="mse", terms=2), loss=np.full(STEPS, 1.0), update_ratio=ratios,
                    correlation=np.zeros(STEPS))  # fmt: skip
    loss = type(made.series["loss"])(np.arange(LONG), np.geomspace(90.0, 45.0, LONG))
    codes = [cause.code for cause in diagnose(type(made)(series=dict(made.series) | {"loss": loss}, facts=made.facts))]
    assert ("over_regularized" in codes) == is_one


_SHRINKS_AT_ONCE = np.r_[6.8, np.geomspace(0.89, 0.8, STEPS - 1)]


@pytest.mark.parametrize(("course", "norm", "is_one"), [
    ([0.0, -0.0123, -0.0108], _SHRINKS_AT_ONCE, False),  # a critic's, clamped from the first step
    ([0.0, -0.0123, -0.0108], np.geomspace(6.8, 0.8, STEPS), True),
    ([2.0, -1.0, -0.2], np.geomspace(6.8, 0.8, STEPS), True),
    ([2.0, -1.0, -0.8], np.geomspace(6.8, 0.8, STEPS), False),  # a fifteenth of its fall
    ([2.0, 0.5, 1.0], np.geomspace(6.8, 0.8, STEPS), True),
    ([2.0, 0.5, 1.0], _SHRINKS_AT_ONCE, False),
    ([2.0, 0.5, 0.6], np.geomspace(6.8, 0.8, STEPS), False),
])  # fmt: skip
def test_a_loss_rises_under_weights_that_shrink_on(course, norm, is_one):
    """By a share of a constant output's, or of its own fall where it is of both signs."""
    loss = np.interp(np.linspace(0, 1, STEPS), [0, 0.4, 0.7, 1], [*course, course[-1]])
    codes = [cause.code for cause in diagnose(evidence(facts=of_loss(kind=""), loss=loss, weight_norm=norm))]
    assert ("over_regularized" in codes) == is_one


@pytest.mark.parametrize(
    ("code", "behind", "width", "given_back", "weight", "is_one"),
    [
        (0.09, 0.4, 16, 64, None, True),
        (0.11, 0.4, 16, 64, None, False),  # the rows are still told apart
        (0.09, 0.2, 16, 64, None, False),  # without noise, what is behind it is the same for all rows, too
        (0.09, 0.4, 48, 64, None, True),  # a code of 24, of which there are means and deviations
        (0.09, 0.4, 80, 64, None, False),  # it is no code, but as wide as the inputs
        (0.09, 0.4, 16, 10, None, False),  # nothing is to be given back
        (0.2, 20.0, 16, 64, 0.5, True),  # 0.06 beside the 4.2 that weights of 0.5 √8 make 6 of
        (0.2, 20.0, 16, 64, 2.0, False),  # weights of 2 √8 do so with 1.06
        (0.45, 20.0, 16, 64, 0.1, True),
        (0.55, 20.0, 16, 64, 0.1, False),
    ],
)
def test_a_code_of_noise_alone_is_what_a_divergence_leaves(code, behind, width, given_back, *, weight, is_one):
    shapes = {"encoder.0": (96, 64), "encoder.2": (width, 96), "decoder.0": (96, width // 2), "decoder.2": (64, 96)}
    last = {"encoder.0": 0.9, "encoder.2": code, "decoder.0": behind, "decoder.2": 2.0}
    steps = np.arange(LONG)
    facts = of_loss(kind="bce_with_logits", outputs_shape=(64, given_back), targets_shape=(64, given_back))
    facts = replace(
        facts,
        steps=LONG,
        inputs=BatchFacts(shape=(64, 64)),
        layers=tuple(LayerFacts(name=name, kind="Linear") for name in shapes),
        parameters=tuple(
            ParameterFacts(name=f"{name}.weight", shape=shape, std=(3 * shape[1]) ** -0.5, role="trained")
            for name, shape in shapes.items()
        ),
    )
    spreads = {
        name: Series(steps, 0.3 * np.r_[np.geomspace(1.0, share, LONG - 3), [share] * 3])
        for name, share in last.items()
    }
    series = {"loss": Series(steps, np.geomspace(0.74, 0.43, LONG)), "update_ratio": Series(steps, np.full(LONG, 0.02))}
    tensors = {"output_batch_std": spreads}
    if weight is not None:
        tensors["weight_rms"] = {"decoder.0.weight": Series(steps, np.full(LONG, weight))}
    causes = diagnose(Evidence(series=series, tensors=tensors, facts=facts))

    assert [cause.code for cause in causes] == ["over_regularized"] * is_one
    assert not causes or "divergence" in causes[0].advice


@pytest.mark.parametrize(("first", "later", "strength", "is_one"), [
    (0.6, 0.6, 0.05, True), (0.6, 0.4, 0.05, False), (0.4, 0.6, 0.05, False), (0.6, 0.6, 0.0, False),
])  # fmt: skip
def test_a_decay_that_outweighs_the_gradients_from_the_first_step_is_named(first, later, strength, is_one):
    group = GroupFacts(parameters=2, settings={"lr": 0.1, "weight_decay": strength})
    facts = Facts(steps=STEPS, optimizer="SGD", groups=(group,))
    cosine, loss = np.r_[first, np.full(STEPS - 1, later)], np.geomspace(2.3, 0.2, STEPS)
    causes = diagnose(evidence(facts=facts, loss=loss, decay_cosine=cosine))
    assert [cause.code for cause in causes] == ["over_regularized"] * is_one


@pytest.mark.parametrize(
    ("share", "ratio", "last", "terms", "is_one"),
    [(0.65, 0.01, 0.05, 2, True), (0.55, 0.01, 0.05, 2, False), (0.65, 0.2, 0.05, 2, False),
     (0.65, 0.01, 0.03, 2, False), (0.65, 0.01, 0.05, 1, False)],
)  # fmt: skip
def test_units_that_die_by_small_steps_beside_another_term_are_killed_by_it(share, ratio, last, terms, is_one):
    """An error of a constant output is 0.07, of which six tenths are 0.042."""
    steps = np.arange(LONG)
    values = {"loss": np.linspace(0.1, last, LONG), "baseline_loss": np.full(LONG, 0.07),
              "update_ratio": np.full(LONG, ratio)}  # fmt: skip
    series = {name: Series(steps, one) for name, one in values.items()}
    tensors = {"dead_units": {"act": Series(steps, np.r_[0.1, np.full(LONG - 1, share)])}}
    found = diagnose(Evidence(series=series, tensors=tensors, facts=of_loss(kind="mse", terms=terms)))
    assert ("over_regularized" in [cause.code for cause in found]) == is_one


@pytest.mark.parametrize(("cosine", "last_norm", "decay", "last", "is_one"), [
    (0.98, 0.7, 0.5, 0.28, True), (0.5, 0.7, 0.5, 0.28, False), (0.98, 0.2, 0.5, 0.28, False),
    (0.98, 0.7, 0.0, 0.28, False), (0.98, 0.7, 0.5, 0.05, False),
])  # fmt: skip
def test_a_decay_takes_back_what_gradients_that_agree_to_the_end_ask_for(cosine, last_norm, decay, last, is_one):
    """The weights have shrunk to a quarter, and three quarters were learnt all the same."""
    steps = np.arange(120)
    values = {
        "loss": last + (1.0 - last) * np.exp(-steps / 15), "baseline_loss": np.ones(120),
        "weight_norm": 1.5 + 4.5 * np.exp(-steps / 20), "gradient_cosine": np.full(120, cosine),
        "total_norm/gradients": np.linspace(0.8, last_norm, 120), "update_ratio": np.full(120, 0.01),
    }  # fmt: skip
    facts = Facts(
        steps=120,
        loss=LossFacts(kind="mse", reduction="mean"),
        groups=(GroupFacts(settings={"lr": 3e-3, "weight_decay": decay}),),
    )
    found = {name: Series(steps, one) for name, one in values.items()}
    causes = diagnose(Evidence(series=found, facts=facts))
    assert ("over_regularized" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("dropped", "is_one"), [(0.5, True), (0.1, False), (0.0, False)])
def test_a_dropout_behind_the_last_layer_takes_outputs_away(dropped, is_one):
    loss = LossFacts(kind="mse", reduction="mean", dropped=dropped)
    values = {"loss": np.geomspace(1.0, 0.4, 120), "baseline_loss": np.ones(120)}
    found = {name: Series(np.arange(120), one) for name, one in values.items()}
    causes = diagnose(Evidence(series=found, facts=Facts(steps=120, loss=loss)))
    assert ("over_regularized" in [cause.code for cause in causes]) == is_one
