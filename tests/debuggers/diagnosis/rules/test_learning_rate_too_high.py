"""Signs of steps that are too large, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss
from msgspec.structs import replace as with_fields

from debuggers.diagnosis.derived.updates import died, setback
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, GroupFacts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series


@pytest.mark.parametrize(("ratio", "peak", "grown", "is_one"), [
    (3.0, 7.0, 9.0, True), (3.0, 4.0, 9.0, False), (3.0, 7.0, 2.0, False), (0.9, 7.0, 9.0, False),
    (3.0, 4.0, 12.0, True), (3.0, 3.0, 12.0, False),
])  # fmt: skip
def test_a_first_update_that_throws_the_weights_away_is_too_large_though_the_loss_falls(ratio, peak, grown, is_one):
    """It is larger than the weights, the loss jumps, and little of what they were is left.

    To twice its first value, or to one and a half times where they come to ten times their size.
    """
    loss = np.concatenate([[2.3, peak], np.geomspace(2.2, 0.3, STEPS - 2)])
    updates = np.concatenate([[ratio], np.geomspace(0.2, 0.01, STEPS - 1)])
    found = evidence(
        facts=of_loss(), loss=loss, update_ratio=updates, weight_norm=np.linspace(1, grown, STEPS),
    )  # fmt: skip
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(
    ("std", "shapes", "is_one"),
    [
        (0.0, [(6, 256), (6, 6)], False),
        (0.01, [(6, 256), (6, 6)], True),
        (0.01, [(6, 256)], False),
        (0.01, [(6, 3, 3, 3)], True),
    ],
)
def test_no_initialization_is_lost_where_all_weights_begin_at_zero_or_are_one_layer(std, shapes, is_one):
    matrices = [ParameterFacts(name=f"{place}.weight", shape=shape, std=std) for place, shape in enumerate(shapes)]
    facts = with_fields(of_loss(), parameters=tuple(matrices))
    loss = np.concatenate([[1.8, 4.0], np.geomspace(2.2, 0.3, STEPS - 2)])
    updates = np.concatenate([[1.9], np.geomspace(0.2, 0.01, STEPS - 1)])
    found = evidence(facts=facts, loss=loss, update_ratio=updates, weight_norm=np.geomspace(0.1, 9, STEPS))
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("ratio", "is_one"), [(0.03, False), (0.04, True)])
def test_a_loss_that_rises_while_all_steps_are_small_is_no_matter_of_the_rate(ratio, is_one):
    """What a policy earns grows as it learns, and with it the error of its critic."""
    found = evidence(
        facts=of_loss(kind="", terms=3), loss=np.linspace(13.6, 47.4, STEPS), update_ratio=np.full(STEPS, ratio)
    )
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("optimizer", "is_one"), [("SGD", True), ("LBFGS", False)])
def test_a_step_of_lbfgs_is_many_updates(optimizer, is_one):
    """As in the forecast of sines of PyTorch's examples, of which 6 steps are enough."""
    loss = LossFacts(kind="mse", reduction="mean")
    values = {"loss": [0.5, 0.3, 0.1, 0.03, 0.01, 0.004], "update_ratio": [0.6, 0.3, 0.2, 0.1, 0.1, 0.1],
              "gradient_cosine": np.full(6, -0.4)}  # fmt: skip
    series = {name: Series(np.arange(6), np.asarray(one)) for name, one in values.items()}
    codes = [cause.code for cause in diagnose(Evidence(series=series, facts=Facts(optimizer=optimizer, loss=loss)))]

    assert ("learning_rate_too_high" in codes) is is_one


def test_how_far_weights_grew_is_told_in_few_digits():
    found = evidence(
        facts=of_loss(), loss=np.concatenate([[2.3, 7.0], np.full(STEPS - 2, 7.0)]),
        update_ratio=np.full(STEPS, 3.0), weight_norm=np.geomspace(1, 1.32e20, STEPS),
    )  # fmt: skip
    assert "the weights grew to 1.32e+20 times their size" in str(diagnose(found))


