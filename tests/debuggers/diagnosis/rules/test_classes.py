"""Targets of one class, or of few beside a frequent one, and what only looks so."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import BatchFacts, Facts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = 120


@pytest.mark.parametrize(("level", "makes", "is_one"), [
    (0.01, (), True), (3.7, (), False), (6.2, (), True), (3.7, ("DivBackward0",), False),
    (3.7, ("AddmmBackward0",), True),
])  # fmt: skip
def test_the_place_of_the_positive_is_no_class(level, makes, is_one):
    """Of 513 pairs the first is the positive one, as in MoCo: a class is learnt at once, and no place is not at all.

    What a linear layer puts out are classes.
    """
    nodes = ("NllLossBackward0", "LogSoftmaxBackward0", *makes)
    values = {"loss": np.full(STEPS, level), "targets/classes_so_far": np.ones(STEPS), "targets/max": np.zeros(STEPS)}
    series = {name: Series(np.arange(STEPS), one) for name, one in values.items()}
    loss = LossFacts(kind="cross_entropy", reduction="mean", nodes=nodes, outputs_shape=(64, 513), targets_shape=(64,))
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("single_class_labels" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("makes", "is_one"), [
    (("DivBackward0",), False), (("ViewBackward0", "CatBackward0"), False), (("AddmmBackward0",), True), ((), True),
    (("DivBackward0", "AddmmBackward0"), True),
])  # fmt: skip
@pytest.mark.parametrize("level", [0.01, 6.2])
def test_the_place_of_a_positive_may_be_learnt_to_the_last_where_no_layer_makes_the_scores(makes, is_one, level):
    """One that is not at all may be the wrong place."""
    values = {"loss": np.full(STEPS, level), "targets/classes_so_far": np.ones(STEPS), "targets/max": np.zeros(STEPS)}
    series = {name: Series(np.arange(STEPS), one) for name, one in values.items()}
    nodes = ("NllLossBackward0", "LogSoftmaxBackward0", *makes)
    loss = LossFacts(kind="cross_entropy", reduction="mean", nodes=nodes, outputs_shape=(64, 513), targets_shape=(64,))
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("single_class_labels" in [cause.code for cause in causes]) == (is_one or level > 1)


@pytest.mark.parametrize(("picks", "is_one"), [("GatherBackward0", False), ("AddmmBackward0", True)])
def test_a_policy_may_have_one_state_and_come_to_one_action(picks, is_one):
    """As a bandit's; of other losses whose elements have weights, inputs vary."""
    values = {
        "loss": 0.3, "targets/top_share_so_far": 0.95, "targets/rarest_share_so_far": 0.01,
        "targets/classes_so_far": 10.0, "top_predicted_share": 1.0, "inputs/batch_std": 0.0, "inputs/batch_size": 32.0,
        "inputs/std": 1.0, "inputs/mean": 0.0,
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.full(STEPS, one)) for name, one in values.items()}
    loss = LossFacts(kind="", nodes=("NegBackward0", "MeanBackward0", "MulBackward0", picks), weighted=True)
    codes = {cause.code for cause in diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))}
    assert (bool(codes & {"inputs_constant", "class_imbalance"})) == is_one


@pytest.mark.parametrize(("nodes", "is_one"), [(("AddBackward0", "MulBackward0", "NllLossBackward0"), True),
                                               (("NllLossBackward0",), False)])  # fmt: skip
def test_smoothed_labels_leave_a_loss_of_what_is_learnt_to_the_last(nodes, is_one):
    """Of three classes, smoothing by 0.1 leaves 0.29, a quarter of a uniform guess's."""
    values = {"loss": np.full(STEPS, 0.29), "targets/classes_so_far": np.ones(STEPS), "targets/max": np.zeros(STEPS)}
    series = {name: Series(np.arange(STEPS), one) for name, one in values.items()}
    loss = LossFacts(kind="cross_entropy", reduction="mean", nodes=nodes, outputs_shape=(16, 3), targets_shape=(16,))
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("single_class_labels" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(
    ("nodes", "is_one"), [(("MeanBackward0", "AddBackward0"), False), (("MseLossBackward0",), True)]
)
def test_the_middle_of_a_distribution_is_no_class(nodes, is_one):
    """A flow's likelihood compares with zero, and adds the volume."""
    values = {"loss": np.full(STEPS, 9.0), "targets/classes_so_far": np.ones(STEPS), "targets/max": np.zeros(STEPS)}
    series = {name: Series(np.arange(STEPS), one) for name, one in values.items()}
    loss = LossFacts(kind="mse", reduction="mean", nodes=nodes, outputs_shape=(64, 12))
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("single_class_labels" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(
    ("changed", "loss", "is_one"),
    [
        ({}, {}, True),
        ({}, {"terms": 2}, False),
        ({}, {"kind": "mse"}, False),
        ({"backward_passes": 2}, {}, False),
        ({"trained_with_others": True}, {}, False),
    ],
)
def test_ones_alone_are_of_one_class_where_nothing_else_is_compared(changed, loss, is_one):
    steps = np.arange(20)
    series = {
        name: Series(steps, np.full(20, value))
        for name, value in {"targets/classes_so_far": 1.0, "targets/max": 1.0, "inputs/batch_size": 24.0}.items()
    }
    ones = Facts(
        steps=20,
        targets=BatchFacts(shape=(24, 1), dtype="float32"),
        loss=LossFacts(**{"kind": "bce_with_logits", "reduction": "mean"} | loss),
        **changed,
    )
    found = [cause.code for cause in diagnose(Evidence(series=series, facts=ones))]

    assert ("single_class_labels" in found) == is_one


@pytest.mark.parametrize(("weight", "share", "is_one"), [
    (0.5, 0.12, True), (1.0, 0.12, False), (0.8, 0.12, False), (0.5, 0.88, False),
])  # fmt: skip
def test_a_weight_below_one_of_rare_positive_targets_makes_them_rarer(weight, share, is_one):
    signals = {
        "loss": np.geomspace(0.7, 0.1, STEPS), "targets/mean": share, "targets/top_share_so_far": 0.88,
        "targets/rarest_share_so_far": 0.12, "targets/classes_so_far": 2.0, "top_predicted_share": 1.0,
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(values, STEPS)) for name, values in signals.items()}
    loss = LossFacts(kind="bce_with_logits", reduction="mean", weighted=True, positive_weight=weight)
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))

    assert [cause.code for cause in causes] == ["class_imbalance"] * is_one
    if is_one:
        assert causes[0].advice.startswith("pos_weight: 0.5 → 7.3")


