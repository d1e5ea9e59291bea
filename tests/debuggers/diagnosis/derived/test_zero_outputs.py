"""Layers that put out nothing but zeros, which a pass may call several times."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence

from debuggers.diagnosis.derived.zero_outputs import always_zero
from debuggers.diagnosis.facts import Facts, LayerFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose


def made(kind, name="shrink", *, deviation=0.0, mean=0.0, steps=STEPS, gradient=0.0):
    parameters = (ParameterFacts(name="mix.weight", shape=(8, 8), std=0.2),)
    layers = (LayerFacts(name="mix", kind="Linear"), LayerFacts(name=name, kind=kind))
    values = {"output_std": deviation, "output_mean": mean}
    tensors = {key: {name: np.full(steps, value)} for key, value in values.items()}
    tensors["gradient_rms"] = {"mix.weight": np.full(STEPS, gradient)}
    return evidence(facts=Facts(steps=STEPS, parameters=parameters, layers=layers), tensors=tensors)


@pytest.mark.parametrize(("kind", "fields", "is_zero"), [
    ("Softshrink", {}, True), ("Mask", {}, True), ("Softshrink", {"deviation": 1e-9}, False),
    ("Softshrink", {"mean": 1e-9}, False), ("Softshrink", {"steps": 4}, False), ("Dropout", {}, False),
    ("Linear", {"name": "mix"}, False),
])  # fmt: skip
def test_outputs_that_are_zero_at_each_step_are_those_of_units_that_are_dead(kind, fields, is_zero):
    found = made(kind, **fields)

    assert bool(always_zero(found)) is is_zero
    assert ("dead_units" in [cause.code for cause in diagnose(found)]) is is_zero


@pytest.mark.parametrize(("kind", "is_dead"), [("Softshrink", True), ("Mask", False)])
def test_zeros_of_a_class_that_is_not_known_matter_where_weights_wait_for_it_in_vain(kind, is_dead):
    """A mask that hides nothing is added to what passes beside it."""
    assert ("dead_units" in [cause.code for cause in diagnose(made(kind, gradient=0.1))]) is is_dead