@pytest.mark.parametrize(("at_first", "first"), [(0.93, "saturated_units"), (0.5, "learning_rate_too_high")])
def test_units_at_their_bounds_before_any_step_were_not_led_there_by_steps(at_first, first):
    share = np.concatenate([[at_first], np.full(STEPS - 1, 0.95)])
    layers = (LayerFacts(name="tanh", kind="Tanh"), LayerFacts(name="head", kind="Linear"))
    found = evidence(
        facts=Facts(steps=STEPS, layers=layers, loss=LossFacts(kind="mse", reduction="mean")),
        loss=np.full(STEPS, 1.0), baseline_loss=np.full(STEPS, 1.0), update_ratio=np.full(STEPS, 0.3),
        tensors={"saturated": {"tanh": share}},
    )  # fmt: skip
    assert diagnose(found)[0].code == first


@pytest.mark.parametrize(("highest", "is_one"), [(2.6, False), (3.0, True)])
def test_weights_that_grow_have_been_thrown_about_only_if_the_loss_has_risen(highest, is_one):
    """A fresh layer begins with small weights: its first updates are large for them, and they grow while it learns."""
    loss = np.linspace(2.6, 1.9, STEPS)
    loss[STEPS // 4] = highest
    found = evidence(
        facts=of_loss(), loss=loss, update_ratio=np.linspace(0.11, 0.03, STEPS), weight_norm=np.linspace(1.8, 11, STEPS)
    )
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("last", "ratio", "is_one"), [(0.95, 1e-4, True), (0.5, 1e-4, False), (0.95, 1e-2, False)])
def test_a_loss_that_falls_to_that_of_a_constant_output_has_gained_nothing(last, ratio, is_one):
    found = evidence(
        facts=of_loss(kind="mse"), loss=np.linspace(1.4, last, STEPS), baseline_loss=np.full(STEPS, 1.0),
        update_ratio=np.full(STEPS, ratio),
        **{"validation/loss": np.linspace(1.4, last, STEPS), "total_norm/gradients": np.full(STEPS, 1.0)},
    )  # fmt: skip
    assert ("learning_rate_too_low" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("kind", "last_rate", "first"), [
    ("GRU", 0.1, "learning_rate_too_high"), ("GRU", 0.04, "missing_warmup"),
    ("MultiheadAttention", 0.1, "missing_warmup"),
])  # fmt: skip
def test_a_setback_is_a_missing_warm_up_where_training_begins_slowly_and_else_a_rate_too_high(kind, last_rate, first):
    """A model without attention, under a constant rate, has no first steps of their own."""
    loss = np.concatenate([[2.3, 2.3, 2.4], np.full(12, 8.0), np.geomspace(4, 1.2, STEPS - 15)])
    facts = Facts(
        steps=STEPS,
        optimizer="Adam",
        loss=LossFacts(kind="cross_entropy"),
        layers=(LayerFacts(name="cell", kind=kind),),
    )
    found = evidence(
        facts=facts, loss=loss, update_ratio=np.concatenate([[0.3], np.geomspace(0.09, 0.01, STEPS - 1)]),
        learning_rate=np.linspace(0.1, last_rate, STEPS),
    )  # fmt: skip
    assert next(cause.code for cause in diagnose(found)) == first


@pytest.mark.parametrize(("high", "is_one"), [(2, True), (1, False)])
def test_a_single_batch_with_a_large_loss_is_no_setback(high, is_one):
    loss = np.geomspace(2.0, 0.5, 300)
    loss[5:45] *= 1.2
    loss[20 : 20 + high] = 9.0
    facts = Facts(steps=300, optimizer="Adam", loss=LossFacts(kind="mse"))
    found = evidence(
        facts=facts, loss=loss, baseline_loss=np.full(300, 2.0), update_ratio=np.geomspace(0.09, 0.01, 300)
    )
    assert (setback(found) is not None) == is_one


@pytest.mark.parametrize(("counts", "is_one"), [(1.0, True), (50.0, False)])
def test_a_few_rare_targets_that_count_fifty_times_move_the_loss_by_themselves(counts, is_one):
    loss = np.concatenate([[0.7, 0.7, 0.8], np.full(12, 4.0), np.geomspace(1.5, 0.4, STEPS - 15)])
    found = evidence(
        facts=with_fields(
            of_loss(kind="bce_with_logits", positive_weight=counts), layers=(LayerFacts(name="fc", kind="Linear"),)
        ),
        loss=loss, baseline_loss=np.full(STEPS, 0.7),
        update_ratio=np.concatenate([[0.3], np.geomspace(0.2, 0.02, STEPS - 1)]),
        learning_rate=np.full(STEPS, 0.1),
    )  # fmt: skip
    assert bool({"learning_rate_too_high", "missing_warmup"} & {cause.code for cause in diagnose(found)}) == is_one


