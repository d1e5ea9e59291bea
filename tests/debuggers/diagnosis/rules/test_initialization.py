"""Signs of weights that start wrong, beside those of which each cause has one in the tests of all rules."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from made_evidence import STEPS as COUNT
from made_evidence import evidence

from debuggers.diagnosis.derived.initial_weights import fresh_weights, gains
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
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
    weights = [ParameterFacts(name="fc.weight", shape=(16, 16), std=std)]
    if std < 1:  # of the last layer alone, a small weight leaves the outputs nearly constant, which is a start
        weights.append(ParameterFacts(name="head.weight", shape=(16, 16), std=0.25))
    found = Evidence(
        series={"loss": Series(STEPS, np.full(12, 2.3))},
        tensors={"output_std": {"norm": Series(STEPS, np.full(12, restored))}},
        facts=Facts(steps=12, layers=(*layers, LayerFacts(name="head", kind="Linear")), parameters=tuple(weights)),
    )
    assert [cause.code for cause in diagnose(found)] == ["poor_initialization"] * is_one


@pytest.mark.parametrize(("name", "rows", "has_scale"), [
    ("picture", 16, False), ("fc.rho", 16, False), ("fc.weight", 16, True), ("kernel1", 16, True),
    ("block.query", 16, True), ("block.w_k", 16, True), ("block.v_proj", 16, True),
    ("block.query", 12, False),  # twelve of them, which are trained themselves
    ("block.monkey", 16, False),
])  # fmt: skip
def test_only_weights_have_a_scale(name, rows, has_scale):
    """Not a picture that is trained itself, nor the logarithms of deviations: no product takes them."""
    one = ParameterFacts(name=name, shape=(rows, 16), std=3.0)
    layers = (LayerFacts(name="", kind="Net"), LayerFacts(name="fc", kind="Noisy"))
    assert (name in gains(Facts(layers=layers, parameters=(one,)))) == has_scale


def test_the_fan_of_a_transposed_weight_is_its_first_dimension():
    weight = ParameterFacts(name="fc.weight", shape=(64, 16), std=0.01)
    kinds = ("Linear", "Conv1D")
    found = [gains(Facts(layers=(LayerFacts(name="fc", kind=kind),), parameters=(weight,))) for kind in kinds]
    assert [one["fc.weight"] for one in found] == pytest.approx([0.04, 0.08])


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
        facts=Facts(
            steps=12,
            parameters=(
                ParameterFacts(name="fc0.weight", shape=(16, 16), std=std),
                ParameterFacts(name="fc3.weight", shape=(16, 16), std=0.25),
            ),
        ),
    )
    codes = [cause.code for cause in diagnose(found)]

    assert codes[0] == first
    assert "learning_rate_too_high" in codes


def _starting(*weights, outputs=1.0, is_sampled=True):
    parameters = tuple(
        ParameterFacts(name=f"fc{place}.weight", shape=(64, 64), mean=mean, std=std, is_sampled=is_sampled)
        for place, (mean, std) in enumerate(weights)
    )
    many = {"outputs/std": outputs, "targets/mean": 0.0, "targets/std": 1.0, "loss": 2.3}
    return Evidence(
        series={name: Series(STEPS, np.full(12, value)) for name, value in many.items()},
        facts=Facts(steps=12, parameters=parameters, loss=LossFacts(kind="mse", reduction="mean")),
    )


@pytest.mark.parametrize(
    ("found", "is_one"),
    [
        (_starting((0.5, 0.29)), True),  # drawn from 0 to 1
        (_starting((0.02, 0.1)), False),
        (_starting((0.05, 0.01)), False),  # a mean over 64 inputs is 0.016 each
        (_starting((0.0, 0.0), (0.0, 0.0)), True),
        (_starting((0.0, 0.0), (0.0, 0.0), is_sampled=False), False),  # as on the meta device
        (_starting((0.0, 0.0)), False),  # a single layer may begin at zero
        (_starting((0.0, 0.0), (0.0, 0.1)), False),
        (_starting((0.0, 0.1), outputs=12.0), True),
        (_starting((0.0, 0.1), outputs=9.0), False),
    ],
)
def test_weights_of_one_sign_or_all_zero_and_first_outputs_far_off_the_targets_are_a_wrong_start(found, is_one):
    assert ("poor_initialization" in [cause.code for cause in diagnose(found)]) == is_one


def _of_layers(*parameters, tensors, learnt=0.05):
    """A training whose loss falls by some share, with a series of one value for each signal of a tensor."""
    looks = {
        name: {of: Series(STEPS, np.full(12, value)) for of, value in each.items()} for name, each in tensors.items()
    }
    flat = {name: Series(STEPS, np.full(12, value)) for name, value in [("inputs/std", 1.0), ("baseline_loss", 2.3)]}
    return Evidence(
        series=flat | {"loss": Series(STEPS, np.linspace(2.3, 2.3 * (1 - learnt), 12))},
        tensors=looks,
        facts=Facts(
            steps=12, parameters=parameters, layers=tuple(LayerFacts(name=str(at), kind="Linear") for at in range(3)),
            loss=LossFacts(kind="cross_entropy", reduction="mean"),
        ),
    )  # fmt: skip


@pytest.mark.parametrize(("layer", "std", "varies", "is_one"), [
    ("0", 28.0, 0.15, True), ("0", 28.0, 5.0, False), ("0", 4.0, 0.15, False), ("1", 28.0, 0.15, False),
])  # fmt: skip
def test_biases_that_drown_what_varies_are_a_wrong_start_except_for_those_of_the_outputs(layer, std, varies, is_one):
    biases = [ParameterFacts(name=f"{at}.bias", shape=(48,), std=std if at == layer else 0.1) for at in "01"]
    found = _of_layers(*biases, tensors={"output_batch_std": {"0": varies, "1": varies}})
    assert [cause.code for cause in diagnose(found)] == ["poor_initialization"] * is_one


@pytest.mark.parametrize(("least", "is_one"), [(0.6, True), (0.4, False)])
def test_weights_that_are_all_somewhat_too_large_are_a_wrong_start(least, is_one):
    """One of 48 inputs is above what a single weight may be; those of 36 are at 3.6 or 2.4."""
    sizes = {"0": (0.8, 48), "1": (least, 36), "2": (least, 36)}
    weights = [ParameterFacts(name=f"{at}.weight", shape=(8, many), std=std) for at, (std, many) in sizes.items()]
    found = _of_layers(*weights, tensors={}, learnt=0.4)
    assert [cause.code for cause in diagnose(found)] == ["poor_initialization"] * is_one


@pytest.mark.parametrize(("rows", "is_one"), [(10, True), (100, False)])
def test_weights_of_which_nearly_all_are_somewhat_too_large_are_a_wrong_start(rows, is_one):
    """Gains of 5.6, 4 and 4, and a fourth of 0.5 that is a twentieth or a third of the model."""
    sizes = [(0.7, 64), (0.5, 64), (0.5, 64), (0.0625, rows)]
    weights = [ParameterFacts(name=f"{at}.weight", shape=(many, 64), std=std) for at, (std, many) in enumerate(sizes)]
    layers = tuple(LayerFacts(name=str(at), kind="Linear") for at in range(4))
    found = _of_layers(*weights, tensors={}, learnt=0.4)
    found = Evidence(series=found.series, facts=msgspec.structs.replace(found.facts, layers=layers))
    assert ("poor_initialization" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("spread", "last", "is_one"), [(6.0, 2.0, True), (4.0, 2.0, False), (6.0, 0.5, False)])
def test_first_outputs_are_far_off_where_the_loss_never_comes_down_to_a_constant_output(spread, last, is_one):
    """Targets of a deviation of 1: outputs of 6 begin with a loss of 37."""
    flat = {"outputs/std": spread, "targets/mean": 0.0, "targets/std": 1.0, "baseline_loss": 1.0}
    series = {name: Series(STEPS, np.full(12, value)) for name, value in flat.items()}
    series["loss"] = Series(STEPS, np.geomspace(1 + spread**2, last, 12))
    facts = Facts(steps=12, loss=LossFacts(kind="mse", reduction="mean"))
    assert ("poor_initialization" in [cause.code for cause in diagnose(Evidence(series=series, facts=facts))]) == is_one


@pytest.mark.parametrize(("second", "floor", "is_one"), [(2.0, 1.1, True), (0.1, 1.1, False), (2.0, 1.2, False)])
def test_weights_that_are_all_far_too_large_are_a_wrong_start_however_much_is_learnt(second, floor, is_one):
    """Their gains are 16, and 0.8 where the second weight is usual: what was learnt speaks against that then.

    So it does where the first loss, 2.3, is near that of a constant output: layers may scale their weights.
    """
    weights = [ParameterFacts(name=f"{at}.weight", shape=(8, 64), std=std) for at, std in enumerate((2.0, second))]
    found = _of_layers(*weights, tensors={}, learnt=0.95)
    found = Evidence(series={**found.series, "baseline_loss": Series(STEPS, np.full(12, floor))}, facts=found.facts)
    assert any(cause.confidence > 0.5 for cause in diagnose(found)) == is_one


@pytest.mark.parametrize(("weight", "bias", "zeros", "is_one"), [
    (0.0, 0.05, 0.0, True), (1e-9, 0.05, 0.0, False), (0.0, 0.0, 0.0, False), (0.0, 0.05, 1.0, False),
])  # fmt: skip
def test_a_bias_that_moves_alone_says_that_zeros_enter_its_layer_from_the_start(weight, bias, zeros, is_one):
    parameters = ParameterFacts(name="2.weight", shape=(3, 24), std=0.1), ParameterFacts(name="2.bias", shape=(3,))
    found = _of_layers(
        *parameters, tensors={"gradient_rms": {"2.weight": weight, "2.bias": bias}, "output_zeros": {"1": zeros}}
    )
    assert ("poor_initialization" in [cause.code for cause in diagnose(found)]) == is_one


def test_the_last_weight_may_be_small():
    """Its outputs begin as nearly constant ones, and nothing behind it gets less for that."""
    stds = {"fc.weight": 0.25, "head.weight": 0.001}
    found = {}
    for order in (["fc.weight", "head.weight"], ["head.weight", "fc.weight"]):
        weights = tuple(ParameterFacts(name=name, shape=(16, 16), std=stds[name]) for name in order)
        made = Evidence(series={"loss": Series(STEPS, np.full(12, 2.3))}, facts=Facts(steps=12, parameters=weights))
        found[order[-1]] = [cause.code for cause in diagnose(made)]
    assert found == {"head.weight": [], "fc.weight": ["poor_initialization"]}


@pytest.mark.parametrize(("reduction", "factor", "first", "is_one"), [
    ("sum", 1.0, 148.0, False), ("sum", 1.0, 1500.0, True), ("sum", 1 / 64, 2.3, False), ("sum", 1 / 64, 148.0, True),
    ("mean", 1.0, 148.0, True),
])  # fmt: skip
def test_a_summed_loss_begins_as_high_as_the_guesses_of_all_rows(reduction, factor, first, is_one):
    loss = LossFacts(
        kind="cross_entropy", reduction=reduction, factor=factor, outputs_shape=(64, 10), targets_shape=(64,)
    )
    values = {
        "loss": np.full(12, first),
        "baseline_loss": np.full(12, first),
        "targets/classes_so_far": np.full(12, 10.0),
    }
    series = {name: Series(STEPS, one) for name, one in values.items()}
    causes = diagnose(Evidence(series=series, facts=Facts(steps=12, loss=loss)))
    assert ("poor_initialization" in [cause.code for cause in causes]) is is_one


@pytest.mark.parametrize(("kind", "gain", "learnt", "is_one"), [
    ("RNN", 2.6, 0.1, True), ("RNN", 2.4, 0.1, False), ("LSTM", 2.6, 0.1, True), ("Linear", 2.6, 0.1, False),
    ("RNN", 2.6, 0.9, False),
])  # fmt: skip
def test_weights_from_state_to_state_that_multiply_it_are_a_wrong_start(kind, gain, learnt, is_one):
    steps = np.arange(120)
    weights = {"rnn.weight_ih_l0": 0.58, "rnn.weight_hh_l0": gain, "head.weight": 0.58}
    facts = Facts(
        steps=120, loss=LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(32, 8)),
        layers=(LayerFacts(name="rnn", kind=kind), LayerFacts(name="head", kind="Linear")),
        parameters=tuple(ParameterFacts(name=name, shape=(64, 64), std=size / 8) for name, size in weights.items()),
    )  # fmt: skip
    series = {
        "loss": Series(steps, np.linspace(2.0, 2.0 * (1 - learnt), 120)),
        "baseline_loss": Series(steps, np.full(120, 2.0)),
        "update_ratio": Series(steps, np.full(120, 2e-3)),
    }  # fmt: skip
    causes = [cause.code for cause in diagnose(Evidence(series=series, facts=facts))]
    assert ("poor_initialization" in causes) == is_one


@pytest.mark.parametrize(("dead", "is_one"), [(0.95, True), (0.85, False)])
def test_a_loss_that_falls_from_far_above_has_cost_the_units_that_died_on_its_way(dead, is_one):
    """A head with weights of a deviation of 1 on 64 units."""
    head = ParameterFacts(name="head.weight", shape=(10, 64), std=1.0)
    loss = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(32, 10))
    facts = Facts(steps=COUNT, parameters=(head,), loss=loss)
    found = evidence(
        facts=facts, loss=np.r_[25.0, 25.0, 25.0, np.full(COUNT - 3, 0.6)], baseline_loss=np.full(COUNT, 2.3),
        tensors={"dead_units": {"body": np.r_[0.0, np.full(COUNT - 1, dead)]}},
    )  # fmt: skip
    codes = [cause.code for cause in diagnose(found)]
    assert (codes[:1] == ["poor_initialization"]) == is_one


def test_weights_without_any_element_have_no_scale():
    """As those of a layer without inputs."""
    weights = tuple(ParameterFacts(name=f"{at}.weight", shape=(8, 0), role="frozen") for at in range(2))
    facts = Facts(steps=12, parameters=weights, layers=(LayerFacts(name="0", kind="Linear"),))
    assert fresh_weights(Evidence(facts=facts), "frozen") == []
    assert diagnose(Evidence(series={"loss": Series(STEPS, np.ones(12))}, facts=facts)) == ()


@pytest.mark.parametrize(("phases", "learnt", "validated", "is_one"), [
    ((9.0, 4.9), 0.05, (), True),
    ((9.0, 3.1), 0.05, (), False),
    ((9.0,), 0.05, (), False),  # the first sine spreads what is given
    ((9.0, 4.9), 0.98, (2.4, 2.9, 3.1), True),
    ((9.0, 4.9), 0.98, (2.2, 1.0, 0.9), False),
    ((9.0, 4.9), 0.98, (), False),
])  # fmt: skip
def test_sines_behind_the_first_that_turn_more_than_half_a_period_are_a_wrong_start(phases, learnt, validated, is_one):
    found = _of_layers(tensors={"phase_std": {str(at): phase for at, phase in enumerate(phases)}}, learnt=learnt)
    if validated:
        told = {"validation/loss": Series(STEPS[-len(validated) :], np.array(validated))}
        found = replace(found, series=found.series | told)
    assert ("poor_initialization" in [cause.code for cause in diagnose(found)[:1]]) == is_one


@pytest.mark.parametrize(("std", "kept", "last", "is_one"), [
    (0.02, 5e-3, 2.28, True), (0.05, 5e-3, 2.28, False), (0.02, 2e-2, 2.28, False), (0.02, 5e-3, 0.2, False),
])  # fmt: skip
def test_small_weights_of_all_layers_leave_nothing_of_what_rows_differ_by(std, kept, last, is_one):
    """Each of them is within what a usual start may be, and biases keep outputs at their size."""
    names = [f"{place}" for place in range(4)]
    facts = Facts(
        steps=COUNT, loss=LossFacts(kind="cross_entropy", reduction="mean"),
        parameters=tuple(ParameterFacts(name=f"{name}.weight", shape=(100, 100), std=std) for name in names),
        layers=tuple(LayerFacts(name=name, kind="Linear") for name in names),
    )  # fmt: skip
    spread = {name: np.full(COUNT, 0.1 * kept ** (place / 3)) for place, name in enumerate(names)}
    found = evidence(
        facts=facts, loss=np.linspace(2.3, last, COUNT), baseline_loss=np.full(COUNT, 2.3),
        update_ratio=np.full(COUNT, 5e-3), tensors={"output_batch_std": spread},
    )  # fmt: skip
    assert ("poor_initialization" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("std", "last", "is_one"), [(1e-3, 0.2, False), (1e-3, 0.5, True), (20.0, 0.2, True)])
def test_a_posterior_may_begin_at_its_prior_where_much_is_learnt_from_there(std, last, is_one):
    """Of a loss in another unit than its constant output's: what is small adds nothing that it could fall from."""
    weights = [ParameterFacts(name=f"{at}.weight", shape=(16, 16), std=std if at == 1 else 0.15) for at in range(3)]
    values = {
        "loss": np.geomspace(300, 300 * last, 12), "baseline_loss": np.full(12, 0.07),
        "update_ratio": np.full(12, 0.01),
    }  # fmt: skip
    found = Evidence(
        series={name: Series(STEPS, each) for name, each in values.items()},
        facts=Facts(steps=12, parameters=tuple(weights)),
    )
    assert ("poor_initialization" in [cause.code for cause in diagnose(found)]) is is_one
