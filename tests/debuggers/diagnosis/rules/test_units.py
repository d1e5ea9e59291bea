"""Signs of single units, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence, of_loss

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.facts import Facts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose

FALLING = np.geomspace(2.3, 0.2, STEPS)


def _codes(found):
    return [cause.code for cause in diagnose(found)]


@pytest.mark.parametrize(("kind", "zeros", "gradient", "is_one"), [
    ("Threshold", 1.0, 0.1, True), ("Hardshrink", 0.9995, 0.1, True), ("Softshrink", 0.95, 0.0, False),
    ("Dropout", 1.0, 0.0, False), ("Mask", 1.0, 0.0, True), ("Mask", 1.0, 0.1, False), ("Mask", 0.998, 0.0, False),
])  # fmt: skip
def test_a_layer_that_lets_nothing_pass_is_dead(kind, zeros, gradient, is_one):
    layers = (LayerFacts(name="mix", kind="Linear"), LayerFacts(name="cut", kind=kind))
    parameters = (ParameterFacts(name="mix.weight", shape=(8, 8), std=0.2),)
    found = evidence(
        facts=Facts(steps=STEPS, layers=layers, parameters=parameters, loss=LossFacts(kind="cross_entropy")),
        tensors={
            "output_zeros": {"cut": np.full(STEPS, zeros)}, "gradient_rms": {"mix.weight": np.full(STEPS, gradient)},
        },
    )  # fmt: skip
    assert ("dead_units" in _codes(found)) == is_one


def test_of_a_class_that_is_not_known_nothing_may_ever_have_passed():
    zeros = np.ones(STEPS)
    zeros[0] = 0.9
    for kind, is_one in (("Mask", False), ("Threshold", True)):
        found = evidence(
            facts=Facts(steps=STEPS, layers=(LayerFacts(name="cut", kind=kind),), loss=LossFacts(kind="cross_entropy")),
            tensors={"output_zeros": {"cut": zeros}},
        )
        assert ("dead_units" in _codes(found)) is is_one


@pytest.mark.parametrize(("first", "behind", "outputs", "saturated", "is_one"), [
    (0.4, 0.0, 0.0, 0.0, True),
    (0.0, 0.0, 0.0, 0.0, False),  # the inputs themselves are constant
    (0.4, 1e-9, 0.0, 0.0, False),
    (0.4, 0.0, 1e-9, 0.0, False),  # another branch passes them on
    (0.4, 0.0, 0.0, 0.9, False),
])  # fmt: skip
def test_between_outputs_that_vary_and_outputs_that_never_do_everything_is_cut_off(
    first, behind, outputs, saturated, is_one
):
    layers = tuple(LayerFacts(name=name, kind="Linear") for name in ("a", "b"))
    parameters = tuple(ParameterFacts(name=f"{name}.weight", shape=(8, 8), std=0.2) for name in ("a", "b"))
    spread = {"a": np.full(STEPS, first), "b": np.full(STEPS, behind)}
    signals = {"outputs/batch_std": np.full(STEPS, outputs), "inputs/batch_size": np.full(STEPS, 32.0)}
    found = evidence(
        facts=Facts(steps=STEPS, layers=layers, parameters=parameters, loss=LossFacts(kind="cross_entropy")),
        tensors={"output_batch_std": spread, "saturated": {"c": np.full(STEPS, saturated)}}, **signals,
    )  # fmt: skip
    assert ("dead_units" in _codes(found)) is is_one


@pytest.mark.parametrize("is_found", [True, False])
def test_the_layer_registered_last_may_be_inside_the_model(is_found):
    """Only a layer that makes no outputs has the finding."""
    finding = Finding(kind="saturated_units", name="gate", level="warning", step=0, last_step=9, steps=10, ongoing=True,
                      value=0.95, threshold=0.9, evidence="evidence", rule="rule")  # fmt: skip
    layers = (LayerFacts(name="head", kind="Linear"), LayerFacts(name="gate", kind="Sigmoid"))
    found = evidence(
        facts=Facts(steps=STEPS, layers=layers, loss=LossFacts(kind="cross_entropy")),
        tensors={"saturated": {"gate": np.full(STEPS, 0.95)}},
        findings=(finding,) if is_found else (),
    )
    assert _codes(found) == ["saturated_units"] * is_found


@pytest.mark.parametrize(("first", "late", "learnt", "is_one"), [
    (0.6, 0.6, 0.1, True), (0.6, 0.6, 0.02, False), (0.95, 0.95, 0.02, True), (0.2, 0.6, 0.02, True),
])  # fmt: skip
def test_units_that_answer_from_the_first_step_on_would_have_learnt_something(first, late, learnt, is_one):
    share = np.r_[np.full(5, first), np.full(STEPS - 5, late)]
    found = evidence(
        facts=of_loss(), loss=2.3 * (1 - np.linspace(0, learnt, STEPS)), tensors={"dead_units": {"act": share}}
    )
    assert ("dead_units" in _codes(found)) == is_one


@pytest.mark.parametrize(("late", "since"), [(0.6, 0), (0.95, 30)])
def test_a_layer_whose_last_units_die_is_dead_since_then(late, since):
    share = np.where(np.arange(STEPS) < 30, 0.6, late)
    found = evidence(facts=of_loss(), loss=np.linspace(2.3, 2.1, STEPS), tensors={"dead_units": {"act": share}})
    (cause,) = [one for one in diagnose(found) if one.code == "dead_units"]
    assert cause.since_step == since


@pytest.mark.parametrize(("first", "last", "is_one"), [(0.91, 0.91, True), (0.5, 0.91, False), (0.91, 0.89, False)])
def test_units_of_which_nine_of_ten_are_saturated_from_the_first_are_named_whatever_is_learnt(first, last, is_one):
    shares = np.r_[first, np.full(STEPS - 1, last)]
    found = evidence(facts=Facts(steps=STEPS), tensors={"saturated": {"tanh": shares}}, loss=FALLING)
    assert _codes(found) == ["saturated_units"] * is_one


@pytest.mark.parametrize(("dead", "is_one"), [(0.91, True), (0.89, False)])
def test_a_layer_of_which_nine_of_ten_units_die_is_named_whatever_is_learnt(dead, is_one):
    shares = np.r_[0.1, np.full(STEPS - 1, dead)]
    found = evidence(facts=Facts(steps=STEPS), tensors={"dead_units": {"fc": shares}}, loss=FALLING)
    assert _codes(found) == ["dead_units"] * is_one


@pytest.mark.parametrize("layer", ["lstm", ""])
@pytest.mark.parametrize(("bias", "deviation", "is_one"), [(2.0, 0.1, True), (1.4, 0.1, False), (2.0, 1.0, False)])
def test_a_bias_that_holds_all_gates_of_a_recurrence_saturates_them(layer, bias, deviation, is_one):
    """One of the forget gate alone is a quarter of it, and others are far from it."""
    biases = tuple(
        ParameterFacts(name=f"{layer}.bias_{side}_l0".lstrip("."), shape=(32,), mean=bias, std=deviation)
        for side in ("ih", "hh")
    )
    facts = Facts(steps=STEPS, layers=(LayerFacts(name=layer, kind="LSTM"),), parameters=biases)
    assert ("saturated_units" in _codes(evidence(facts=facts, loss=FALLING))) == is_one


@pytest.mark.parametrize(("last", "is_one"), [(0.92, True), (0.85, False)])
def test_units_that_come_back_are_not_lost_where_much_is_learnt(last, is_one):
    """Nine of ten are dead in the median of the last third in both."""
    shares = np.r_[np.linspace(0.05, 0.92, STEPS // 2), np.full(STEPS // 2 - 3, 0.92), [last] * 3]
    found = evidence(
        facts=of_loss(), loss=FALLING, baseline_loss=np.full(STEPS, 2.3), tensors={"dead_units": {"fc": shares}}
    )
    assert ("dead_units" in _codes(found)) is is_one
