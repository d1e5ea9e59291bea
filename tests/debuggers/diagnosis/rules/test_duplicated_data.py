"""Equal rows: data that repeats, or a few states."""

import numpy as np
import pytest
from made_evidence import STEPS

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import BatchFacts, Facts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STATES = 8


@pytest.mark.parametrize(("batch", "share", "deviation", "found"), [
    (64, 0.875, "of one-hot rows", []),
    (8, 0.35, "of one-hot rows", []),
    (8, 0.77, "of one-hot rows", ["duplicated_data"]),  # 8 draws of 8 states have 5 different ones, not 2
    (64, 0.89, "of other rows", ["duplicated_data"]),
])  # fmt: skip
def test_one_hot_rows_equal_one_another_by_chance(batch, share, deviation, found):
    spread = np.sqrt((1 - 1 / STATES) / STATES) * (1.0 if deviation == "of one-hot rows" else 0.8)
    signals = {
        "loss": np.geomspace(2.3, 0.2, 60), "inputs/batch_size": batch, "inputs/duplicates": share, "inputs/min": 0.0,
        "inputs/max": 1.0, "inputs/mean": 1 / STATES, "inputs/std": spread,
    }  # fmt: skip
    series = {
        name: Series(np.arange(60), np.broadcast_to(np.float64(value), 60)) if np.ndim(value) == 0 else
        Series(np.arange(60), value) for name, value in signals.items()
    }  # fmt: skip
    causes = diagnose(Evidence(series=series, facts=Facts(steps=60, inputs=BatchFacts(shape=(batch, STATES)))))

    assert [cause.code for cause in causes] == found


@pytest.mark.parametrize(("least", "chance", "found"), [
    (0.5, 0.01, []), (0.875, 0.0, []),
    (0.5, 0.06, ["duplicated_data"]),  # some come more often than others
    (0.55, 0.01, ["duplicated_data"]),
])  # fmt: skip
def test_rows_each_of_which_comes_so_often_were_repeated(least, chance, found):
    """As for several draws of each; some of the others are equal by themselves."""
    shares = least + np.where(np.arange(60) % 3, chance, 0.0)
    series = {
        "loss": Series(np.arange(60), np.geomspace(2.3, 0.2, 60)),
        "inputs/batch_size": Series(np.arange(60), np.full(60, 64.0)),
        "inputs/duplicates": Series(np.arange(60), shares),
    }
    causes = diagnose(Evidence(series=series, facts=Facts(steps=60, inputs=BatchFacts(shape=(64, 30)))))
    assert [cause.code for cause in causes] == found


@pytest.mark.parametrize(("deviation", "found"), [(1.0, []), (0.9, ["duplicated_data"])])
def test_rows_of_signs_equal_one_another_by_chance(deviation, found):
    """64 draws of all rows of six signs, of which about 23 equal another one; other values within -1 and 1 do not."""
    values = {
        "loss": np.geomspace(2.3, 0.2, 60), "inputs/batch_size": 64.0, "inputs/duplicates": 0.37, "inputs/min": -1.0,
        "inputs/max": 1.0, "inputs/mean": 0.0, "inputs/std": deviation, "inputs/repeated_rows": 1.0,
        "inputs/rows_so_far": 64.0,
    }  # fmt: skip
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    causes = diagnose(Evidence(series=series, facts=Facts(steps=60, inputs=BatchFacts(shape=(64, 6)))))
    assert [cause.code for cause in causes] == found


@pytest.mark.parametrize(("known", "found"), [
    ({}, ["duplicated_data"]),
    ({"joins_calls": True}, []),  # the first state of each episode, the start of each sequence
    ({"inputs": BatchFacts(shape=(32, 2), requires_grad=True)}, []),  # the points of an equation
    ({"optimizer": "LBFGS"}, []),
    ({"optimizer": "Adam"}, ["duplicated_data"]),
])  # fmt: skip
def test_the_same_rows_at_each_step_may_be_meant(known, found):
    values = {"loss": np.geomspace(2.3, 0.2, 60), "inputs/batch_size": 32.0, "inputs/repeated": 1.0}
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    facts = Facts(**{"steps": 60, "inputs": BatchFacts(shape=(32, 2)), **known})
    assert [cause.code for cause in diagnose(Evidence(series=series, facts=facts))] == found


