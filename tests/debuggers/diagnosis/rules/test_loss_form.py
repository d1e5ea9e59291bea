"""Signs of a loss that is minimised where it should be maximised."""

import numpy as np
import pytest
import torch
from made_evidence import STEPS, evidence, of_loss
from msgspec.structs import replace as with_fields

import stepscope
from debuggers.diagnosis.cause import LIKELY
from debuggers.diagnosis.facts import BatchFacts, Facts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.rules.loss_form import flipped_loss_sign


def _varying_against(kind, end):
    return evidence(
        facts=of_loss(kind=kind, negated=kind == "rmse"), loss=np.linspace(0, -3, STEPS),
        correlation=np.linspace(0.1, end, STEPS),
    )  # fmt: skip


@pytest.mark.parametrize(("kind", "end", "is_one"), [("", -0.9, True), ("", -0.4, False), ("mse", -0.9, False)])
def test_outputs_that_come_to_vary_against_the_targets_show_a_flipped_sign(kind, end, is_one):
    codes = {cause.code for cause in diagnose(_varying_against(kind, end))}

    assert ("flipped_loss_sign" in codes) == is_one


@pytest.mark.parametrize(("nodes", "is_one"), [
    (("LogcumsumexpBackward0", "IndexBackward0"), False), (("SubBackward0", "ExpBackward0"), False),
    (("SubBackward0", "ExpandBackward0"), True),
])  # fmt: skip
def test_risks_and_hazards_may_fall_with_the_times_that_they_are_told_of(nodes, is_one):
    found = evidence(
        facts=of_loss(kind="", nodes=("MeanBackward0", *nodes)), loss=np.linspace(3, 1, STEPS),
        correlation=np.linspace(0.1, -0.9, STEPS),
    )  # fmt: skip
    assert [cause.code for cause in diagnose(found)] == ["flipped_loss_sign"] * is_one


