"""Signs of parameters that take no part, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, InvariantFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = 60


@pytest.mark.parametrize(("broken", "is_one"), [(8, True), (4, False)])
def test_weights_that_the_model_does_not_know_are_in_no_optimizer(broken, is_one):
    invariant = InvariantFacts(name="weights_are_registered", checked=9, broken=broken, first_step=1, where="(6, 64)")
    causes = diagnose(Evidence(facts=Facts(steps=STEPS, invariants=(invariant,))))

    assert [cause.code for cause in causes] == ["parameters_not_in_optimizer"] * is_one
    if is_one:
        assert "(6, 64)" in causes[0].evidence[0]
        assert "ModuleList" in causes[0].advice


def test_steps_that_change_nothing_do_not_follow_from_large_inputs():
    values = {"update_ratio": 0.0, "total_norm/gradients": 1.0, "inputs/mean": 0.0, "inputs/std": 100.0, "loss": 2.3}
    series = {name: Series(np.arange(STEPS), np.full(STEPS, value)) for name, value in values.items()}

    assert diagnose(Evidence(series=series, facts=Facts(steps=STEPS)))[0].code == "no_update"


def _of_roles(*roles, std=1.0, falls_to=0.5):
    """Linear layers with 12 inputs, of which PyTorch's own first weights have a deviation of 1/6, and norms."""
    parameters = tuple(
        ParameterFacts(name=f"{place}.weight", shape=(12,) if role == "norm" else (12, 12), std=std / 6,
                       role="trained" if role == "norm" else role)
        for place, role in enumerate(roles)
    )  # fmt: skip
    loss = Series(np.arange(200), np.geomspace(2.0, 2.0 * falls_to, 200))
    return Evidence(series={"loss": loss}, facts=Facts(steps=200, parameters=parameters))


@pytest.mark.parametrize(
    ("roles", "is_one"),
    [
        (("without_gradient", "without_gradient", "trained"), True),
        (("frozen", "without_gradient", "trained"), True),
        (("trained", "trained", "without_gradient"), False),
        (("trained", "without_gradient", "trained"), False),
    ],
)
def test_layers_before_all_trained_ones_are_cut_off_even_where_no_layer_was_seen_to_run(roles, is_one):
    codes = [cause.code for cause in diagnose(_of_roles(*roles, std=0.1))]

    assert ("detached_parameters" in codes) == is_one


@pytest.mark.parametrize(
    ("roles", "std", "falls_to", "is_one"),
    [
        (("frozen", "norm", "frozen", "norm"), 1.0, 0.6, True),
        (("frozen", "norm", "frozen", "norm"), 2.0, 0.6, False),
        (("frozen", "norm", "trained"), 1.0, 0.6, False),
        (("frozen", "norm", "frozen", "norm"), 1.0, 0.3, False),
    ],
)
def test_norms_alone_leave_a_model_of_random_projections(roles, std, falls_to, is_one):
    codes = [cause.code for cause in diagnose(_of_roles(*roles, std=std, falls_to=falls_to))]

    assert ("frozen_parameters" in codes) == is_one
