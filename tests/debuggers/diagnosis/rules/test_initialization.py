"""Signs of weights that start wrong, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LayerFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.rules.initialization import gains
from debuggers.diagnosis.series import Series

STEPS = np.arange(12)
ZEROS, MOVED = np.zeros(12), np.minimum(STEPS, 1) * 0.1


@pytest.mark.parametrize(
    ("std", "role", "outputs", "is_one"),
    [
        (0.0, "trained", ZEROS, True),
        (0.0, "trained", MOVED, False),
        (0.1, "trained", ZEROS, False),
        (0.0, "frozen", ZEROS, False),
        (0.0, "trained", ZEROS[:9], False),
    ],
)
def test_gains_of_zero_that_nothing_can_move_are_a_wrong_start(std, role, outputs, is_one):
    """The last gains of residual branches start at zero, too, and leave it with the first step."""
    gain = ParameterFacts(name="norm.weight", shape=(8,), std=std, role=role)
    seen = Series(STEPS[: len(outputs)], outputs)
    found = Evidence(
        series={"loss": Series(STEPS, np.full(12, 2.3))},
        tensors={name: {"norm": seen} for name in ("output_std", "output_mean")},
        facts=Facts(steps=12, parameters=(gain,)),
    )
    codes = [cause.code for cause in diagnose(found)]

    assert codes == ["poor_initialization"] * is_one


@pytest.mark.parametrize(
    ("std", "norm", "restored", "is_one"),
    [
        (0.01, "", 1.0, True),
        (0.01, "LayerNorm", 1.0, False),
        (0.01, "LayerNorm", 0.1, True),
        (2.0, "LayerNorm", 1.0, True),
    ],
)
def test_small_weights_with_a_normalisation_behind_them_are_no_wrong_start(std, norm, restored, is_one):
    layers = [LayerFacts(name="fc", kind="Linear"), *([LayerFacts(name="norm", kind=norm)] if norm else [])]
    found = Evidence(
        series={"loss": Series(STEPS, np.full(12, 2.3))},
        tensors={"output_std": {"norm": Series(STEPS, np.full(12, restored))}},
        facts=Facts(
            steps=12, layers=tuple(layers), parameters=(ParameterFacts(name="fc.weight", shape=(16, 16), std=std),)
        ),
    )
    assert [cause.code for cause in diagnose(found)] == ["poor_initialization"] * is_one


def test_the_fan_of_a_transposed_weight_is_its_first_dimension():
    weight = ParameterFacts(name="fc.weight", shape=(64, 16), std=0.01)
    kinds = ("Linear", "Conv1D")
    found = [gains(Facts(layers=(LayerFacts(name="fc", kind=kind),), parameters=(weight,))) for kind in kinds]
    assert [one["fc.weight"] for one in found] == pytest.approx([0.04, 0.08])