@pytest.mark.parametrize(("lowest", "node", "is_one"), [
    (0.1, "NegBackward0", False), (-0.1, "NegBackward0", True), (0.1, "AddmmBackward0", True),
])  # fmt: skip
def test_of_distances_the_smallest_is_the_answer(lowest, node, is_one):
    """The loss takes their negatives, and the outputs are right less often than by chance."""
    shape = (64, 10)
    facts = of_loss(nodes=("NllLossBackward0", "LogSoftmaxBackward0", node), outputs_shape=shape, targets_shape=(64,))
    signals = {"accuracy": 0.0, "targets/top_share_so_far": 0.12, "targets/classes_so_far": 10.0,
               "inputs/batch_size": 64.0, "outputs/min": lowest}  # fmt: skip
    found = evidence(
        facts=with_fields(facts, outputs=BatchFacts(shape=shape)), loss=np.geomspace(2.3, 0.1, STEPS),
        **{name: np.full(STEPS, value) for name, value in signals.items()},
    )  # fmt: skip
    assert ("flipped_loss_sign" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize("negated", [True, False])
def test_a_cosine_that_is_minimised_has_the_wrong_sign(negated):
    codes = [cause.code for cause in diagnose(evidence(facts=of_loss(kind="cosine", negated=negated)))]

    assert ("flipped_loss_sign" in codes) == negated


@pytest.mark.parametrize(("negated", "terms", "is_one"), [(True, 1, True), (False, 1, False), (True, 2, False)])
def test_decibels_are_no_loss(negated, terms, is_one):
    loss = np.linspace(6, -50, STEPS) if negated else np.linspace(-6, -20, STEPS)
    causes = diagnose(evidence(facts=of_loss(kind="log_mse", negated=negated, terms=terms), loss=loss))

    assert ("flipped_loss_sign" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("end", "terms", "correlation", "is_one"), [
    (-400.0, 2, 0.1, True), (-200.0, 2, 0.1, False), (-400.0, 1, 0.1, False), (-400.0, 2, 0.5, False),
])  # fmt: skip
def test_a_loss_of_several_terms_that_dives_has_one_with_the_wrong_sign(end, terms, correlation, is_one):
    loss = np.linspace(0, 1, STEPS) ** 2 * (end - 2.0) + 2.0
    found = evidence(facts=of_loss(kind="", terms=terms), loss=loss, correlation=np.full(STEPS, correlation))
    assert ("flipped_loss_sign" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("classes", "is_one"), [(1.0, False), (10.0, True)])
def test_an_accuracy_is_below_chance_only_where_there_are_classes_to_choose_from(classes, is_one):
    of_ones = {"accuracy": np.zeros(STEPS), "targets/classes_so_far": np.full(STEPS, classes)}
    of_ones |= {"targets/max": np.ones(STEPS), "inputs/batch_size": np.full(STEPS, 64.0)}
    codes = [cause.code for cause in diagnose(evidence(facts=of_loss(kind="", negated=True), **of_ones))]
    assert ("flipped_loss_sign" in codes) == is_one


@pytest.mark.parametrize(("power", "end", "is_one"), [(3, -400.0, True), (1, -400.0, False), (3, -90.0, False)])
def test_a_loss_that_falls_faster_and_faster_without_a_bound_has_the_wrong_sign(power, end, is_one):
    """A loss in a straight line, or one that has not gone far, may still come to its lowest value."""
    loss = np.linspace(0, 1, STEPS) ** power * (end + 1.0) - 1.0
    codes = [cause.code for cause in diagnose(evidence(facts=of_loss(kind="", reduction=""), loss=loss))]

    assert ("flipped_loss_sign" in codes) == is_one


@pytest.mark.parametrize(("noise", "is_one"), [(0.002, False), (1e-7, True)])
def test_a_loss_that_begins_within_its_noise_falls_to_no_multiple_of_its_first_value(noise, is_one):
    """A policy's loss is zero but for rounding where its advantages are centred, and swings about zero from there."""
    course = np.linspace(0, 1, STEPS) ** 3 * -0.003
    swings = np.tile([0, 0, 0, -1, -1, 1, -1, 1, -1, 1], STEPS // 10) * noise
    found = evidence(facts=of_loss(kind="", reduction=""), loss=course + swings - 2e-7)

    assert ("flipped_loss_sign" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("nodes", "is_one"), [
    (("SubBackward0", "MeanBackward0", "AddmmBackward0"), False), (("NegBackward0", "MeanBackward0"), False),
    (("NegBackward0", "MeanBackward0", "PowBackward0", "AddmmBackward0"), True), ((), True),
])  # fmt: skip
def test_a_difference_of_mean_scores_falls_below_zero_as_it_should(nodes, is_one):
    """As that of a Wasserstein critic, and the negative of an actor's values."""
    loss = np.linspace(0, 1, STEPS) ** 3 * -0.003 - 2e-7
    found = evidence(facts=of_loss(kind="", nodes=nodes), loss=loss)

    assert ("flipped_loss_sign" in [cause.code for cause in diagnose(found)]) == is_one


def test_a_cross_entropy_far_below_zero_breaks_no_rule(caplog):
    found = evidence(
        facts=Facts(steps=STEPS, loss=LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(32, 10)),
                    outputs=BatchFacts(shape=(32, 10))),
        loss=np.linspace(-2, -9e3, STEPS), accuracy=np.full(STEPS, 0.05),
        **{"targets/top_share_so_far": np.full(STEPS, 0.1)},
    )  # fmt: skip
    diagnose(found)
    assert not caplog.records


def test_a_loss_that_never_was_a_number_breaks_no_rule(caplog):
    diagnose(evidence(facts=Facts(steps=STEPS, loss=LossFacts()), loss=np.full(STEPS, np.nan)))
    assert not caplog.records


@pytest.mark.parametrize(("first", "last", "norm", "is_one"), [
    (-1.8, -60, 40, True), (-1.8, -60, 5, False), (-0.05, -0.9, 40, False), (-0.05, -25, 40, True),
])  # fmt: skip
def test_a_loss_without_a_bound_steepens_on_its_way_down(first, last, norm, is_one):
    """A share or a cosine is never below -1; gradients grow to ten times their norm where nothing ends the fall."""
    loss = np.interp(np.linspace(0, 1, STEPS), [0, 0.7, 0.85, 1], [first, 2 * first, last, last])
    found = evidence(
        facts=of_loss(kind=""), loss=loss, **{"total_norm/gradients": np.geomspace(1, norm, STEPS)},
    )  # fmt: skip
    assert ("flipped_loss_sign" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("course", "norm", "spread", "node", "is_one"), [
    ("straight", 6, 20, "Maximum", True), ("slowing", 6, 20, "Maximum", False), ("straight", 2, 20, "Maximum", False),
    ("straight", 6, 5, "Maximum", False), ("straight", 6, 20, "Sub", False), ("above zero", 6, 20, "Maximum", False),
])  # fmt: skip
def test_what_falls_below_zero_and_never_slows_while_outputs_grow_has_no_lowest_value(
    course, norm, spread, node, is_one
):
    """As a quantile's loss with a minus sign does; a density's likelihood slows down, a critic's scores are linear."""
    way = np.linspace(0, 1, STEPS) if course != "slowing" else 1 - np.geomspace(1, 0.01, STEPS)
    found = evidence(
        facts=Facts(steps=STEPS, loss=LossFacts(nodes=("NegBackward0", "MeanBackward0", f"{node}Backward0"))),
        loss=(8.0 if course == "above zero" else -0.4) - 5 * way,
        **{"total_norm/gradients": np.geomspace(1, norm, STEPS), "outputs/std": np.geomspace(0.3, 0.3 * spread, STEPS)},
    )
    causes = diagnose(found)
    assert any("does not slow down" in text for cause in causes for text in cause.evidence) == is_one
    assert not is_one or causes[0].code == "flipped_loss_sign"


@pytest.mark.parametrize(("negated", "before", "classes", "is_one"), [
    (True, "sigmoid", 2, True), (False, "sigmoid", 2, False), (True, "sigmoid", 0, False), (True, "softmax", 0, True),
])  # fmt: skip
def test_an_overlap_that_is_minimised_has_the_wrong_sign(negated, before, classes, is_one):
    """Unless it is of costs, which are not 0 and 1."""
    found = evidence(
        facts=of_loss(kind="overlap", reduction="none", negated=negated, before=before),
        **({"targets/classes": np.full(STEPS, classes)} if classes else {}),
    )
    assert ("flipped_loss_sign" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("role", "is_one"), [("without_gradient", False), ("trained", True)])
def test_an_accuracy_below_chance_says_nothing_of_a_model_that_nothing_trains(role, is_one):
    weight = ParameterFacts(name="0.weight", shape=(8, 8), std=0.2, role=role)
    facts = Facts(steps=STEPS, parameters=(weight,), loss=LossFacts(kind="cross_entropy", reduction="mean"))
    found = evidence(facts=facts, accuracy=np.zeros(STEPS), **{
        "targets/classes_so_far": np.full(STEPS, 3.0), "outputs/batch_size": np.full(STEPS, 64.0),
    })  # fmt: skip
    assert ("flipped_loss_sign" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("optimizer", "is_one"), [("SGD", True), ("Adam", False), ("Adagrad", False)])
def test_a_sum_is_no_reason_for_an_optimizer_that_divides_by_the_gradients_size(optimizer, is_one):
    facts = with_fields(of_loss(reduction="sum", outputs_shape=(32, 10)), optimizer=optimizer)
    signals = {"inputs/batch_size": np.full(STEPS, 32.0), "update_ratio": np.full(STEPS, 0.5)}
    causes = diagnose(evidence(facts=facts, **signals))
    assert ("loss_sum_not_mean" in [cause.code for cause in causes]) is is_one


@pytest.mark.parametrize(("temperature", "is_one"), [(1.0, True), (4.0, True), (20.0, False)])
def test_what_undoes_a_temperature_makes_no_sum_of_a_mean(temperature, is_one):
    """``kl_div(..., reduction="batchmean") * 400``: 12.5 times a sum."""
    facts = of_loss(kind="kl_div", reduction="sum", factor=12.5, temperature=temperature, outputs_shape=(32, 10))
    signals = {"inputs/batch_size": np.full(STEPS, 32.0), "update_ratio": np.full(STEPS, 0.5)}
    causes = diagnose(evidence(facts=facts, **signals))
    assert ("loss_sum_not_mean" in [cause.code for cause in causes]) is is_one


@pytest.mark.parametrize(("ratio", "is_one"), [(0.15, True), (0.05, False), (1e-5, False)])
def test_a_sum_at_a_rate_to_match_is_not_what_keeps_the_loss_up(ratio, is_one):
    facts = of_loss(reduction="sum", outputs_shape=(32, 10))
    signals = {"inputs/batch_size": np.full(STEPS, 32.0), "update_ratio": np.full(STEPS, ratio)}
    causes = diagnose(evidence(facts=facts, loss=np.full(STEPS, 74.0), **signals))
    assert ("loss_sum_not_mean" in [cause.code for cause in causes]) is is_one


@pytest.mark.parametrize(("last", "is_one"), [(2.3, True), (1.0, False)])
def test_an_accuracy_below_chance_says_nothing_where_the_loss_falls(last, is_one):
    """A margin may be taken from the logit of each target, as in ArcFace."""
    values = {"accuracy": 0.0, "baseline_loss": 2.3, "targets/classes_so_far": 10.0, "inputs/batch_size": 64.0}
    signals = {name: np.full(STEPS, value) for name, value in values.items()}
    causes = diagnose(evidence(facts=of_loss(), loss=np.linspace(2.3, last, STEPS), **signals))
    assert ("flipped_loss_sign" in [cause.code for cause in causes]) is is_one


@pytest.mark.parametrize(("outputs", "targets", "is_one"), [
    ((8, 64, 64), (64, 64), False), ((64, 64), (64,), True), ((64, 1), (64,), True), ((8, 64, 32), (64, 1), True),
])  # fmt: skip
def test_several_samples_may_be_compared_with_each_row_of_targets(outputs, targets, is_one):
    facts = of_loss(kind="bce_with_logits", broadcast=True, outputs_shape=outputs, targets_shape=targets)

    assert ("shape_broadcast" in [cause.code for cause in diagnose(evidence(facts=facts))]) is is_one


@pytest.mark.parametrize(("weighted", "targets", "is_one"), [
    (True, (64, 1), False), (False, (64, 1), True), (True, (64,), True),
])  # fmt: skip
@pytest.mark.parametrize("broadcast", [True, False])
def test_several_levels_of_a_row_may_be_compared_with_its_one_target(weighted, targets, is_one, broadcast):
    """As quantiles are, each with a weight of its own."""
    facts = of_loss(
        kind="smooth_l1", broadcast=broadcast, weighted=weighted, outputs_shape=(64, 8), targets_shape=targets
    )

    assert ("shape_broadcast" in [cause.code for cause in diagnose(evidence(facts=facts))]) is is_one


@pytest.mark.parametrize(("largest", "is_one"), [(0.9, True), (5.0, False)])
def test_an_accuracy_below_chance_is_none_of_weights_that_were_thrown_away(largest, is_one):
    signals = {"accuracy": 0.01, "targets/classes_so_far": 3.0, "targets/top_share_so_far": 0.34}
    found = evidence(
        loss=np.geomspace(1.1, 1e30, STEPS), facts=of_loss(kind="cross_entropy"),
        update_ratio=np.r_[largest, np.full(STEPS - 1, 0.5)],
        **{name: np.full(STEPS, value) for name, value in signals.items()},
    )  # fmt: skip
    codes = [cause.code for cause in diagnose(found)]
    assert ("flipped_loss_sign" in codes) == is_one
    assert codes[0] == ("flipped_loss_sign" if is_one else "learning_rate_too_high")


@pytest.mark.parametrize(
    ("right", "level", "expected"),
    [
        (0.0, 0.5, ["flipped_loss_sign"]),
        (0.019, 0.5, ["wrong_output_or_loss"]),  # as often as by chance: in another order
        (0.0, 3.9, []),  # nothing was learnt
    ],
)
def test_a_loss_that_falls_while_outputs_are_right_less_often_than_by_chance_wants_them_small(right, level, expected):
    """One of 50 is each row's own, as where distances are taken for scores."""
    shape = (50, 50)
    facts = Facts(
        steps=STEPS, outputs=BatchFacts(shape=shape),
        loss=LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=shape, targets_shape=(50,)),
    )  # fmt: skip
    signals = {"accuracy": right, "inputs/batch_size": 50.0, "targets/top_share_so_far": 0.02}
    made = evidence(
        facts=facts,
        loss=np.geomspace(3.91, level, STEPS),
        **{name: np.full(STEPS, one) for name, one in signals.items()},
    )
    assert [cause.code for cause in diagnose(made)] == expected


