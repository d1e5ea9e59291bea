"""Signs of a loss that does not fit, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss

from debuggers.diagnosis.facts import BatchFacts, Facts, LossFacts
from debuggers.diagnosis.rules.diagnose import diagnose


def test_one_term_of_a_loss_may_get_the_wrong_activation():
    parts = (LossFacts(kind="mse"), LossFacts(kind="cross_entropy", before="softmax"))
    causes = diagnose(evidence(facts=of_loss(kind="", parts=parts)))

    assert [cause.code for cause in causes] == ["wrong_output_or_loss"]
    assert diagnose(evidence(facts=of_loss(kind="", parts=parts[:1]))) == ()


@pytest.mark.parametrize("node", ["LogSoftmaxBackward0", "LogBackward0", "SoftmaxBackward0"])
def test_a_divergence_takes_logarithms_however_they_are_made(node):
    causes = diagnose(evidence(facts=of_loss(kind="kl_div", nodes=("SubBackward0", node, "AddmmBackward0"))))

    assert [cause.code for cause in causes] == ["wrong_output_or_loss"] * (node == "SoftmaxBackward0")


@pytest.mark.parametrize(("columns", "is_one"), [(1, True), (6, False)])
def test_indices_that_are_told_may_stand_for_rows_of_targets(columns, is_one):
    facts = of_loss(kind="bce_with_logits", outputs_shape=(64, columns), targets_shape=(64, columns))
    told = {"targets/min": np.zeros(STEPS), "targets/max": np.full(STEPS, 5), "targets/classes": np.full(STEPS, 6)}

    assert ("target_out_of_range" in [one.code for one in diagnose(evidence(facts=facts, **told))]) is is_one


@pytest.mark.parametrize(("times", "largest", "is_one"), [(1.0, 1.04, False), (1.0, 1.06, True), (16.0, 16.0, False),
                                                          (-1.0, 1.06, True)])  # fmt: skip
def test_targets_outside_of_cosines_times_a_constant_are_out_of_range(times, largest, is_one):
    facts = of_loss(kind="mse", bounded_by="cosine", times=times, outputs_shape=(64,), targets_shape=(64,))
    values = {"targets/min": np.zeros(STEPS), "targets/max": np.full(STEPS, largest)}
    found = diagnose(evidence(facts=facts, **values))
    assert ("target_out_of_range" in [one.code for one in found]) is is_one


@pytest.mark.parametrize("bounded_by", ["unit_vector", "recurrent_state"])
@pytest.mark.parametrize(("largest", "terms", "is_one"), [(1.04, 1, False), (1.06, 1, True), (4.0, 2, False)])
def test_targets_outside_of_unit_vectors_and_states_are_out_of_range(bounded_by, largest, terms, is_one):
    facts = of_loss(kind="mse", bounded_by=bounded_by, times=1.0, terms=terms, outputs_shape=(64, 3))
    values = {"targets/min": np.zeros(STEPS), "targets/max": np.full(STEPS, largest)}
    found = diagnose(evidence(facts=facts, **values))
    assert ("target_out_of_range" in [one.code for one in found]) is is_one


@pytest.mark.parametrize(("largest", "is_one"), [(5.5, False), (6.5, True)])
def test_targets_outside_of_standard_scores_are_out_of_range(largest, is_one):
    facts = of_loss(kind="mse", bounded_by="standard_score", times=31**0.5, outputs_shape=(32, 1))
    values = {"targets/min": np.zeros(STEPS), "targets/max": np.full(STEPS, largest)}
    found = [one for one in diagnose(evidence(facts=facts, **values)) if one.code == "target_out_of_range"]
    assert ["from -5.57 to 5.57" in one.evidence[0] for one in found] == [True] * is_one


@pytest.mark.parametrize(("largest", "batches", "is_one"), [(6.9, 20, False), (6.9, STEPS, True), (40.0, 20, True)])
def test_a_short_tail_of_targets_beyond_the_bounds_is_no_cause(largest, batches, is_one):
    """A third of the batches of 320 targets hold one above 4: it is about one of a thousand."""
    facts = of_loss(kind="mse", bounded_by="tanh", times=4.0, outputs_shape=(32, 10), targets_shape=(32, 10))
    highest = np.where(np.arange(STEPS) < batches, largest, 3.0)
    values = {"targets/min": np.full(STEPS, -2.0), "targets/max": highest, "targets/std": np.ones(STEPS)}
    found = diagnose(evidence(facts=facts, **values, **{"inputs/batch_size": np.full(STEPS, 32.0)}))
    assert ("target_out_of_range" in [one.code for one in found]) is is_one


@pytest.mark.parametrize(("nodes", "is_one"), [(("NllLoss", "Log"), False), (("NllLoss", "Logsumexp"), False),
                                               (("NllLoss", "Stack"), False), (("NllLoss", "Compiled"), False),
                                               ((), False), (("NllLoss", "Addmm"), True)])  # fmt: skip
def test_what_comes_of_a_logarithm_is_a_log_probability(nodes, is_one):
    causes = diagnose(evidence(facts=of_loss(kind="nll", nodes=nodes, outputs_shape=(64, 3), targets_shape=(64,))))
    assert ("wrong_output_or_loss" in [one.code for one in causes]) is is_one


@pytest.mark.parametrize(("bound", "is_one"), [(1.0, True), (0.07, True), (1.01, False), (14.0, False), (0.0, False)])
def test_cosines_are_no_logits_without_a_scale(bound, is_one):
    causes = diagnose(evidence(facts=of_loss(bound=bound, outputs_shape=(64, 10), targets_shape=(64,))))

    assert [cause.code for cause in causes] == ["wrong_output_or_loss"] * is_one
    if bound == 1.0:
        assert "its lowest value is 0.80, not 0, and chance is 2.30" in causes[0].evidence[0]


@pytest.mark.parametrize("kind", ["cross_entropy", "nll"])
@pytest.mark.parametrize("over", [1, None])
def test_a_softmax_goes_over_the_classes(kind, over):
    facts = of_loss(kind=kind, before="log_softmax", softmax_dim=over, outputs_shape=(64, 12, 5))
    causes = diagnose(evidence(facts=facts))

    assert [cause.code for cause in causes] == ["wrong_output_or_loss"] * (over is not None)


@pytest.mark.parametrize("before", [(64, 12, 5), ()])
def test_a_reshape_is_no_permutation(before):
    causes = diagnose(evidence(facts=of_loss(scattered=before, outputs_shape=(64, 5, 12), targets_shape=(64, 12))))

    assert [cause.code for cause in causes] == ["wrong_output_or_loss"] * bool(before)
    if before:
        assert "a reshape of (64, 12, 5) makes the (64, 5, 12)" in causes[0].evidence[0]


@pytest.mark.parametrize(
    ("share", "before", "is_one"), [(0.4, "softmax", True), (1 / 3, "softmax", False), (0.4, "sigmoid", False)]
)
@pytest.mark.parametrize("shape", [(64, 3), (64, 3, 8, 8), (64, 20, 3)])
def test_labels_of_which_a_softmax_can_reach_only_one_need_a_sigmoid(share, before, is_one, shape):
    facts = of_loss(kind="bce", before=before, outputs_shape=shape, targets_shape=shape)
    means = np.full(STEPS, share)
    causes = diagnose(evidence(facts=facts, **{"targets/mean": means, "targets/classes": np.full(STEPS, 2)}))

    assert [cause.code for cause in causes] == ["wrong_output_or_loss"] * is_one


@pytest.mark.parametrize(("share", "classes", "is_one"), [(0.4, 2, True), (1 / 3, 2, False), (0.4, 0, False)])
def test_labels_that_compete_in_a_cross_entropy_need_a_sigmoid(share, classes, is_one):
    facts = of_loss(kind="cross_entropy", outputs_shape=(64, 3), targets_shape=(64, 3))
    signals = {"targets/mean": np.full(STEPS, share)} | (
        {"targets/classes": np.full(STEPS, classes)} if classes else {}
    )
    causes = diagnose(evidence(facts=facts, **signals))

    assert [cause.code for cause in causes] == ["wrong_output_or_loss"] * is_one


def _ordered(level, right, rows=48, **fields):
    """Five classes at four places: a loss at a level, and how often outputs are right."""
    loss = LossFacts(**{"kind": "cross_entropy", "reduction": "mean", "outputs_shape": (rows, 5, 4)} | fields)
    facts = Facts(steps=STEPS, loss=loss, outputs=BatchFacts(shape=(rows, 4, 5)))
    signals = {"accuracy": np.full(STEPS, right), "inputs/batch_size": np.full(STEPS, float(rows))}
    signals["targets/top_share_so_far"] = np.full(STEPS, 0.22)
    return [cause.code for cause in diagnose(evidence(facts=facts, loss=np.geomspace(1.6, level, STEPS), **signals))]


def test_outputs_that_are_right_by_chance_alone_belie_a_low_loss():
    assert _ordered(0.4, 0.2) == ["wrong_output_or_loss"]
    assert _ordered(0.4, 0.5) == []
    assert _ordered(1.2, 0.2) == []
    assert _ordered(0.4, 0.2, ignored=0) == []  # places that count for nothing may be told, too
    assert _ordered(0.4, 0.2, weighted=True) == []
    assert _ordered(0.4, 0.2, outputs_shape=(12, 5)) == []  # of some places only
    assert _ordered(0.4, 0.1, rows=1) == ["wrong_output_or_loss"]
    assert _ordered(0.4, 0.45, rows=1) == []  # of twenty rows, neither is out of the question


@pytest.mark.parametrize(("between", "is_one"), [("ExpBackward0", True), ("NegBackward0", False)])
def test_an_exponential_of_what_is_never_negative_is_never_below_one(between, is_one):
    nodes = ("MeanBackward0", "SubBackward0", "ExpBackward0", between, "SoftplusBackward0")
    causes = diagnose(evidence(facts=of_loss(kind="", before="softplus", nodes=nodes)))
    assert ("wrong_output_or_loss" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(
    ("kind", "most", "is_one"), [("cross_entropy", 2, True), ("cross_entropy", 1, False), ("mse", 2, False)]
)
def test_rows_without_a_label_do_not_hide_those_with_several(kind, most, is_one):
    """Each row has less than one on average, in two batches of three some row has several."""
    facts = of_loss(kind=kind, outputs_shape=(64, 3), targets_shape=(64, 3))
    signals = {"targets/mean": np.full(STEPS, 0.1), "targets/classes": np.full(STEPS, 2)}
    signals["targets/most_labels"] = np.where(np.arange(STEPS) % 3, most, 1)
    causes = diagnose(evidence(facts=facts, **signals))

    assert ("wrong_output_or_loss" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("columns", "is_one"), [(64, False), (10, True)])
def test_rows_of_a_batch_that_are_compared_with_one_another_have_several_of_their_kind(columns, is_one):
    """A supervised contrastive loss; where the model itself has as many outputs, they are labels."""
    shape = (64, columns)
    loss = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=shape, targets_shape=shape)
    facts = Facts(steps=STEPS, loss=loss, outputs=BatchFacts(shape=(64, 10)))
    signals = {"targets/mean": np.full(STEPS, 0.15), "targets/classes": np.full(STEPS, 2)}
    signals |= {"targets/most_labels": np.full(STEPS, 9.0)}
    causes = diagnose(evidence(facts=facts, **signals))

    assert ("wrong_output_or_loss" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("nodes", "before", "is_one"), [
    (("MeanBackward0", "SubBackward0", "ExpBackward0", "SqueezeBackward1"), "softplus", True),
    (("MeanBackward0", "SubBackward0", "ExpBackward0", "SqueezeBackward1"), "tanh", False),
    (("MeanBackward0", "SubBackward0", "MulBackward0", "SqueezeBackward1"), "softplus", False),
    (("MeanBackward0", "SubBackward0", "ExpBackward0", "ExpBackward0", "SelectBackward0", "AddmmBackward0"), "", True),
    (("MeanBackward0", "ExpBackward0", "NegBackward0", "ExpBackward0", "AddmmBackward0"), "exp", False),
])  # fmt: skip
def test_the_activation_of_an_exponential_may_stand_behind_the_models_end_or_in_the_loop(nodes, before, is_one):
    """That of a hazard, exp(-exp(x)), has a sign between."""
    causes = diagnose(evidence(facts=of_loss(kind="", before=before, nodes=nodes)))
    assert ("wrong_output_or_loss" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("columns", "largest", "mean", "is_one"), [
    (10, 9.0, 4.5, False), (2, 1.0, 0.7, False), (10, 1.0, 0.2, True),
])  # fmt: skip
def test_indices_that_are_told_beside_one_hot_rows_are_no_labels(columns, largest, mean, is_one):
    facts = of_loss(kind="cross_entropy", outputs_shape=(64, columns), targets_shape=(64, columns))
    told = {"targets/mean": mean, "targets/max": largest, "targets/classes": 2.0}
    causes = diagnose(evidence(facts=facts, **{name: np.full(STEPS, value) for name, value in told.items()}))
    assert ("wrong_output_or_loss" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("reads_targets", "is_one"), [(True, False), (False, True)])
def test_a_softmax_over_the_counts_of_the_inputs_is_a_likelihood(reads_targets, is_one):
    """As in an autoencoder of baskets, whose first loss is that of a uniform guess for each of 18 things."""
    facts = of_loss(outputs_shape=(64, 64), targets_shape=(64, 64))
    facts = Facts(steps=STEPS, loss=facts.loss, outputs=BatchFacts(shape=(64, 64)))
    values = {"mean": 0.28, "std": 0.45, "min": 0.0, "max": 1.0}
    signals = {f"targets/{name}": np.full(STEPS, value) for name, value in values.items()}
    signals |= {"targets/classes": np.full(STEPS, 2.0), "targets/most_labels": np.full(STEPS, 24.0)}
    signals |= {f"inputs/{name}": np.full(STEPS, value if reads_targets else 0.5) for name, value in values.items()}
    loss = np.linspace(82.0, 64.0, STEPS)
    causes = diagnose(evidence(facts=facts, loss=loss, baseline_loss=np.full(STEPS, 67.0), **signals))

    assert [cause.code for cause in causes] == ["wrong_output_or_loss"] * is_one


@pytest.mark.parametrize(("node", "is_one"), [("LogBackward0", False), ("AddBackward0", True)])
def test_outputs_that_are_probabilities_fit_a_loss_that_takes_their_logarithm(node, is_one):
    facts = of_loss(outputs_shape=(64, 9), nodes=("NegBackward0", "MulBackward0", node))
    causes = diagnose(evidence(facts=facts, **{"outputs/row_sum_error": np.full(STEPS, 1e-6)}))

    assert ("wrong_output_or_loss" in [cause.code for cause in causes]) is is_one


@pytest.mark.parametrize(("weight", "accuracy", "is_one"), [
    ("trained", 0.9, True), ("constant", 0.3, True), ("constant", 0.9, False), ("", 0.3, False),
])  # fmt: skip
def test_a_weight_that_grows_with_what_is_right_already_learns_nothing_of_what_is_wrong(weight, accuracy, is_one):
    """Where most is found, a weight without a gradient does no harm."""
    made = evidence(facts=of_loss(kind="", weighs_the_sure=weight), accuracy=np.full(STEPS, accuracy))
    assert ("wrong_output_or_loss" in [cause.code for cause in diagnose(made)]) == is_one


@pytest.mark.parametrize("one_sided", [True, False])
def test_both_summands_of_a_binary_cross_entropy_draw_to_different_sides(one_sided):
    made = evidence(facts=of_loss(kind="bce_with_logits", one_sided=one_sided))
    assert ("wrong_output_or_loss" in [cause.code for cause in diagnose(made)]) == one_sided
