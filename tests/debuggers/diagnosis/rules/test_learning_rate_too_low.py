"""Signs of steps that are too small, beside those of which each cause has one in the tests of all rules."""

import msgspec
import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import GroupFacts, LayerFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series


def _held_back(*, groups, gradient=0.05, learnt=0.05, moved=(1e-6, 1e-3), std=0.0721, steps=2 * STEPS):
    """Two layers, the first of 64 inputs and most of the weights, under Adam, whose loss falls by some share."""
    facts = msgspec.structs.replace(
        of_loss(), optimizer="Adam", groups=tuple(GroupFacts(settings=one) for one in groups),
        parameters=(ParameterFacts(name="0.weight", shape=(32, 64), std=std),
                    ParameterFacts(name="1.weight", shape=(10, 32), std=0.1)),
        layers=(LayerFacts(name="0", kind="Linear"), LayerFacts(name="1", kind="Linear")),
    )  # fmt: skip
    at = np.arange(steps)

    def flat(value):
        return Series(at, np.full(steps, value))

    return Evidence(
        facts=facts,
        series={
            "loss": Series(at, np.linspace(2.3, 2.3 * (1 - learnt), steps)), "baseline_loss": flat(2.3),
            "update_ratio": flat(2e-3), "total_norm/gradients": flat(1.0),
        },
        tensors={
            "gradient_rms": {"0.weight": flat(gradient), "1.weight": flat(gradient)},
            "parameter_update_ratio": {"0.weight": flat(moved[0]), "1.weight": flat(moved[1])},
        },
    )  # fmt: skip


@pytest.mark.parametrize(("last", "is_one"), [(1.0, False), (1e-3, True)])
def test_a_rate_that_is_searched_for_says_nothing_of_a_training(last, is_one):
    """It rises from 1e-5, and gradients explode at its end."""
    norms = np.ones(STEPS)
    norms[-3:] = 1e5
    found = evidence(
        facts=of_loss(), loss=np.full(STEPS, 2.3), baseline_loss=np.full(STEPS, 2.3),
        update_ratio=np.full(STEPS, 1e-6), learning_rate=np.geomspace(1e-5, last, STEPS),
        **{"total_norm/gradients": norms},
    )  # fmt: skip
    codes = {cause.code for cause in diagnose(found)}
    assert bool(codes & {"learning_rate_too_low", "exploding_gradients"}) == is_one


@pytest.mark.parametrize(("first", "late", "is_one"), [(1e-2, 1e-6, False), (1e-2, 1e-2, True), (1e-6, 1e-6, True)])
def test_steps_are_small_where_a_training_has_arrived(first, late, is_one):
    """Noise of the targets keeps the loss high, and of one batch the gradients come to nothing."""
    fall = np.r_[np.ones(12), np.full(STEPS - 12, late / first)]
    found = evidence(
        facts=of_loss(kind="mse"), loss=np.r_[1.3, np.full(STEPS - 1, 1.1)], baseline_loss=np.full(STEPS, 1.2),
        update_ratio=np.r_[np.full(12, first), np.full(STEPS - 12, 1e-7)], **{"total_norm/gradients": fall},
    )  # fmt: skip
    assert ("learning_rate_too_low" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("kind", "is_one"), [("Embedding", False), ("Linear", True)])
def test_of_a_table_most_rows_stay_as_they_are_in_a_step(kind, is_one):
    found = evidence(
        facts=msgspec.structs.replace(
            of_loss(), layers=(LayerFacts(name="0", kind=kind), LayerFacts(name="1", kind="Linear")),
            parameters=tuple(ParameterFacts(name=f"{place}.weight", shape=(32, 64), std=0.1) for place in range(2)),
        ),
        loss=np.linspace(0.7, 0.5, STEPS), update_ratio=np.full(STEPS, 1e-6),
        tensors={"parameter_update_ratio": {"0.weight": np.full(STEPS, 1e-6), "1.weight": np.full(STEPS, 1e-2)}},
        **{"total_norm/gradients": np.ones(STEPS)},
    )  # fmt: skip
    assert ("learning_rate_too_low" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("epsilon", "gradient", "learnt", "steps", "is_one"), [
    (1.0, 0.05, 0.05, 120, True), (1.0, 0.2, 0.05, 120, False), (1e-8, 1e-10, 0.05, 120, False),
    (1.0, 0.05, 0.3, 120, False), (1.0, 0.05, 0.05, 60, False),
])  # fmt: skip
def test_an_epsilon_that_outweighs_the_gradients_makes_steps_small(epsilon, gradient, learnt, steps, is_one):
    """It must be ten times as large, chosen, and little be learnt in more than a trial of the loop."""
    found = _held_back(groups=[{"lr": 1e-3, "eps": epsilon}], gradient=gradient, learnt=learnt, steps=steps)
    causes = {cause.code: cause for cause in diagnose(found)}
    assert ("learning_rate_too_low" in causes) == is_one
    if is_one:
        assert causes["learning_rate_too_low"].advice == "eps: 1 → 1e-08, which is far below the gradients."