@pytest.mark.parametrize(("nodes", "end", "is_one"), [
    (("MeanBackward0", "DiagonalBackward0", "LogSoftmaxBackward0", "MmBackward0"), -6.0, True),
    (("DivBackward0", "SumBackward0", "GatherBackward0", "LogSoftmaxBackward0", "AddmmBackward0"), -6.0, True),
    (("MeanBackward0", "LogSigmoidBackward0", "AddmmBackward0"), -6.0, True),
    (("MeanBackward0", "DiagonalBackward0", "LogSoftmaxBackward0", "MmBackward0"), -1.0, False),
    (("NegBackward0", "MeanBackward0", "LogSigmoidBackward0", "AddmmBackward0"), -6.0, False),
    (("MeanBackward0", "MulBackward0", "GatherBackward0", "LogSoftmaxBackward0", "AddmmBackward0"), -6.0, False),
    (("MeanBackward0", "LogBackward0", "AddmmBackward0"), -6.0, False),
])  # fmt: skip
def test_a_likelihood_that_falls_is_minimised(nodes, end, is_one):
    """What weighs it may have either sign, as a policy's gains."""
    facts = Facts(steps=STEPS, loss=LossFacts(nodes=nodes, reduction="mean"))
    causes = diagnose(evidence(facts=facts, loss=-2.3 + (end + 2.3) * (1 - np.geomspace(1.0, 0.01, STEPS))))
    assert any("is the likelihood" in text for cause in causes for text in cause.evidence) == is_one
    assert ("flipped_loss_sign" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("form", "end", "norm", "is_one"), [
    ({"kind": "mse", "terms": 2}, -2000.0, 40, True), ({"kind": "mse", "terms": 2}, -1000.0, 40, False),
    ({"kind": "mse", "terms": 2}, -2000.0, 5, False),
    ({"kind": "", "nodes": ("MeanBackward0", "SubBackward0")}, -2000.0, 40, True),
])  # fmt: skip
def test_a_loss_that_dives_while_its_gradients_grow_has_no_lowest_value(form, end, norm, is_one):
    """As one that is paid for a divergence, or of which the likelihood is minimised; it need not become faster."""
    loss = np.linspace(17.0, end, STEPS)
    loss[:5] = 17.0
    found = evidence(facts=of_loss(**form), loss=loss, **{"total_norm/gradients": np.geomspace(1, norm, STEPS)})
    causes = diagnose(found)
    assert any("gradients have grown on the way" in text for cause in causes for text in cause.evidence) == is_one