@pytest.mark.parametrize(("rows", "validation", "is_one"), [(64, 1.9, True), (64, 0.3, False), (150, 1.9, False)])
def test_a_batch_that_always_comes_is_none_of_a_whole_data_set_where_others_are_not_learnt(rows, validation, is_one):
    values = {"loss": np.geomspace(2.3, 0.2, 60), "baseline_loss": 2.3, "inputs/batch_size": float(rows),
              "inputs/repeated": 1.0}  # fmt: skip
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    series["validation/loss"] = Series(np.arange(9, 60, 10), np.full(6, validation))
    causes = diagnose(Evidence(series=series, facts=Facts(steps=60, inputs=BatchFacts(shape=(rows, 8)))))
    assert ("duplicated_data" in [cause.code for cause in causes]) == is_one


def of_rows(shape, compared, *, duplicates, integer=False, different=40.0):
    """A training on draws of so many different rows, whose loss compares so many outputs."""
    values = {
        "loss": np.geomspace(2.3, 0.2, 60), "inputs/batch_size": shape[0], "inputs/duplicates": duplicates,
        "inputs/repeated_rows": 1.0, "inputs/rows_so_far": different, "inputs/repeated": float(duplicates == 0),
    }  # fmt: skip
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    loss = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(compared, 10))
    facts = Facts(steps=60, inputs=BatchFacts(shape=shape, integer=integer), loss=loss)
    return [cause.code for cause in diagnose(Evidence(series=series, facts=facts))]


@pytest.mark.parametrize(("integer", "different", "found"), [
    (True, 40.0, []), (True, 400.0, ["duplicated_data"]), (False, 40.0, ["duplicated_data"]),
])  # fmt: skip
def test_codes_of_few_kinds_equal_one_another_by_chance_and_measurements_do_not(integer, different, found):
    assert of_rows((64, 6), 64, duplicates=0.52, integer=integer, different=different) == found


@pytest.mark.parametrize(("compared", "found"), [(32, []), (48, ["duplicated_data"]), (480, ["duplicated_data"])])
def test_all_items_that_each_query_is_compared_with_are_no_batch(compared, found):
    assert of_rows((48, 12), compared, duplicates=0.0) == found


@pytest.mark.parametrize(("rows", "shape", "found"), [
    (1, (1, 1, 8, 8), []), (1, (1, 1, 7, 9), ["duplicated_data"]), (1, (1, 64), ["duplicated_data"]),
    (2, (2, 1, 8, 8), ["duplicated_data"]),
])  # fmt: skip
def test_one_picture_that_always_comes_may_be_all_there_is(rows, shape, found):
    facts = Facts(
        steps=STEPS,
        inputs=BatchFacts(shape=(rows, 8, 4, 4), dtype="float32"),
        targets=BatchFacts(shape=shape, dtype="float32"),
    )
    values = {"inputs/batch_size": float(rows), "inputs/duplicates": 0.0, "inputs/repeated": 1.0}
    series = {name: Series(np.arange(STEPS), np.full(STEPS, one)) for name, one in values.items()}
    assert [cause.code for cause in diagnose(Evidence(series=series, facts=facts))] == found


@pytest.mark.parametrize(("columns", "found"), [(19, []), (20, ["duplicated_data"])])
def test_a_small_batch_that_always_comes_may_be_all_there_is_where_it_cannot_be_learnt_by_heart(columns, found):
    facts = Facts(
        steps=STEPS,
        inputs=BatchFacts(shape=(20, columns), dtype="float32"),
        targets=BatchFacts(shape=(20, 3), dtype="float32"),
        parameters=(ParameterFacts(name="fc.weight", shape=(3, columns), std=0.1),),
    )
    values = {"inputs/batch_size": 20.0, "inputs/duplicates": 0.0, "inputs/repeated": 1.0}
    series = {name: Series(np.arange(STEPS), np.full(STEPS, one)) for name, one in values.items()}
    assert [cause.code for cause in diagnose(Evidence(series=series, facts=facts))] == found


@pytest.mark.parametrize(("rows", "found"), [(32, ["duplicated_data"]), (30, []), (34, []), (50, ["duplicated_data"])])
def test_a_batch_of_an_unusual_size_that_always_comes_may_be_all_there_is(rows, found):
    facts = Facts(steps=STEPS, inputs=BatchFacts(shape=(rows, 1)), targets=BatchFacts(shape=(rows, 1)))
    values = {"inputs/batch_size": float(rows), "inputs/duplicates": 0.0, "inputs/repeated": 1.0}
    series = {name: Series(np.arange(STEPS), np.full(STEPS, one)) for name, one in values.items()}
    assert [cause.code for cause in diagnose(Evidence(series=series, facts=facts))] == found


