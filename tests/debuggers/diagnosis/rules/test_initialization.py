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


def _branches(first, last, *, mean=0.01, role="trained"):
    weights = tuple(
        ParameterFacts(name=f"branches.{place}.weight", shape=(4, 16), mean=one, std=0.1, role=role)
        for place, one in enumerate((0.01, mean, 0.02))
    )
    ends = ((first[0], last[0]), (first[1], last[1]), (0.2, 0.3))
    sizes = {one.name: Series(STEPS, np.linspace(*pair, 12)) for one, pair in zip(weights, ends, strict=True)}
    return Evidence(
        series={"loss": Series(STEPS, np.linspace(2.3, 1.5, 12))},
        tensors={"weight_rms": sizes},
        facts=Facts(steps=12, parameters=weights),
    )


@pytest.mark.parametrize(
    ("found", "is_one"),
    [
        (_branches((0.1, 0.1), (0.2, 0.2)), True),
        (_branches((0.1, 0.1), (0.2, 0.2001)), False),  # they have parted
        (_branches((0.1, 0.1), (0.1, 0.1)), False),  # nothing has trained them
        (_branches((0.1, 0.1), (0.2, 0.2), mean=0.03), False),
        (_branches((0.1, 0.1), (0.2, 0.2), role="frozen"), False),
    ],
)
def test_copies_that_stay_equal_through_the_training_are_one(found, is_one):
    causes = {cause.code: cause for cause in diagnose(found)}

    assert ("unbroken_symmetry" in causes) == is_one
    if is_one:
        assert causes["unbroken_symmetry"].where == ("branches.0.weight", "branches.1.weight")


@pytest.mark.parametrize(("std", "first"), [(1e-5, "poor_initialization"), (0.3, "learning_rate_too_high")])
def test_weights_of_a_wrong_scale_go_before_the_updates_that_are_large_beside_them(std, first):
    """The scale is a fact of the first step; where it is usual, large updates come from the learning rate."""
    found = Evidence(
        series={
            "loss": Series(STEPS, np.full(12, 2.3)),
            "baseline_loss": Series(STEPS, np.full(12, 2.3)),
            "update_ratio": Series(STEPS, np.full(12, 4.0)),
            "weight_norm": Series(STEPS, np.linspace(1, 9, 12)),
        },
        tensors={"output_std": {f"fc{i}": Series(STEPS, np.full(12, 10.0 ** (-2 * i))) for i in range(4)}},
        facts=Facts(steps=12, parameters=(ParameterFacts(name="fc0.weight", shape=(16, 16), std=std),)),
    )
    codes = [cause.code for cause in diagnose(found)]

    assert codes[0] == first
    assert "learning_rate_too_high" in codes