@pytest.mark.parametrize(("layers", "is_one"), [(1, False), (2, True)])
def test_the_weights_of_one_linear_layer_may_grow_from_wherever_they_began(layers, is_one):
    matrices = [ParameterFacts(name=f"{place}.weight", shape=(6, 6), std=0.2) for place in range(layers)]
    loss = np.linspace(2.6, 1.9, STEPS)
    loss[STEPS // 4] = 3.0
    found = evidence(
        facts=with_fields(of_loss(), parameters=tuple(matrices)), loss=loss, baseline_loss=np.full(STEPS, 2.6),
        update_ratio=np.linspace(0.11, 0.03, STEPS), weight_norm=np.linspace(1.8, 11, STEPS),
    )  # fmt: skip
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("last", "grown", "is_one"), [
    (0.12, 0.4, False), (0.15, 0.4, True), (0.012, 0.21, False), (0.012, 0.19, True),
])  # fmt: skip
def test_a_loss_that_rises_with_the_targets_that_a_model_makes_for_itself_has_not_blown_up(last, grown, is_one):
    """Values of states grow from nothing: the loss, of which the last fifth counts, stays below half their variance."""
    deviation = np.concatenate([np.full(3, 0.1), np.full(STEPS - 3, grown)])
    found = evidence(
        facts=of_loss(kind="smooth_l1"), loss=np.geomspace(0.001, last, STEPS), update_ratio=np.full(STEPS, 0.005),
        **{"targets/std": deviation},
    )  # fmt: skip
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("rates", "is_one"), [((0.9, 4.0, 4.0), True), ((0.9, 0.9, 4.0), False)])
def test_a_first_update_is_larger_than_the_weights_if_it_is_for_most_of_them(rates, is_one):
    """A table of embeddings is most of the norm: the update is below it, and far above all other weights."""
    parameters = tuple(ParameterFacts(name=f"{place}.weight", shape=(8, 8), std=0.1) for place in range(len(rates)))
    facts = Facts(steps=STEPS, parameters=parameters, loss=LossFacts(kind="cross_entropy", reduction="mean"))
    tensors = {f"{place}.weight": Series(np.arange(STEPS), np.geomspace(rate, 0.01, STEPS))
               for place, rate in enumerate(rates)}  # fmt: skip
    found = evidence(
        facts=facts, loss=np.concatenate([[2.3, 7.0], np.geomspace(2.2, 0.3, STEPS - 2)]),
        update_ratio=np.geomspace(0.9, 0.01, STEPS), weight_norm=np.linspace(1, 12, STEPS),
    )  # fmt: skip
    causes = diagnose(Evidence(series=found.series, tensors={"parameter_update_ratio": tensors}, facts=found.facts))
    assert ("learning_rate_too_high" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("last", "is_one"), [(1.6, False), (2.0, True)])
def test_gradients_that_reverse_say_little_while_the_loss_gets_on(last, is_one):
    """It falls to the end, by a quarter of its first value or more: steps jump across the valley, and along it."""
    found = evidence(
        facts=of_loss(kind=""), loss=np.linspace(2.3, last, STEPS), update_ratio=np.full(STEPS, 0.05),
        gradient_cosine=np.full(STEPS, -0.5),
    )  # fmt: skip
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("optimizer", "is_one"), [("RMSprop", False), ("Adam", True)])
def test_the_first_updates_of_rmsprop_are_larger_than_later_ones_of_the_same_rate(optimizer, is_one):
    """Ten times at first, as its mean of squares has a hundredth of them then."""
    steps = np.arange(STEPS)
    facts = Facts(
        steps=STEPS, optimizer=optimizer, groups=(GroupFacts(parameters=4, settings={"lr": 0.01, "alpha": 0.99}),),
        loss=LossFacts(kind="mse", reduction="mean"),
    )  # fmt: skip
    found = evidence(
        facts=facts, loss=np.full(STEPS, 1.0), update_ratio=0.08 / np.sqrt(1 - 0.99 ** (steps + 1)),
        baseline_loss=np.full(STEPS, 1.0),
    )  # fmt: skip
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("last", "norm", "is_one"), [(0.5, 1.0, False), (0.95, 1.0, True), (0.5, 3.0, True)])
def test_a_loss_that_was_falling_calmly_when_it_became_nan_did_not_blow_up(last, norm, is_one):
    """With gradients of the size that they had: the fault is that of one operator, however large the steps are."""
    loss = np.concatenate([np.geomspace(1.0, last, 20), np.full(STEPS - 20, np.nan)])
    norms = np.concatenate([np.ones(18), np.full(2, norm), np.full(STEPS - 20, np.nan)])
    found = evidence(
        facts=of_loss(kind=""), loss=loss, update_ratio=np.full(STEPS, 0.6), **{"total_norm/gradients": norms}
    )
    said = [text for cause in diagnose(found) for text in cause.against]
    assert any("with gradients no larger than before" in text for text in said) != is_one


