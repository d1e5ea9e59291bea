"""Inputs of an unusual scale, and what a model makes of them."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss

from debuggers.diagnosis.derived.initial_weights import entering_first_layer
from debuggers.diagnosis.facts import BatchFacts, Facts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose


@pytest.mark.parametrize(("spread", "std", "integer", "is_one"), [
    (90.0, 0.1, True, True), (15.0, 0.1, True, False), (90.0, 0.1, False, False), (90.0, 3.0, True, False),
])  # fmt: skip
def test_whole_numbers_are_judged_by_what_the_first_layer_puts_out_of_them(spread, std, integer, is_one):
    """Weights of a deviation of 0.1 with 36 inputs have a gain of 0.6; larger ones explain the outputs themselves."""
    facts = Facts(
        steps=STEPS,
        inputs=BatchFacts(shape=(32, 36), dtype="uint8", integer=integer),
        layers=(LayerFacts(name="fc", kind="Linear"),),
        parameters=(ParameterFacts(name="fc.weight", shape=(16, 36), std=std),),
    )
    found = evidence(facts=facts, tensors={"output_std": {"fc": np.full(STEPS, spread)}})
    assert ("inputs_not_normalized" in [cause.code for cause in diagnose(found)]) == is_one


def test_inputs_that_are_all_nan_are_no_constant():
    found = evidence(
        facts=Facts(steps=STEPS, inputs=BatchFacts(shape=(16, 64), dtype="float32")), loss=np.full(STEPS, 2.3),
        **{"inputs/non_finite": np.full(STEPS, 1024.0), "inputs/top_row_share": np.ones(STEPS),
           "inputs/batch_size": np.full(STEPS, 16.0), "inputs/std": np.full(STEPS, np.nan)},
    )  # fmt: skip
    assert [cause.code for cause in diagnose(found)][:1] == ["non_finite_inputs"]
    assert "inputs_constant" not in [cause.code for cause in diagnose(found)]


@pytest.mark.parametrize("called", [("first", "last"), ("last", "first")])
def test_what_enters_the_first_layer_enters_the_one_that_is_called_first(called):
    """A head may be made before its body."""
    layers = tuple(LayerFacts(name=name, kind="Linear") for name in ("last", "first"))
    parameters = tuple(ParameterFacts(name=f"{name}.weight", shape=(36, 36), std=0.1) for name in ("last", "first"))
    tensors = {"output_std": {name: np.full(STEPS, 0.5) for name in ("last", "first")}}
    found = evidence(facts=Facts(layers=layers, parameters=parameters, called=called), tensors=tensors)
    assert entering_first_layer(found)[0] == called[0]


@pytest.mark.parametrize(("made", "since", "is_one"), [(True, 20, False), (False, 20, True), (True, 5, True)])
def test_what_weights_have_made_of_a_loss_of_nan_is_no_nan_of_the_data(made, since, is_one):
    """A loop that calls the parts of a model shows what one hands to the next; the loss is NaN from step 10 on."""
    steps = np.arange(STEPS)
    found = evidence(
        facts=Facts(steps=STEPS, inputs=BatchFacts(shape=(16, 64), dtype="float32", requires_grad=made)),
        loss=np.where(steps < 10, 2.3, np.nan),
        **{"inputs/non_finite": np.where(steps < since, 0.0, 900.0), "inputs/top_row_share": np.ones(STEPS),
           "inputs/batch_size": np.full(STEPS, 16.0)},
    )  # fmt: skip
    codes = [cause.code for cause in diagnose(found)]

    assert ("non_finite_inputs" in codes) == is_one
    assert "inputs_constant" not in codes or not made


@pytest.mark.parametrize(("size", "spread", "is_one"), [
    (0.5, 18.1, True), (0.5, 17.9, False), (5.0, 30.1, True), (5.0, 29.9, False),
])  # fmt: skip
def test_inputs_that_a_model_makes_large_itself_are_not_normalised(size, spread, is_one):
    """A gain of 0.6 makes 18 of 30, which is ten times of what usual inputs are, and 30 of 50."""
    facts = Facts(
        steps=STEPS,
        loss=LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(32, 10)),
        layers=(LayerFacts(name="fc", kind="Linear"),),
        parameters=(ParameterFacts(name="fc.weight", shape=(16, 36), std=0.1),),
    )
    signals = {"inputs/mean": np.zeros(STEPS), "inputs/std": np.full(STEPS, size)}
    signals |= {"baseline_loss": np.full(STEPS, 2.3), "targets/classes_so_far": np.full(STEPS, 10)}
    loss = np.geomspace(100, 2.3, STEPS)  # large at first, as what enters
    made = evidence(facts=facts, loss=loss, tensors={"output_std": {"fc": np.full(STEPS, spread)}}, **signals)
    found = [cause.code for cause in diagnose(made)]
    assert ("inputs_not_normalized" in found) == is_one
    assert "poor_initialization" not in found


@pytest.mark.parametrize(("spread", "found"), [(1.79, []), (1.81, ["inputs_not_normalized"])])
def test_what_a_model_scales_itself_is_seen_by_what_its_first_layer_puts_out(spread, found):
    """Inputs of a deviation of 30 that enter scaled to 3 become 1.8 by weights with a gain of 0.6."""
    facts = Facts(
        steps=STEPS,
        layers=(LayerFacts(name="fc", kind="Linear"),),
        parameters=(ParameterFacts(name="fc.weight", shape=(16, 36), std=0.1),),
    )
    signals = {"inputs/mean": np.zeros(STEPS), "inputs/std": np.full(STEPS, 30.0)}
    made = evidence(facts=facts, tensors={"output_std": {"fc": np.full(STEPS, spread)}}, **signals)
    assert [cause.code for cause in diagnose(made)] == found


@pytest.mark.parametrize(("std", "uneven", "within", "last", "found"), [
    (0.99, 2000.0, 0.1, 1.3, ["inputs_not_normalized"]), (1.5, 2000.0, 0.6, 2.3, ["inputs_not_normalized"]),
    (0.99, 2000.0, 0.1, 0.05, []), (0.99, 2000.0, 0.6, 1.3, []), (0.99, 60.0, 0.1, 1.3, []),
    (1.1, 346.0, 0.8, 2.3, []),
])  # fmt: skip
def test_values_that_are_standardised_as_a_whole_leave_features_of_other_units_apart(std, uneven, within, last, found):
    """Pixels of a border vary little, too, but they are in the unit of the others: a typical one varies by as much."""
    loss = np.geomspace(2.3, last, STEPS)
    signals = {"mean": 0.0, "std": std, "scale_ratio": uneven, "batch_std": within}
    told = evidence(
        facts=of_loss(), loss=loss, baseline_loss=np.full(STEPS, 2.3),
        **{f"inputs/{name}": np.full(STEPS, value) for name, value in signals.items()},
    )  # fmt: skip
    causes = diagnose(told)
    assert [cause.code for cause in causes] == found
    assert not found or causes[0].advice.startswith("Standardise each feature with its own mean")


@pytest.mark.parametrize(("largest", "is_one"), [(0.9, False), (300.0, True)])
def test_a_loss_that_falls_from_where_a_first_update_threw_it_excuses_no_inputs(largest, is_one):
    signals = {"inputs/mean": np.full(STEPS, 3e3), "inputs/std": np.full(STEPS, 1e3)}
    ratios = np.r_[largest, np.full(STEPS - 1, 0.01)]
    found = evidence(facts=Facts(steps=STEPS), loss=np.geomspace(1e3, 1e-2, STEPS), update_ratio=ratios, **signals)
    assert ("inputs_not_normalized" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("first", "size", "baseline", "is_one"), [
    (1e4, 300.0, None, True), (250.0, 300.0, None, False), (1e4, 300.0, 1e4, False), (1e4, 25.0, None, False),
])  # fmt: skip
def test_a_loss_that_began_with_the_size_of_the_inputs_excuses_them_by_no_fall(first, size, baseline, is_one):
    """As the likelihood of a density: of what a constant output's is known, what is learnt is known, too."""
    series = {"baseline_loss": np.full(STEPS, baseline)} if baseline else {}
    loss = LossFacts(kind="mse", reduction="mean") if baseline else LossFacts()
    found = evidence(
        facts=Facts(steps=STEPS, loss=loss), loss=np.geomspace(first, first / 1e4, STEPS), **series,
        **{"inputs/mean": np.full(STEPS, size), "inputs/std": np.full(STEPS, 1.0)},
    )  # fmt: skip
    assert ("inputs_not_normalized" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("shape", "integer", "most", "is_one"), [
    ((1, 12), False, 0.0, True), ((1, 12), False, 0.1, False), ((1, 12), True, 0.0, False), ((1, 1), False, 0.0, False),
])  # fmt: skip
def test_inputs_that_are_all_one_number_are_constant_in_batches_of_one_row(shape, integer, most, is_one):
    found = evidence(
        facts=Facts(steps=STEPS, inputs=BatchFacts(shape=shape, integer=integer)),
        **{"inputs/min": np.zeros(STEPS), "inputs/max": np.r_[np.zeros(STEPS - 1), most],
           "inputs/batch_size": np.ones(STEPS)},
    )  # fmt: skip
    assert ("inputs_constant" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("shape", "is_one"), [((32, 64), True), ((32,), False)])