@pytest.mark.parametrize(("distances", "last", "is_one"), [(True, 2.2, True), (True, 0.1, False), (False, 2.2, False)])
def test_distances_without_a_minus_are_a_flipped_sign_unless_the_farthest_comes_to_be_right(distances, last, is_one):
    found = evidence(
        facts=of_loss(distances=distances), loss=np.geomspace(2.3, last, STEPS), baseline_loss=np.full(STEPS, 2.3)
    )
    assert ([cause.code for cause in diagnose(found)] == ["flipped_loss_sign"]) == is_one


def test_losses_of_rows_that_are_broadcast_with_weights_are_told_as_such():
    facts = of_loss(broadcast=True, weighted=True, outputs_shape=(32, 3), targets_shape=(32,))
    (cause,) = diagnose(evidence(facts=facts))
    assert (cause.code, "losses of 32 rows" in cause.evidence[0]) == ("shape_broadcast", True)
    assert "weights.squeeze(-1)" in cause.advice


@pytest.mark.parametrize(("outputs", "is_one"), [((32, 1), True), ((32, 3), False)])
def test_chosen_probabilities_that_meet_the_gains_of_all_rows_are_broadcast(outputs, is_one):
    """One column is no set of levels that share a target, and have weights of their own."""
    facts = of_loss(kind="", broadcast=True, weighted=True, outputs_shape=outputs, targets_shape=(32, 1))
    assert ("shape_broadcast" in [cause.code for cause in diagnose(evidence(facts=facts))]) is is_one