@pytest.mark.parametrize(("weight", "is_one"), [(1.0, True), (4.0, True), (5.0, False), (30.0, False)])
def test_rare_positive_targets_that_count_as_much_as_others_together_are_not_outweighed(weight, is_one):
    """Two of a hundred that count five times are a tenth of all."""
    signals = {
        "loss": np.geomspace(0.7, 0.3, STEPS), "targets/mean": 0.02, "targets/top_share_so_far": 0.98,
        "targets/rarest_share_so_far": 0.02, "targets/classes_so_far": 2.0, "top_predicted_share": 1.0,
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(values, STEPS)) for name, values in signals.items()}
    loss = LossFacts(kind="bce_with_logits", reduction="mean", weighted=True, positive_weight=weight)
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))

    assert [cause.code for cause in causes] == ["class_imbalance"] * is_one


@pytest.mark.parametrize(("inputs", "is_one"), [
    (BatchFacts(shape=(32, 24), integer=True), True),  # a label for each letter
    (BatchFacts(shape=(32, 24, 8)), True),
    (BatchFacts(shape=(32, 24)), False),  # 24 labels for a row
    (BatchFacts(shape=(32, 12), integer=True), False),
])  # fmt: skip
def test_rare_labels_of_positions_are_those_of_a_class(inputs, is_one):
    """Most of several labels of a row do not apply, by nature: then it takes 30 times as many; here it is 24 times."""
    signals = {
        "loss": np.geomspace(0.7, 0.14, STEPS), "targets/top_share_so_far": 0.96,
        "targets/rarest_share_so_far": 0.04, "targets/classes_so_far": 2.0, "top_predicted_share": 1.0,
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(values, STEPS)) for name, values in signals.items()}
    facts = Facts(
        steps=STEPS, loss=LossFacts(kind="bce_with_logits", reduction="mean"), inputs=inputs,
        targets=BatchFacts(shape=(32, 24)),
    )  # fmt: skip
    assert ("class_imbalance" in [cause.code for cause in diagnose(Evidence(series=series, facts=facts))]) == is_one


@pytest.mark.parametrize(("positive", "predicted", "is_one"), [
    (1 / 64, 0.999, True), (1 / 64, 0.998, False), (1 / 16, 1.0, False),
])  # fmt: skip
def test_one_label_of_many_for_each_row_is_rare_among_those_that_do_not_apply(positive, predicted, is_one):
    """Objectness of 64 cells of which one holds an object; the classes that are counted are the cells."""
    signals = {
        "loss": np.geomspace(0.7, 0.08, STEPS), "targets/mean": positive, "targets/top_share_so_far": 0.06,
        "targets/rarest_share_so_far": 0.005, "targets/classes_so_far": 64.0, "top_predicted_share": predicted,
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(values, STEPS)) for name, values in signals.items()}
    loss = LossFacts(kind="bce_with_logits", reduction="mean")
    targets, inputs = BatchFacts(shape=(32, 64), dtype="float32"), BatchFacts(shape=(32, 1, 16, 16))
    facts = Facts(steps=STEPS, loss=loss, targets=targets, inputs=inputs)
    assert ("class_imbalance" in [cause.code for cause in diagnose(Evidence(series=series, facts=facts))]) == is_one