@pytest.mark.parametrize(
    ("last", "columns", "found"),
    [(0.02, 200, ["duplicated_data"]), (0.06, 200, []), (0.02, 199, []), (0.02, 400, ["duplicated_data"])],
)
def test_a_batch_of_any_size_that_always_comes_is_known_by_heart_at_last(last, columns, found):
    """40 rows with a target each, and five weights for each of them."""
    facts = Facts(
        steps=60,
        inputs=BatchFacts(shape=(40, columns)),
        targets=BatchFacts(shape=(40, 1)),
        parameters=(ParameterFacts(name="fc.weight", shape=(1, columns + 1), std=columns**-0.5),),
        loss=LossFacts(kind="mse", reduction="mean"),
    )
    values = {"loss": np.geomspace(2.3, last, 60), "baseline_loss": 2.3, "inputs/batch_size": 40.0,
              "inputs/duplicates": 0.0, "inputs/repeated": 1.0}  # fmt: skip
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    assert [cause.code for cause in diagnose(Evidence(series=series, facts=facts))] == found


@pytest.mark.parametrize(("columns", "found"), [(2, []), (3, ["duplicated_data"]), (4096, ["duplicated_data"])])
def test_a_truth_table_comes_at_each_step(columns, found):
    inputs = BatchFacts(shape=(4, columns))
    facts = Facts(steps=STEPS, inputs=inputs, targets=BatchFacts(shape=(4, 1)))
    values = {"inputs/batch_size": 4.0, "inputs/duplicates": 0.0, "inputs/repeated": 1.0, "inputs/min": 0.0,
              "inputs/max": 1.0, "inputs/mean": 0.5, "inputs/std": 0.5}  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.full(STEPS, one)) for name, one in values.items()}
    assert [cause.code for cause in diagnose(Evidence(series=series, facts=facts))] == found


@pytest.mark.parametrize(("elsewhere", "found"), [(0.12, []), (0.14, ["duplicated_data"])])
def test_a_sampler_may_draw_the_rows_of_one_class_more_often(elsewhere, found):
    """Outside of that class, less than a third as many rows repeat."""
    values = {
        "loss": np.geomspace(2.3, 0.2, 60), "inputs/batch_size": 32.0, "inputs/duplicates": 0.4,
        "inputs/duplicates_elsewhere": elsewhere, "inputs/mean": 0.0, "inputs/std": 1.0,
    }  # fmt: skip
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    causes = diagnose(Evidence(series=series, facts=Facts(steps=60, inputs=BatchFacts(shape=(32, 6)))))

    assert [cause.code for cause in causes] == found


@pytest.mark.parametrize(
    ("places", "agree", "found"),
    [
        (35, 0.6, []),
        (35, 0.85, ["duplicated_data"]),  # copies have the same target
        (35, None, ["duplicated_data"]),  # and without targets it is not known
        (2000, 0.6, ["duplicated_data"]),  # of which random batches would repeat hardly any
    ],
)
def test_the_places_of_a_small_world_are_visited_again(places, agree, found):
    """48 random ones of 35 repeat as often as 45 % of them."""
    values = {
        "loss": np.geomspace(2.3, 0.2, 60), "inputs/batch_size": 48.0, "inputs/duplicates": 0.48,
        "inputs/repeated_rows": 1.0, "inputs/rows_so_far": float(places), "inputs/mean": 0.0, "inputs/std": 1.0,
    }  # fmt: skip
    if agree is not None:
        values["inputs/duplicates_agree"] = agree
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    causes = diagnose(Evidence(series=series, facts=Facts(steps=60, inputs=BatchFacts(shape=(48, 2)))))

    assert [cause.code for cause in causes] == found


@pytest.mark.parametrize(("again", "last", "found"), [
    (1.0, 0.02, ["duplicated_data"]), (0.0, 0.02, []), (1.0, 0.2, []),
])  # fmt: skip
def test_a_few_batches_that_come_in_turn_are_known_by_heart_at_last(again, last, found):
    """Three of 16 rows; drawn anew from the 48, they are what there is to learn."""
    facts = Facts(
        steps=60,
        inputs=BatchFacts(shape=(16, 9)),
        targets=BatchFacts(shape=(16,)),
        parameters=(ParameterFacts(name="fc.weight", shape=(25, 10), std=0.2),),
        loss=LossFacts(kind="cross_entropy", reduction="mean"),
    )
    values = {"loss": np.geomspace(2.3, last, 60), "baseline_loss": 2.3, "inputs/batch_size": 16.0,
              "inputs/duplicates": 0.0, "inputs/repeated": np.r_[np.zeros(8), np.full(52, again)],
              "inputs/repeated_rows": np.r_[0.0, 0.0, 0.0, np.ones(57)], "inputs/rows_so_far": 48.0}  # fmt: skip
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    codes = [cause.code for cause in diagnose(Evidence(series=series, facts=facts))]
    assert [code for code in codes if code == "duplicated_data"] == found