def test_a_sum_of_many_errors_falls_from_what_large_inputs_made_of_it(shape, is_one):
    """The loss of a constant output is known of one error a row alone, and how much of it was learnt."""
    loss = LossFacts(kind="mse", reduction="mean", nodes=("MeanBackward0", "SumBackward1", "PowBackward0"),
                     outputs_shape=shape, factor=64.0)  # fmt: skip
    found = evidence(facts=Facts(steps=STEPS, loss=loss), loss=np.geomspace(1e6, 10, STEPS),
                     **{"inputs/mean": np.full(STEPS, 3000.0), "inputs/std": np.full(STEPS, 300.0),
                        "baseline_loss": np.full(STEPS, 36.0)})  # fmt: skip
    assert ("inputs_not_normalized" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("first", "is_one"), [("Embedding", True), ("LayerNorm", False)])
def test_an_embedding_beside_the_inputs_is_not_what_they_enter(first, is_one):
    """As that of a time in a diffusion model, whose other inputs the first linear layer shows to be about 90."""
    facts = Facts(
        steps=STEPS,
        inputs=BatchFacts(shape=(64,), dtype="int64", integer=True),
        layers=(LayerFacts(name="times", kind=first), LayerFacts(name="fc", kind="Linear")),
        parameters=(
            ParameterFacts(name="times.weight", shape=(40, 16), std=1.0),
            ParameterFacts(name="fc.weight", shape=(16, 36), std=0.1),
        ),
    )
    outputs = {"times": np.full(STEPS, 1.0), "fc": np.full(STEPS, 54.0)}
    found = evidence(facts=facts, tensors={"output_std": outputs})
    assert ("inputs_not_normalized" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("integer", "duplicates", "is_one"), [
    (False, 0.0, True), (True, 0.0, False), (True, 31 / 32, True),
])  # fmt: skip
def test_numbers_that_do_not_vary_beside_codes_may_be_a_mask(integer, duplicates, is_one):
    """Rows are known by all that belongs to them."""
    constant = {"batch_std": 0.0, "std": 0.0, "min": 1.0, "max": 1.0, "batch_size": 32.0, "duplicates": duplicates}
    facts = Facts(steps=STEPS, inputs=BatchFacts(shape=(32, 24), integer=integer))
    found = evidence(
        facts=facts, loss=np.geomspace(2.3, 0.5, STEPS),
        **{f"inputs/{name}": np.full(STEPS, value) for name, value in constant.items()},
    )  # fmt: skip
    assert ("inputs_constant" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("role", "put_out", "is_one"), [
    ("frozen", 1.0, False), ("trained", 1.0, True), ("frozen", 11.0, True),
])  # fmt: skip
def test_a_frozen_first_layer_that_makes_inputs_small_standardises_them(role, put_out, is_one):
    """As a ``MeanShift`` does with pixels up to 255."""
    parameters = (
        ParameterFacts(name="shift.weight", shape=(3, 3, 1, 1), std=0.006, role=role),
        ParameterFacts(name="shift.bias", shape=(3,), mean=-1.6, role=role),
        ParameterFacts(name="head.weight", shape=(8, 3), std=0.3),
    )
    layers = (LayerFacts(name="shift", kind="Conv2d"), LayerFacts(name="head", kind="Linear"))
    found = evidence(
        facts=Facts(steps=STEPS, parameters=parameters, layers=layers),
        tensors={"output_mean": {"shift": np.zeros(STEPS)}, "output_std": {"shift": np.full(STEPS, put_out)}},
        **{"inputs/mean": np.full(STEPS, 105.0), "inputs/std": np.full(STEPS, 65.0)},
    )
    assert ("inputs_not_normalized" in [cause.code for cause in diagnose(found)]) is is_one
