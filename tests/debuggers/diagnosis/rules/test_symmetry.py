"""Weights that start equal: copies, and units of all layers."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LayerFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = np.arange(12)


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


@pytest.mark.parametrize(("others", "learnt", "is_one"), [(1.0, 0.95, True), (0.0, 0.7, False), (0.0, 0.5, True)])
def test_a_model_of_equal_units_is_named_whatever_is_learnt_and_one_layer_where_little_is(others, learnt, is_one):
    alike = {"fc0.weight": 1.0, "fc1.weight": others}
    found = Evidence(
        series={"loss": Series(STEPS, np.where(STEPS < 4, 2.3, 2.3 * (1 - learnt)))},
        tensors={"unit_similarity": {name: Series(STEPS, np.where(STEPS, 0.0, one)) for name, one in alike.items()}},
        facts=Facts(steps=12, parameters=tuple(ParameterFacts(name=name, shape=(8, 8), mean=0.05) for name in alike)),
    )
    assert ("unbroken_symmetry" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("ratio", "is_one"), [(0.02, True), (0.005, False)])
def test_units_that_begin_equal_are_judged_where_weights_move(ratio, is_one):
    found = Evidence(
        series={"loss": Series(STEPS, np.full(12, 2.3)), "update_ratio": Series(STEPS, np.full(12, ratio))},
        tensors={"unit_similarity": {"fc.weight": Series(STEPS, np.where(STEPS, 0.0, 1.0))}},
        facts=Facts(steps=12, parameters=(ParameterFacts(name="fc.weight", shape=(8, 8), mean=0.05),)),
    )
    assert ("unbroken_symmetry" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize("is_sampled", [True, False])
def test_rows_of_weights_of_which_nothing_is_known_are_not_judged(is_sampled):
    weight = ParameterFacts(name="fc.weight", shape=(8, 8), mean=0.0, std=0.1 * is_sampled, is_sampled=is_sampled)
    found = Evidence(
        series={"loss": Series(STEPS, np.full(12, np.nan))},
        tensors={"unit_similarity": {"fc.weight": Series(STEPS, np.ones(12))}},  # as of NaN
        facts=Facts(steps=12, parameters=(weight,)),
    )
    assert ("unbroken_symmetry" in {cause.code for cause in diagnose(found)}) == is_sampled


@pytest.mark.parametrize(
    ("name", "other", "share", "is_one"),
    [
        ("mixer.decay", "mixer.output.weight", 0.0, False),
        ("mixer.decay", "mixer.output.weight", 1.0, True),
        ("mixer.decay", "head.weight", 0.0, True),
        ("mixer.decay", "mixers.weight", 0.0, True),
        ("decay", "head.weight", 0.0, True),
        ("decay", "mixing", 0.0, False),
    ],
)
def test_channels_that_begin_with_one_decay_are_told_apart_by_other_weights_of_their_module(name, other, share, is_one):
    """As in state-space layers, S4D's and Mamba's."""
    shares = {name: 1.0, other: share}
    found = Evidence(
        series={"loss": Series(STEPS, np.where(STEPS < 4, 2.3, 1.4))},
        tensors={"unit_similarity": {one: Series(STEPS, np.where(STEPS, 0.0, first)) for one, first in shares.items()}},
        facts=Facts(
            steps=12,
            parameters=tuple(
                ParameterFacts(name=one, shape=(8, 8), mean=-0.5 if one == name else 0.0) for one in shares
            ),
        ),
    )
    assert ("unbroken_symmetry" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("similar", "first"), [(1.0, "unbroken_symmetry"), (0.0, "learning_rate_too_high")])
def test_updates_are_large_beside_weights_that_are_equal_and_small(similar, first):
    ratios = np.r_[6.0, np.full(11, 0.3)]
    found = Evidence(
        series={"loss": Series(STEPS, np.r_[2.3, np.full(11, 9.0)]), "update_ratio": Series(STEPS, ratios)},
        tensors={"unit_similarity": {"fc0.weight": Series(STEPS, np.full(12, similar))}},
        facts=Facts(steps=12, parameters=(ParameterFacts(name="fc0.weight", shape=(8, 8), mean=0.01),)),
    )
    assert diagnose(found)[0].code == first


@pytest.mark.parametrize(("kind", "columns", "is_one"), [
    ("Embedding", 1, False), ("Embedding", 4, True), ("Linear", 1, True), ("", 1, False),
])  # fmt: skip
def test_tables_of_biases_may_stay_equal(kind, columns, is_one):
    """The bias of a user adds the same to all scores that are compared; units with one input are equal by mistake."""
    layers = (LayerFacts(name="part", kind=kind),) if kind else ()
    found = Evidence(
        series={"loss": Series(STEPS, np.geomspace(2.3, 1.8, 12))},
        tensors={"unit_similarity": {"part.weight": Series(STEPS, np.ones(12))}},
        facts=Facts(steps=12, layers=layers, parameters=(ParameterFacts(name="part.weight", shape=(64, columns)),)),
    )
    assert ("unbroken_symmetry" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("inputs", "is_one"), [(8, True), (16, False)])
def test_equal_weights_of_linear_layers_side_by_side_are_told_apart_by_their_targets(inputs, is_one):
    """A seasonal and a trend part that begin as means, of which neither reads what the other one puts out."""
    names = ("seasonal.weight", "trend.weight")
    found = Evidence(
        series={"loss": Series(STEPS, np.where(STEPS < 4, 2.3, 0.2))},
        tensors={"unit_similarity": {name: Series(STEPS, np.where(STEPS, 0.0, 1.0)) for name in names}},
        facts=Facts(
            steps=12, parameters=tuple(ParameterFacts(name=name, shape=(8, inputs), mean=0.1) for name in names)
        ),
    )
    assert ("unbroken_symmetry" in [cause.code for cause in diagnose(found)]) == is_one
