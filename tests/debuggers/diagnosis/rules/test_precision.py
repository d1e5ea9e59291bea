"""Gradients that float16 cannot hold."""

import numpy as np
import pytest
from made_evidence import STEPS, evidence

from debuggers.diagnosis.facts import Facts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose


@pytest.mark.parametrize(("size", "dtype", "learnt", "is_one"), [
    (5e-5, "float16", 0.1, True), (7e-5, "float16", 0.1, False), (5e-5, "float32", 0.1, False),
    (5e-5, "float16", 0.5, False),
])  # fmt: skip
def test_gradients_below_the_smallest_normal_number_underflow_where_nothing_is_learnt(size, dtype, learnt, is_one):
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), dtype=dtype, std=0.2)
    found = evidence(
        facts=Facts(steps=STEPS, parameters=(weight,)), loss=np.linspace(2.3, 2.3 * (1 - learnt), STEPS),
        tensors={"gradient_rms": {"fc.weight": np.full(STEPS, size)}},
    )  # fmt: skip
    assert ("fp16_underflow" in [cause.code for cause in diagnose(found)]) == is_one