@pytest.mark.parametrize(("agree", "integer", "found"), [
    (0.88, True, []), (0.92, True, ["duplicated_data"]), (0.88, False, ["duplicated_data"]),
])  # fmt: skip
def test_equal_codes_with_other_targets_are_no_copies(agree, integer, found):
    """Names that are cut after eight letters, of 111 kinds: uniform draws would repeat 24 %."""
    facts = Facts(steps=STEPS, inputs=BatchFacts(shape=(64, 8), integer=integer), targets=BatchFacts(shape=(64,)))
    values = {"inputs/batch_size": 64.0, "inputs/duplicates": 0.56, "inputs/duplicates_agree": agree,
              "inputs/repeated_rows": 1.0, "inputs/rows_so_far": 111.0}  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.full(STEPS, one)) for name, one in values.items()}
    assert [cause.code for cause in diagnose(Evidence(series=series, facts=facts))] == found


@pytest.mark.parametrize(("rows", "last", "drops", "validated", "found"), [
    (64, 0.15, True, None, ["duplicated_data"]), (64, 0.15, False, None, []), (64, 0.3, True, None, []),
    (64, 0.02, False, None, ["duplicated_data"]), (128, 0.02, False, None, ["duplicated_data"]),
    (256, 0.02, False, None, []), (150, 0.02, False, None, []),
    (64, 0.15, True, 0.3, []), (64, 0.15, True, 1.5, ["duplicated_data"]),
])  # fmt: skip
def test_a_large_batch_of_a_usual_size_that_is_known_by_heart_is_no_whole_data_set(rows, last, drops, validated, found):
    """Dropout leaves some of the loss, however well rows are known. Of a constant output it is 2.3."""
    layers = (LayerFacts(name="drop", kind="Dropout"),) if drops else ()
    facts = Facts(
        steps=60,
        inputs=BatchFacts(shape=(rows, 96)),
        targets=BatchFacts(shape=(rows,), integer=True),
        layers=layers,
        parameters=(ParameterFacts(name="fc.weight", shape=(50, 96), std=0.1),),
        loss=LossFacts(kind="cross_entropy", reduction="mean"),
    )
    values = {"loss": np.geomspace(2.3, last, 60), "baseline_loss": 2.3, "inputs/batch_size": float(rows),
              "inputs/duplicates": 0.0, "inputs/repeated": 1.0}  # fmt: skip
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    if validated is not None:
        series["validation/loss"] = Series(np.array([20, 40]), np.array([2.0, validated]))
    assert [cause.code for cause in diagnose(Evidence(series=series, facts=facts))] == found


@pytest.mark.parametrize(("kind", "rows", "share", "targets", "found"), [
    ("hinge", 134, 0.52, False, []), ("hinge", 134, 0.6, False, ["duplicated_data"]),
    ("mse", 134, 0.52, False, ["duplicated_data"]), ("hinge", 134, 0.52, True, ["duplicated_data"]),
    ("hinge", 600, 0.52, False, ["duplicated_data"]),
])  # fmt: skip
def test_a_loss_of_pairs_draws_few_rows_several_times(kind, rows, share, targets, found):
    """144 draws of half of 134 rows have 59 different ones: 59 % come again."""
    values = {"loss": np.geomspace(1, 0.2, 60), "inputs/batch_size": 144.0, "inputs/duplicates": share,
              "inputs/repeated_rows": 1.0, "inputs/rows_so_far": float(rows)}  # fmt: skip
    series = {name: Series(np.arange(60), np.broadcast_to(np.float64(one), 60)) for name, one in values.items()}
    facts = Facts(
        steps=60,
        inputs=BatchFacts(shape=(144, 13)),
        targets=BatchFacts(shape=(144,)) if targets else None,
        loss=LossFacts(kind=kind, reduction="mean"),
    )
    assert [cause.code for cause in diagnose(Evidence(series=series, facts=facts))] == found


def test_copies_of_two_rows_say_nothing_of_the_order_of_others():
    """As for 16 answers to each question: the mean target of a batch varies as that of two rows does."""
    values = {"loss": np.geomspace(2.3, 0.5, STEPS), "inputs/batch_size": 32.0, "inputs/duplicates": 15 / 16,
              "targets/between_batches": 17.0}  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(np.float64(one), STEPS)) for name, one in values.items()}
    facts = Facts(steps=STEPS, inputs=BatchFacts(shape=(32, 30)), loss=LossFacts(kind="cross_entropy"))
    assert not [cause for cause in diagnose(Evidence(series=series, facts=facts)) if cause.is_likely]
