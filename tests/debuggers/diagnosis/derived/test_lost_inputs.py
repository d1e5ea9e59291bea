"""One of several inputs that is the same number in every step."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence

from debuggers.diagnosis.derived.lost_inputs import FEWEST, lost_input
from debuggers.diagnosis.facts import Facts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose


def lost(*, value=0.5, steps=STEPS, apart=1.0, facts=None, tensors=None, loss=None, **signals):
    """Evidence of a second input of 6 values a row, with a loss that stands halfway to 0 by default."""
    signals = {"inputs/one_value": np.full(steps, value), "inputs/one_value_at": np.ones(steps),
               "inputs/one_value_width": np.full(steps, 6.0), "inputs/one_value_apart": np.full(steps, apart),
               "inputs/batch_size": np.full(steps, 32.0)} | signals  # fmt: skip
    loss = np.linspace(2.3, 1.2, STEPS) if loss is None else loss
    return evidence(facts=facts or Facts(steps=STEPS), tensors=tensors, loss=loss, **signals)


def codes(found):
    return {cause.code: cause.confidence for cause in diagnose(found)}


@pytest.mark.parametrize("value", [0.5, 7.0])
def test_an_input_that_is_one_number_in_all_steps_is_named(value):
    found = lost(value=value)
    assert lost_input(found).position == 1
    assert codes(found)["inputs_constant"] > 0.5
    cause = next(cause for cause in diagnose(found) if cause.code == "inputs_constant")
    assert cause.evidence == (f"input 2 of the model is {value:g} throughout, in each of {STEPS} sampled steps",)


@pytest.mark.parametrize("value", [0.0, 1.0])
def test_states_of_zeros_and_weights_of_ones_are_none(value):
    assert lost_input(lost(value=value)) is None


@pytest.mark.parametrize("name", ["", "_at"])
def test_one_that_is_dropped_or_another_in_some_steps_is_not(name):
    values = np.full(STEPS, 0.5)
    values[7] = np.nan if not name else 2
    assert lost_input(lost(**{f"inputs/one_value{name}": values})) is None


@pytest.mark.parametrize(("steps", "is_one"), [(FEWEST, True), (FEWEST - 1, False)])
def test_few_steps_say_nothing_of_all(steps, is_one):
    assert (lost_input(lost(steps=steps)) is not None) == is_one


@pytest.mark.parametrize("facts", [{"joins_calls": True}, {"trained_with_others": True}])
def test_calls_that_are_joined_and_models_of_a_pair_are_left_out(facts):
    assert lost_input(lost(facts=Facts(steps=STEPS, **facts))) is None


@pytest.mark.parametrize(("value", "weight", "bias", "width", "is_one"), [
    (0.0, 0.0, 0.1, 6, True), (0.0, 0.1, 0.1, 6, False), (0.0, 0.0, 0.0, 6, False), (0.0, 0.0, 0.1, 12, False),
    (1.0, 0.0, 0.1, 6, False),
])  # fmt: skip
def test_zeros_count_where_a_layer_of_their_own_reads_them(value, weight, bias, width, is_one):
    """Also where they are as long as another input, as a second measurement is."""
    facts = Facts(steps=STEPS, layers=(LayerFacts(name="fc", kind="Linear"),),
                  parameters=(ParameterFacts(name="fc.weight", shape=(16, width)),))  # fmt: skip
    tensors = {"gradient_rms": {"fc.weight": np.full(STEPS, weight), "fc.bias": np.full(STEPS, bias)}}
    found = lost_input(lost(value=value, apart=0.0, facts=facts, tensors=tensors))
    assert (found is not None and found.reader == "fc") == is_one


@pytest.mark.parametrize(("last", "is_sure"), [(0.26, True), (0.2, False)])
def test_what_nearly_all_is_learnt_without_is_not_missed(last, is_sure):
    facts = Facts(steps=STEPS, loss=LossFacts(kind="cross_entropy", reduction="mean"))
    loss = np.append(np.linspace(2.3, last, 30), np.full(STEPS - 30, last))
    found = codes(lost(facts=facts, loss=loss, **{"baseline_loss": np.full(STEPS, 2.3)}))
    assert (found.get("inputs_constant", 0.0) > 0.5) == is_sure