@pytest.mark.parametrize(("terms", "ratio", "last", "is_one"), [
    (20, 1.2, 120.0, True), (20, 0.05, 120.0, False), (4, 1.2, 120.0, False), (20, 0.17, 10.0, False),
])  # fmt: skip
def test_means_of_many_positions_that_a_loop_adds_up_are_a_sum(terms, ratio, last, is_one):
    """Where the rate is one for a sum, they are learnt."""
    facts = with_fields(of_loss(terms=terms, outputs_shape=(32, 98), targets_shape=(32,)), optimizer="SGD")
    updates = np.r_[np.full(10, ratio), np.full(STEPS - 10, 0.04)]
    causes = diagnose(evidence(facts=facts, loss=np.linspace(92.0, last, STEPS), update_ratio=updates))
    assert ("loss_sum_not_mean" in [cause.code for cause in causes]) is is_one


@pytest.mark.parametrize(("of", "end", "likely"), [
    ({}, 2.3, True), ({"negated": True}, 2.3, None), ({"kind": ""}, 2.3, None), ({}, 0.2, False),
])  # fmt: skip
@pytest.mark.parametrize(("signals", "climbs"), [
    ({"learning_rate": -0.1}, True), ({"learning_rate": 0.1}, False),
    ({"turned_cosine": -0.51}, True), ({"turned_cosine": -0.49}, False),
    ({"descent_cosine": -0.21}, True), ({"descent_cosine": -0.19}, False),
])  # fmt: skip
def test_steps_that_go_up_the_gradient_raise_the_loss(of, end, likely, signals, climbs):
    made = evidence(
        facts=of_loss(**of), loss=np.geomspace(2.3, end, STEPS),
        baseline_loss=np.full(STEPS, 2.3), **{name: np.full(STEPS, value) for name, value in signals.items()},
    )  # fmt: skip
    cause = flipped_loss_sign(made).cause
    texts = () if cause is None else [one for one in cause.evidence if "up the gradient" in one or "around" in one]
    assert bool(texts) == (climbs and likely is not None)
    if texts:
        assert (cause.confidence > LIKELY) == likely
        assert cause.advice.startswith("Go down the gradient")


def test_gradients_that_are_turned_around_now_and_then_are_not_always():
    made = evidence(facts=of_loss(kind="mse"), turned_cosine=[-1.0] * 4, update_ratio=[1e-3] * STEPS)
    assert flipped_loss_sign(made).cause is None


@pytest.mark.parametrize("change", [torch.neg, lambda gradient: 0.5 * gradient])
def test_gradients_that_a_loop_negates_are_turned_around_and_not_clipped(change):
    torch.manual_seed(0)
    rows = torch.randn(512, 16)
    targets = (rows @ torch.randn(16)).sign().clamp(min=0).long()
    model = torch.nn.Sequential(torch.nn.Linear(16, 32), torch.nn.ReLU(), torch.nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(100):
            batch = torch.randint(512, (64,))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows[batch]), targets[batch]).backward()
            for parameter in model.parameters():
                parameter.grad.copy_(change(parameter.grad))
            optimizer.step()
    causes = session.report().causes
    assert [cause.code for cause in causes][:1] == (["flipped_loss_sign"] if change is torch.neg else [])
    assert "clipping_ineffective" not in [cause.code for cause in causes]