@pytest.mark.parametrize(("others", "is_named"), [(0.079, True), (0.081, False)])
def test_of_several_optimizers_the_one_that_changes_its_weights_by_far_the_most_is_named(others, is_named):
    """From five times the updates of the others on; biases do not count."""
    rates = {"a.weight": 0.4, "b.weight": others, "b.bias": 5.0}
    parameters = tuple(
        ParameterFacts(name=name, shape=(8,) if "bias" in name else (8, 8), std=0.2, rate=f"learning_rate/{kind}")
        for name, kind in zip(rates, ("sgd", "adam", "adam"), strict=True)
    )
    facts = Facts(steps=STEPS, parameters=parameters, loss=LossFacts(kind="cross_entropy", reduction="mean"))
    tensors = {name: Series(np.arange(STEPS), np.full(STEPS, rate)) for name, rate in rates.items()}
    found = evidence(
        facts=facts, loss=np.linspace(2.3, 9.0, STEPS), update_ratio=np.full(STEPS, 0.4),
        **{"learning_rate/sgd": np.full(STEPS, 2.0), "learning_rate/adam": np.full(STEPS, 0.1)},
    )  # fmt: skip
    causes = diagnose(Evidence(series=found.series, tensors={"parameter_update_ratio": tensors}, facts=found.facts))
    (cause,) = [one for one in causes if one.code == "learning_rate_too_high"]
    assert ("a.weight" in cause.where) is is_named
    assert cause.advice.startswith("learning_rate/sgd: 2 →" if is_named else "lr: 2 →")


@pytest.mark.parametrize(
    ("optimizer", "lowest", "end", "is_one"),
    [
        (("SGD", 0.99, 0.0), 0.7, 0.95, True),
        (("SGD", 0.98, 0.0), 0.7, 0.95, False),
        (("SGD", 0.99, 0.9), 0.7, 0.95, False),
        (("Adam", 0.99, 0.0), 0.7, 0.95, False),
        (("SGD", 0.99, 0.0), 0.8, 0.95, False),
        (("SGD", 0.99, 0.0), 0.7, 0.85, False),
    ],
)
def test_a_momentum_near_one_carries_weights_past_the_valley(optimizer, lowest, end, is_one):
    """The loss falls by more than a quarter, and comes back to nine tenths of what it was."""
    name, momentum, dampening = optimizer
    settings = {"lr": 0.05, "momentum": momentum, "dampening": dampening}
    facts = Facts(
        steps=STEPS, optimizer=name, groups=(GroupFacts(parameters=4, settings=settings),),
        loss=LossFacts(kind="mse", reduction="mean"),
    )  # fmt: skip
    loss = np.concatenate([[1.0, 1.0, 1.0, 1.0, 1.0], np.full(20, lowest), np.full(STEPS - 25, end)])
    found = [cause for cause in diagnose(evidence(facts=facts, loss=loss)) if cause.code == "learning_rate_too_high"]
    assert bool(found) is is_one
    if is_one:
        assert "adds up 100 gradients, as a rate of 5 would" in found[0].evidence[0]
        assert found[0].advice == "momentum: 0.99 → 0.9, or a learning rate of 0.003."


@pytest.mark.parametrize(
    ("baseline", "last", "first", "is_one"),
    [(True, 1.3, 0.06, True), (False, 1.3, 0.06, False), (False, 1.9, 0.06, True), (True, 1.3, 0.04, False)],
    ids=str,
)
def test_units_that_died_show_harm_only_where_little_was_learnt(baseline, last, first, is_one):
    """How little that was is not known of a loss without a baseline that has fallen, and small steps kill no units."""
    signals = {"baseline_loss": np.full(STEPS, 2.3)} if baseline else {}
    found = evidence(
        facts=Facts(steps=STEPS), loss=np.linspace(2.0, last, STEPS),
        update_ratio=np.r_[first, np.full(STEPS - 1, 0.01)],
        tensors={"dead_units": {"0": np.linspace(0.05, 0.7, STEPS)}}, **signals,
    )  # fmt: skip
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found) if cause.is_likely]) == is_one