@pytest.mark.parametrize(("rates", "moved", "std", "learnt", "is_one"), [
    ((1e-7, 1e-3), 1e-6, 0.0721, 0.05, True),
    ((1e-3, 1e-3), 1e-6, 0.0721, 0.05, False),  # not the rates hold them back
    ((1e-7, 1e-3), 2e-4, 0.0721, 0.05, False),
    ((1e-7, 1e-3), 1e-6, 0.2, 0.05, False),  # trained before
    ((1e-7, 1e-3), 1e-6, 0.0721, 0.3, False),
])  # fmt: skip
def test_rates_by_layer_hold_back_only_layers_that_nothing_has_trained(rates, moved, std, learnt, is_one):
    groups = [{"lr": rate, "eps": 1e-8} for rate in rates]
    found = _held_back(groups=groups, moved=(moved, 1e-3), std=std, learnt=learnt)
    causes = {cause.code: cause for cause in diagnose(found)}
    assert ("learning_rate_too_low" in causes) == is_one
    if is_one:
        assert causes["learning_rate_too_low"].advice.startswith("One learning rate for all layers")


@pytest.mark.parametrize(("first", "is_one"), [(0.07, True), (0.4, False)])
def test_a_loss_of_both_signs_falls_only_beyond_its_noise(first, is_one):
    """That of a policy begins anywhere: from 0.07 it comes to -0.03 by chance."""
    noise = 0.08 * np.random.default_rng(0).normal(size=STEPS)
    noise[:3] = 0.0
    found = evidence(
        facts=of_loss(kind=""), loss=np.geomspace(first, first / 100, STEPS) - 0.03 + noise,
        update_ratio=np.full(STEPS, 5e-6), **{"total_norm/gradients": np.ones(STEPS)},
    )  # fmt: skip
    assert ("learning_rate_too_low" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("ratio", "first"), [(5e-6, "learning_rate_too_low"), (0.02, "target_out_of_range")])
def test_what_weights_began_with_is_no_cause_where_they_stay(ratio, first):
    ends = {"targets/min": 0.0, "targets/max": 300.0, "targets/mean": 150.0, "targets/std": 80.0}
    ends |= {"outputs/min": -0.2, "outputs/max": 0.3, "outputs/mean": 0.0, "outputs/std": 0.1}
    signals = {name: np.full(STEPS, value) for name, value in ends.items()}
    found = evidence(
        facts=of_loss(kind="mse"), **signals, update_ratio=np.full(STEPS, ratio),
        **{"total_norm/gradients": np.ones(STEPS)},
    )  # fmt: skip
    assert diagnose(found)[0].code == first


@pytest.mark.parametrize(("ratio", "cosine", "repeated", "is_one"), [
    (4e-4, 0.95, 0.0, True), (4e-4, 0.85, 0.0, False), (9e-4, 0.95, 0.0, False),  # that comes to a tenth of the weights
    (4e-4, 0.95, 1.0, False),  # gradients of one batch are the same
])  # fmt: skip
def test_batches_that_all_want_the_same_to_the_end_would_take_larger_steps(ratio, cosine, repeated, is_one):
    at = np.arange(2 * STEPS)
    values = {
        "update_ratio": ratio,
        "gradient_cosine": cosine,
        "inputs/repeated": repeated,
        "total_norm/gradients": 1.0,
    }
    series = {name: Series(at, np.full(2 * STEPS, value)) for name, value in values.items()}
    series["loss"] = Series(at, np.linspace(2.3, 1.9, 2 * STEPS))
    causes = [cause.code for cause in diagnose(Evidence(series=series, facts=of_loss()))]
    assert ("learning_rate_too_low" in causes) == is_one


@pytest.mark.parametrize(("initial", "rates", "is_one"), [
    (0.01, (1e-4, 1e-4), True), (0.01, (2e-4, 2e-4), False), (1.0, (1.0, 1.0), False),
    (0.01, (1e-4, 1e-2), False),  # it warms up
])  # fmt: skip
def test_a_rate_that_is_its_own_square_was_multiplied_with_itself(initial, rates, is_one):
    groups = (GroupFacts(settings={"lr": rates[0]}, initial_rate=initial),)
    causes = diagnose(evidence(
        facts=msgspec.structs.replace(of_loss(), groups=groups, optimizer="SGD"), loss=np.linspace(2.3, 2.2, STEPS),
        update_ratio=np.full(STEPS, 2e-5), learning_rate=np.linspace(*rates, STEPS),
    ))  # fmt: skip
    found = [cause for cause in causes if cause.advice.startswith("LambdaLR multiplies")]
    assert len(found) == is_one
    if is_one:
        assert any(f"the square of the optimizer's {initial:g}" in text for text in found[0].evidence)