@pytest.mark.parametrize(("rate", "first"), [(1e-4, "schedule_collapsed"), (0.1, "class_imbalance")])
def test_what_has_hardly_learnt_answers_with_the_most_frequent_class(rate, first):
    signals = {
        "loss": np.r_[0.7, 0.6, 0.5, np.full(STEPS - 3, 0.3)], "targets/top_share_so_far": 0.92,
        "targets/rarest_share_so_far": 0.08, "targets/classes_so_far": 2.0, "top_predicted_share": 1.0,
        "learning_rate": np.r_[np.full(12, 0.1), np.full(STEPS - 12, rate)],
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(values, STEPS)) for name, values in signals.items()}
    facts = Facts(steps=STEPS, loss=LossFacts(kind="bce_with_logits", reduction="mean"))
    assert diagnose(Evidence(series=series, facts=facts))[0].code == first


@pytest.mark.parametrize(("shares", "each", "last", "table", "is_one"), [
    ((0.45, 0.01), 30.0, 0.3, 0, True), ((0.45, 0.02), 30.0, 0.3, 0, False), ((0.25, 0.005), 30.0, 0.3, 0, False),
    ((0.45, 0.01), 2.0, 0.3, 0, False), ((0.45, 0.01), 30.0, 0.05, 0, False), ((0.45, 0.01), 6.0, 0.3, 0, False),
    ((0.45, 0.01), 30.0, 0.3, 40, True), ((0.45, 0.01), 30.0, 0.3, 10, False),
])  # fmt: skip
def test_the_last_classes_of_a_long_tail_are_far_rarer_than_the_first(shares, each, last, table, is_one):
    """A handful of 256 rows; 13 of 1,280 may be enough. Where all are known by heart, the rare ones are.

    As many classes as a table of embeddings has rows are the next tokens.
    """
    steps, rows, (most, least) = np.arange(STEPS), STEPS * 64 / each, shares
    values = {
        "loss": np.geomspace(1.6, last, STEPS), "baseline_loss": 1.6, "targets/top_share_so_far": most,
        "targets/rarest_share_so_far": least, "targets/classes_so_far": 10.0, "inputs/batch_size": 64.0,
        "inputs/repeated_rows": 1.0, "inputs/rows_so_far": rows, "top_predicted_share": most,
    }  # fmt: skip
    series = {name: Series(steps, np.broadcast_to(np.float64(one), STEPS)) for name, one in values.items()}
    facts = Facts(
        steps=STEPS,
        inputs=BatchFacts(shape=(64, 64), integer=table > 0),
        targets=BatchFacts(shape=(64,), integer=True),
        loss=LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(64, 10), targets_shape=(64,)),
        layers=(LayerFacts(name="table", kind="Embedding"),),
        parameters=(ParameterFacts(name="table.weight", shape=(table, 8)),),
    )
    causes = diagnose(Evidence(series=series, facts=facts))
    assert ("class_imbalance" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("at_last", "is_one"), [(0.9, False), (0.4, True)])
def test_a_model_that_finds_the_rare_class_at_last_is_not_outweighed(at_last, is_one):
    """A tagger whose rare tags are begun to be found in the last third, and whose batches have hardly one of them."""
    found = np.r_[np.zeros(STEPS - 12), np.full(8, 0.3), np.full(4, at_last)]
    signals = {
        "loss": np.geomspace(0.7, 0.1, STEPS), "targets/top_share_so_far": 0.98, "top_predicted_share": 0.995,
        "targets/rarest_share_so_far": 0.002, "targets/classes_so_far": 4.0, "minority_accuracy": found,
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(values, STEPS)) for name, values in signals.items()}
    loss = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(256, 4))
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("class_imbalance" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("ignored", "is_one"), [(None, True), (0, False)])
def test_padding_that_counts_for_nothing_may_be_the_most_frequent_class(ignored, is_one):
    signals = {
        "loss": np.geomspace(0.7, 0.4, STEPS), "targets/top_share_so_far": 0.9, "top_predicted_share": 0.99,
        "targets/rarest_share_so_far": 0.05, "targets/classes_so_far": 4.0, "minority_accuracy": 0.1,
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(values, STEPS)) for name, values in signals.items()}
    loss = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(256, 4), ignored=ignored)
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("class_imbalance" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("shares", "ratio", "follow", "finds", "is_one"), [
    ((0.12, 0.08), 1000.0, 0.0, 0.2, True), ((0.12, 0.08), 20.0, 0.0, 0.2, False), ((0.4, 0.02), 20.0, 1.0, 0.2, True),
    ((0.4, 0.02), 8.0, 1.0, 0.2, False), ((0.4, 0.02), 20.0, 0.0, 0.2, False), ((0.12, 0.08), 50.0, 0.0, 0.9, False),
])  # fmt: skip
def test_weights_of_classes_make_up_for_how_often_they_come(shares, ratio, follow, finds, is_one):
    """Or for what errors cost: then the other classes are found, too."""
    most, least = shares
    signals = {
        "loss": np.geomspace(2.3, 0.4, STEPS), "targets/top_share_so_far": most, "top_predicted_share": most,
        "targets/rarest_share_so_far": least, "targets/classes_so_far": 10.0, "minority_accuracy": finds,
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(values, STEPS)) for name, values in signals.items()}
    loss = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(64, 10), weighted=True,
                     class_weight_ratio=ratio, class_weights_follow=follow)  # fmt: skip
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("class_imbalance" in [cause.code for cause in causes]) == is_one
