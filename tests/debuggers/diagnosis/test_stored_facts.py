"""Facts and findings survive storing, in bounded size, and what is damaged or of another version is left out."""

import json
import math
import subprocess
import sys
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.facts import (
    BatchFacts,
    Facts,
    GroupFacts,
    InvariantFacts,
    LayerFacts,
    LossFacts,
    ParameterFacts,
)
from debuggers.diagnosis.stored_facts import MAX_BYTES, decode, encode

FINDING = Finding(
    kind="exploding_gradient",
    name="fc1.weight",
    level="error",
    step=3,
    last_step=9,
    steps=5,
    ongoing=True,
    value=math.inf,
    threshold=10.0,
    evidence="its norm is inf",
    rule="a formula",
)
FACTS = Facts(
    steps=10,
    last_step=9,
    model="Net",
    parameters=(ParameterFacts(name="fc1.weight", shape=(3, 4), dtype="float32", mean=-math.inf, std=0.1),),
    layers=(LayerFacts(name="drop", kind="Dropout", value=0.5), LayerFacts(name="fc1", kind="Linear")),
    optimizer="SGD",
    groups=(GroupFacts(parameters=2, settings={"lr": 0.1, "nesterov": False, "betas": (0.9, 0.99), "eps": None}),),
    loss=LossFacts(kind="mse", nodes=("MseLossBackward0",), outputs_shape=(2, 1)),
    inputs=BatchFacts(shape=(2, 4), dtype="float32"),
    invariants=(InvariantFacts(name="gradients_zeroed", checked=9, broken=2, first_step=4, where="fc1"),),
    not_told=("targets: pass targets= to session.step",),
    probes={"fit": {"loss": [1.0, 0.5]}},
)


def test_what_is_stored_is_read():
    assert decode(encode(FACTS, [FINDING])) == (FACTS, (FINDING,))
    assert decode(encode(Facts())) == (Facts(), ())


def test_nan_is_kept():
    stored = encode(Facts(parameters=(ParameterFacts(name="w", std=math.nan),)), [replace(FINDING, value=math.nan)])
    facts, (finding,) = decode(stored)

    assert math.isnan(facts.parameters[0].std)
    assert math.isnan(finding.value)


def test_unknown_missing_and_wrong_fields_are_left_out():
    content = json.loads(encode(FACTS, [FINDING]))
    content["facts"] |= {"steps": "many", "colour": "blue", "loss": {"kind": "mse", "hue": 1, "factor": [2]}}
    content["facts"]["parameters"] += [{"shape": [1]}, 7, {"name": "b", "role": "actor"}]
    content["findings"] += [{"kind": "half"}, None, 3]
    facts, findings = decode(json.dumps(content))

    assert (facts.steps, facts.model, facts.last_step) == (0, "Net", 9)
    assert facts.loss == LossFacts(kind="mse")
    assert [one.name for one in facts.parameters] == ["fc1.weight", "b"]
    assert findings == (FINDING,)


@pytest.mark.parametrize("text", ["", "[", "[]", "3", '{"facts": 3, "findings": {}}', "[" * 100_000, '{"a":\ud800}'])
def test_what_is_none_of_ours_is_empty(text):
    assert decode(text) == (Facts(), ())


def test_the_size_is_bounded_and_what_is_unusual_is_kept_longest():
    many = [ParameterFacts(name=f"block.{number}." + "x" * 300) for number in range(1000)]
    odd = ParameterFacts(name="head.bias", role="outside_optimizer")
    text = encode(Facts(steps=5, parameters=(*many, odd), layers=(LayerFacts(name="a", kind="Linear"),)), [FINDING])
    facts, findings = decode(text)

    assert len(text.encode()) <= MAX_BYTES
    assert (facts.steps, facts.parameters, findings) == (5, (odd,), (FINDING,))
    endless = Facts(steps=5, probes={"x": {"y": ["z" * 400] * 10_000}})
    assert decode(encode(endless))[0] == Facts(steps=5)


KEYS = st.sampled_from(["facts", "findings", "loss", "parameters", "name", "steps"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(KEYS, inner),
    max_leaves=10,
)


@given(VALUES)
def test_any_json_is_read(value):
    facts, findings = decode(json.dumps(value))

    assert isinstance(facts, Facts)
    assert isinstance(findings, tuple)


def test_no_torch_is_needed():
    code = "import sys; import debuggers.diagnosis.stored_facts; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, timeout=60)