@pytest.mark.parametrize(("ratio", "last", "is_one"), [(5e-6, 9.0, True), (2e-3, 9.0, False), (5e-6, np.nan, False)])
def test_a_loss_that_rises_while_weights_stand_still_was_not_thrown_up_by_its_updates(ratio, last, is_one):
    """A game that lasts longer pays more, so that the errors of its values grow: steps of 5e-6 did not do that."""
    loss = np.r_[np.full(STEPS // 2, 2.0), np.linspace(8.0, last, STEPS // 2)]
    found = evidence(facts=of_loss(kind="mse"), loss=loss, update_ratio=np.full(STEPS, ratio),
                     **{"total_norm/gradients": np.ones(STEPS)})  # fmt: skip
    assert ("learning_rate_too_low" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("right", "last", "is_one"), [
    (0.6, 0.02, True), (0.6, 0.0101, False), (0.25, 0.02, False), (0.6, 0.3, False),
])  # fmt: skip
def test_scores_that_choose_rightly_and_hardly_differ_take_larger_steps(right, last, is_one):
    """A probe of weights near zero, which each step changes by a usual share; the most frequent class has 0.12."""
    made = evidence(
        facts=of_loss(), loss=np.linspace(2.303, 2.27, STEPS), baseline_loss=np.full(STEPS, 2.3),
        update_ratio=np.full(STEPS, 6e-3), accuracy=np.linspace(0.1, right, STEPS),
        **{"total_norm/gradients": np.full(STEPS, 0.2), "outputs/std": np.linspace(0.01, last, STEPS),
           "targets/top_share_so_far": np.full(STEPS, 0.12)},
    )  # fmt: skip
    assert ("learning_rate_too_low" in [cause.code for cause in diagnose(made)]) == is_one


@pytest.mark.parametrize(("ratio", "first"), [
    (4e-4, "learning_rate_too_low"), (6e-4, "labels_unrelated"), (9e-4, "labels_unrelated"),
])  # fmt: skip
def test_weights_that_hardly_moved_say_nothing_of_the_labels(ratio, first):
    """300 steps come to 12 %, 18 % and 27 % of the weights' size, and the loss stays at a constant output's."""
    steps = 300
    made = evidence(
        facts=of_loss(), loss=2.3 + 0.1 * np.sin(np.arange(steps)), baseline_loss=np.full(steps, 2.3),
        update_ratio=np.full(steps, ratio), accuracy=np.full(steps, 0.1), gradient_cosine=np.zeros(steps),
        **{"total_norm/gradients": np.full(steps, 1.0), "outputs/batch_std": np.full(steps, 0.3),
           "targets/top_share_so_far": np.full(steps, 0.12)},
    )  # fmt: skip
    assert diagnose(made)[0].code == first


@pytest.mark.parametrize(("ratio", "steps", "last", "is_one"), [
    (1.2e-3, 150, 2.2, True), (1.2e-3, 250, 2.2, False), (1.6e-3, 150, 2.2, False), (1.2e-3, 150, 1.8, False),
    (1.2e-3, 150, 2.27, False),
])  # fmt: skip
def test_steps_at_the_lower_end_of_what_is_usual_may_be_too_small_where_the_loss_creeps(ratio, steps, last, is_one):
    """150 steps of 0.12 % come to 18 % of the weights' size at most, 250 to 30 %."""
    at, alive = np.arange(steps), np.full(steps, 1.0)
    values = {"loss": np.linspace(2.3, last, steps), "baseline_loss": np.full(steps, 2.3),
              "update_ratio": np.full(steps, ratio), "total_norm/gradients": alive}  # fmt: skip
    found = Evidence(series={name: Series(at, one) for name, one in values.items()}, facts=of_loss())
    assert ("learning_rate_too_low" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("last", "text"), [(2.3035, "from 2.304 to 2.303"), (2.31, "from 2.3 to 2.31")])
def test_a_loss_that_hardly_moves_is_told_in_digits_that_show_it(last, text):
    found = evidence(
        facts=of_loss(), loss=np.r_[np.full(3, 2.304 if last < 2.305 else 2.3), np.full(2 * STEPS - 3, last)],
        update_ratio=np.full(2 * STEPS, 2e-4), **{"total_norm/gradients": np.full(2 * STEPS, 0.5)},
    )  # fmt: skip
    (cause,) = [one for one in diagnose(found) if one.code == "learning_rate_too_low"]

    assert any(f"and the loss went {text}" in one for one in cause.evidence)
