"""Layers that put out nothing but zeros, which a pass may call several times."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence

from debuggers.diagnosis.derived.zero_outputs import always_zero
from debuggers.diagnosis.facts import Facts, LayerFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose


def made(kind, name="shrink", *, deviation=0.0, mean=0.0, steps=STEPS):
    parameters = (ParameterFacts(name="mix.weight", shape=(8, 8), std=0.2),)
    layers = (LayerFacts(name="mix", kind="Linear"), LayerFacts(name=name, kind=kind))
    values = {"output_std": deviation, "output_mean": mean}
    tensors = {key: {name: np.full(steps, value)} for key, value in values.items()}
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