@pytest.mark.parametrize(("first", "last", "is_one"), [(0.0, 0.5, True), (0.25, 0.56, False), (0.25, 0.63, True)])
def test_a_layer_has_died_where_half_of_the_units_that_answered_did(first, last, is_one):
    """Some may never answer, as those that read pixels that are always empty."""
    found = evidence(facts=Facts(steps=STEPS), tensors={"dead_units": {"fc": np.r_[first, np.full(STEPS - 1, last)]}})
    assert (died(found) is not None) == is_one


@pytest.mark.parametrize(("optimizer", "kind", "late", "is_one"), [
    ("AdamW", "MultiheadAttention", 0.03, True), ("AdamW", "MultiheadAttention", 0.012, False),
    ("AdamW", "Linear", 0.03, False), ("SGD", "MultiheadAttention", 0.03, False),
])  # fmt: skip
def test_what_attends_takes_small_steps_of_adam(optimizer, kind, late, is_one):
    """As where the rate of a new head is that of the body, too; the loss falls by a third."""
    layers = (LayerFacts(name="mix", kind=kind), LayerFacts(name="head", kind="Linear"))
    facts = with_fields(of_loss(), optimizer=optimizer, layers=layers)
    updates = np.r_[np.geomspace(0.13, 2 * late, 5), np.full(STEPS - 5, late)]
    found = evidence(facts=facts, loss=np.geomspace(2.5, 1.6, STEPS), update_ratio=updates)
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("lowest", "is_one"), [(-0.3, False), (0.1, True)])
def test_the_weights_of_a_policy_may_grow_as_it_learns(lowest, is_one):
    """Nobody knows how much was learnt from a loss of both signs."""
    loss = np.where(np.arange(STEPS) % 2, lowest, 0.4)
    updates = np.r_[0.14, np.full(STEPS - 1, 0.02)]
    found = evidence(
        facts=of_loss(kind=""), loss=np.r_[0.3, 0.5, loss[2:]], update_ratio=updates,
        weight_norm=np.linspace(1, 3.5, STEPS),
    )  # fmt: skip
    assert ("learning_rate_too_high" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("update", "jump", "is_one"), [(1.6, 1.3, True), (1.4, 1.3, False), (1.6, 1.2, False)])
def test_an_update_of_more_than_most_matrices_loses_them_where_the_loss_rises_at_all(update, jump, is_one):
    """As Adam's first step at a rate for SGD, after which weights of the same size are learnt anew."""
    matrices = tuple(ParameterFacts(name=f"{place}.weight", shape=(32, 32), std=0.1) for place in range(3))
    loss = np.concatenate([[2.3, 2.3 * jump], np.geomspace(2.2, 0.5, STEPS - 2)])
    updates = np.concatenate([[update], np.geomspace(0.2, 0.01, STEPS - 1)])
    found = evidence(
        facts=with_fields(of_loss(), parameters=matrices), loss=loss, update_ratio=updates,
        tensors={"parameter_update_ratio": {one.name: updates for one in matrices}},
    )  # fmt: skip
    said = [text for cause in diagnose(found) for text in cause.evidence]
    assert any("the initialization is lost" in text for text in said) == is_one


@pytest.mark.parametrize(("step", "after", "first", "begins"), [
    (30, 3.0, 0.01, 30), (30, 0.4, 0.01, 0), (15, 3.0, 0.01, 0), (30, 3.0, 0.5, 0),
])  # fmt: skip
def test_a_rate_that_was_raised_later_is_too_high_since_then(step, after, first, begins):
    """To more than five times 0.1, after 20 steps and more; not where the first updates were too large already."""
    loss = np.r_[np.linspace(2.3, 1.5, step), np.geomspace(20, 900, STEPS - step)]
    found = evidence(
        facts=of_loss(), loss=loss, update_ratio=np.r_[first, np.full(STEPS - 1, 0.01)],
        learning_rate=np.r_[np.full(step, 0.1), np.full(STEPS - step, after)],
    )  # fmt: skip
    cause = next(cause for cause in diagnose(found) if cause.code == "learning_rate_too_high")
    assert (cause.since_step == step) == (begins == step)
    assert (f"{after:g} → 0.1, which it was until step {step}" in cause.advice) == (begins == step)
