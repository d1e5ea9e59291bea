"""Signs of gradients, beside those of which each cause has one in the tests of all rules."""

import numpy as np
import pytest
import torch
from made_evidence import STEPS, evidence

import stepscope
from debuggers.detectors.finding import Finding
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import BatchFacts, Facts, LayerFacts, LossFacts, ParameterFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.rules.signal_flow import exploding_gradients, vanishing_gradients
from debuggers.diagnosis.series import Series

BLOWN_UP = np.where(np.arange(STEPS) < 2, np.geomspace(150, 1e40, STEPS), np.nan)


@pytest.mark.parametrize(("kind", "norm", "is_one"), [
    ("cross_entropy", 2e3, True), ("cross_entropy", 5e2, False), ("mse", 2e3, False), ("mse", 2e4, True),
])  # fmt: skip
def test_gradients_that_explode_before_any_update_follow_from_no_learning_rate(kind, norm, is_one):
    """Those of squared errors grow with the root of the loss, which is 12 here."""
    found = evidence(
        facts=Facts(steps=STEPS, loss=LossFacts(kind=kind, reduction="mean")), loss=BLOWN_UP,
        **{"total_norm/gradients": np.where(np.arange(STEPS) < 2, norm, np.nan), "update_ratio": np.full(STEPS, 0.4)},
    )  # fmt: skip
    codes = [cause.code for cause in diagnose(found)]

    assert (codes[0] == "exploding_gradients") == is_one
    assert "learning_rate_too_high" in codes


@pytest.mark.parametrize(("fall", "ratio", "is_one"), [(0.1, 1e-3, True), (0.4, 1e-3, False), (0.1, 5e-5, False)])
def test_gradients_that_fall_with_depth_vanish_where_nothing_is_learnt(fall, ratio, is_one):
    """Where weights stay, a branch that begins as nothing lets no more gradient pass later."""
    finding = Finding(kind="vanishing_by_depth", name="0.weight", level="warning", step=0, last_step=9, steps=10,
                      ongoing=True, value=1e-4, threshold=1e-3, evidence="evidence", rule="rule")  # fmt: skip
    found = evidence(
        facts=Facts(steps=STEPS), loss=np.linspace(2.3, 2.3 * (1 - fall), STEPS), findings=(finding,),
        update_ratio=np.full(STEPS, ratio),
    )  # fmt: skip
    assert ("vanishing_gradients" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("explained", "kind", "is_one"), [
    (0.03, "mse", True), (0.7, "mse", False), (None, "mse", False), (0.03, "cross_entropy", False),
])  # fmt: skip
def test_the_mean_of_each_output_is_little_however_far_the_loss_fell(explained, kind, is_one):
    """Of pixels that differ in their means, these alone take three quarters of the loss."""
    finding = Finding(kind="vanishing_by_depth", name="0.weight", level="warning", step=0, last_step=9, steps=10,
                      ongoing=True, value=1e-4, threshold=1e-3, evidence="evidence", rule="rule")  # fmt: skip
    series = {} if explained is None else {"r2": np.full(STEPS, explained)}
    found = evidence(
        facts=Facts(steps=STEPS, loss=LossFacts(kind=kind, reduction="mean")), loss=np.linspace(1.0, 0.25, STEPS),
        baseline_loss=np.full(STEPS, 1.0), findings=(finding,), update_ratio=np.full(STEPS, 1e-3), **series,
    )  # fmt: skip
    assert ("vanishing_gradients" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("spread", "is_one"), [(1e-5, True), (0.1, False)])
def test_outputs_that_are_the_same_for_all_rows_show_what_a_recurrence_forgets(spread, is_one):
    """Weights have moved little yet, but nothing of the inputs arrives either."""
    weight = ParameterFacts(name="cell.weight_hh_l0", shape=(24, 24), std=0.5 / 24**0.5)
    facts = Facts(
        steps=STEPS, loss=LossFacts(kind="cross_entropy"), parameters=(weight,),
        layers=(LayerFacts(name="cell", kind="RNN"),), inputs=BatchFacts(shape=(32, 30, 1)),
        targets=BatchFacts(shape=(32,), integer=True),
    )  # fmt: skip
    found = evidence(
        facts=facts, update_ratio=np.full(STEPS, 1e-3),
        **{"outputs/batch_std": np.full(STEPS, spread), "outputs/std": np.full(STEPS, 1.0)},
    )  # fmt: skip
    assert ("vanishing_gradients" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("std", "is_one"), [(1e-4, False), (0.2, True)])
def test_gradients_of_weights_that_are_far_smaller_are_larger_by_as_much(std, is_one):
    """Embeddings that begin as nearly nothing before a norm, as in RWKV."""
    weights = tuple(
        ParameterFacts(name=f"{name}.weight", shape=(16, 16), std=size)
        for name, size in (("a", std), ("b", 0.2), ("c", 0.2))
    )
    sizes = {"a.weight": 20.0, "b.weight": 0.1, "c.weight": 0.1}
    made = evidence(
        facts=Facts(steps=STEPS, parameters=weights, layers=(LayerFacts(name="rnn", kind="LSTM"),)),
        tensors={"gradient_rms": {name: np.full(STEPS, size) for name, size in sizes.items()}},
    )
    assert ("exploding_gradients" in [cause.code for cause in diagnose(made)]) is is_one


@pytest.mark.parametrize(("first", "is_one"), [(2e3, True), (2.0, False)])
def test_gradients_that_are_large_after_a_first_update_may_follow_from_it(first, is_one):
    found = evidence(
        facts=Facts(steps=STEPS), loss=np.r_[1.0, np.full(STEPS - 1, 50.0)],
        **{"total_norm/gradients": np.r_[first, np.full(STEPS - 1, 2e3)], "update_ratio": np.full(STEPS, 3.0)},
    )  # fmt: skip
    codes = {cause.code: cause for cause in diagnose(found)}
    exploding = codes.get("exploding_gradients")
    assert (exploding is not None and not exploding.against) == is_one
    assert "learning_rate_too_high" in codes


@pytest.mark.parametrize(("called", "is_one"), [(("first", "a", "b", "head"), True), ((), False)])
def test_layers_stand_in_the_order_in_which_they_are_called(called, is_one):
    """A head may be made before the layers that it stands behind."""
    sizes = {"first.weight": 4e-6, "head.weight": 8e-3, "a.weight": 3e-5, "b.weight": 2e-3}
    facts = Facts(
        steps=STEPS, called=called, loss=LossFacts(kind="cross_entropy", reduction="mean"),
        parameters=tuple(ParameterFacts(name=name, shape=(32, 32), std=0.1) for name in sizes),
    )  # fmt: skip
    found = evidence(
        facts=facts, loss=np.linspace(2.3, 2.28, STEPS), update_ratio=np.full(STEPS, 2e-3),
        tensors={"gradient_rms": {name: np.full(STEPS, size) for name, size in sizes.items()}},
    )  # fmt: skip
    assert ("vanishing_gradients" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("kind", "is_one"), [("Linear", True), ("Embedding", False)])
def test_a_table_of_which_a_batch_reads_few_rows_is_no_first_layer(kind, is_one):
    sizes = {"first": 1e-7, "a": 1e-3, "b": 3e-3, "head": 1e-2}
    facts = Facts(
        steps=STEPS,
        layers=tuple(LayerFacts(name=name, kind=kind if name == "first" else "Linear") for name in sizes),
        parameters=tuple(ParameterFacts(name=f"{name}.weight", shape=(16, 16), std=0.2) for name in sizes),
    )
    tensors = {"gradient_rms": {f"{name}.weight": np.full(STEPS, size) for name, size in sizes.items()}}
    found = evidence(facts=facts, loss=np.linspace(2.3, 2.2, STEPS), tensors=tensors)
    assert ("vanishing_gradients" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(
    ("kind", "jumps", "last", "is_one"),
    [
        ("RNN", 3, 2.1, True),
        ("RNN", 2, 2.1, False),
        ("Linear", 3, 2.1, False),
        ("RNN", 3, 1.5, False),
        ("RNN", 3, -0.01, False),
    ],
)
def test_a_recurrence_whose_gradients_jump_several_times_explodes_where_little_is_learnt(kind, jumps, last, is_one):
    """To 16 times their median; the first five steps say nothing, nor what a loss of both signs has fallen by."""
    norms = np.ones(STEPS)
    norms[[2, *range(10, 10 + jumps)]] = 16.0
    facts = Facts(
        steps=STEPS, layers=(LayerFacts(name="0", kind=kind),), loss=LossFacts(kind="cross_entropy", reduction="mean")
    )
    found = evidence(
        facts=facts, loss=np.linspace(2.3, last, STEPS), baseline_loss=np.full(STEPS, 2.3),
        **{"total_norm/gradients": norms},
    )  # fmt: skip
    assert ("exploding_gradients" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("scale", "spread", "is_one"), [(1e-6, 0.0, False), (1.0, 0.0, True), (1e-6, 1e-6, True)])
def test_gradients_beside_a_scale_that_begins_small_are_as_small(scale, spread, is_one):
    weights = {f"{place}.mix.weight": 1e-8 * 100.0**place for place in range(4)}
    parameters = [ParameterFacts(name=name, shape=(8, 8), std=0.1) for name in weights]
    scales = [ParameterFacts(name=f"{place}.gamma", shape=(8,), mean=scale, std=spread) for place in range(3)]
    found = evidence(
        facts=Facts(steps=STEPS, parameters=(*parameters, *scales)), loss=np.linspace(2.3, 1.0, STEPS),
        tensors={"gradient_rms": {name: np.full(STEPS, value) for name, value in weights.items()}},
    )  # fmt: skip
    assert ("vanishing_gradients" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("times", "gain", "norm", "kind", "is_one"), [
    (80.0, 0.6, 2e3, "ReLU", True), (60.0, 0.6, 2e3, "ReLU", False), (80.0, 8.0, 2e3, "ReLU", False),
    (80.0, 0.6, 5e2, "ReLU", False), (80.0, 0.6, 2e3, "LayerNorm", False),
])  # fmt: skip
def test_gradients_that_usual_weights_do_not_multiply_explode_between_them(times, gain, norm, kind, is_one):
    """As over Euler steps of a length of 1: the first outputs are as wrong, and the weights are not."""
    layers = tuple(LayerFacts(name=name, kind="Linear") for name in ("enter", "slope", "leave"))
    weights = tuple(ParameterFacts(name=f"{one.name}.weight", shape=(16, 16), std=gain / 4) for one in layers)
    facts = Facts(
        steps=STEPS, parameters=weights, layers=(*layers, LayerFacts(name="between", kind=kind)),
        loss=LossFacts(kind="mse", reduction="mean"),
    )  # fmt: skip
    arriving = {"enter.bias": times / 4, "slope.bias": times, "leave.bias": 1.0}
    falling = np.maximum(np.geomspace(1e4, 1.0, STEPS), 3.0)
    tensors = {"gradient_rms": {name: np.full(STEPS, size) for name, size in arriving.items()}}
    found = evidence(
        facts=facts, loss=falling, tensors=tensors, baseline_loss=np.ones(STEPS), update_ratio=np.full(STEPS, 1e-3),
        **{"total_norm/gradients": np.geomspace(norm, 10, STEPS), "outputs/std": np.full(STEPS, 50.0),
           "targets/mean": np.zeros(STEPS), "targets/std": np.ones(STEPS)},
    )  # fmt: skip
    causes = diagnose(found)
    assert ("poor_initialization" if not is_one else "exploding_gradients") == causes[0].code
    assert any("slope.bias" in text for cause in causes for text in cause.evidence) == is_one


@pytest.mark.parametrize(("first", "limit"), [(4.0, "max_norm=8)"), (2e3, "max_norm=1)")])
def test_the_limit_that_is_proposed_is_one_of_norms_before_they_exploded(first, limit):
    norms = np.geomspace(first, 1e12, STEPS)
    norms[:5] = first
    found = evidence(facts=Facts(steps=STEPS), loss=np.full(STEPS, 2.3), **{"total_norm/gradients": norms})
    cause = exploding_gradients(found).cause
    assert limit in cause.advice


@pytest.mark.parametrize(("losses", "course"), [
    (np.r_[4.63e6, np.full(STEPS - 1, np.nan)], "is 4.63e+06 at first and becomes NaN or infinite at step 1"),
    (np.r_[10, 10, 10, 900, np.full(STEPS - 4, np.nan)], "goes from 10 to 900 and becomes NaN or infinite at step 4"),
    (np.r_[10, 10, 10, np.full(STEPS - 3, 900)], "goes from 10 to 900"),
])  # fmt: skip
def test_a_loss_of_exploded_gradients_is_told_as_it_went(losses, course):
    found = evidence(facts=Facts(steps=STEPS), loss=losses, **{"total_norm/gradients": np.full(STEPS, 1e9)})

    (told, *_) = exploding_gradients(found).cause.evidence
    assert told.endswith(f"and the loss {course}")


@pytest.mark.parametrize(("width", "is_named"), [(1, True), (2, False)])
def test_a_layer_norm_over_one_feature_ends_gradients(width, is_named):
    torch.manual_seed(0)
    model = torch.nn.Sequential(
        torch.nn.Linear(16, 16), torch.nn.ReLU(), torch.nn.Linear(16, width), torch.nn.LayerNorm(width),
        torch.nn.Linear(width, 4),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    rows = torch.randn(256, 16)
    targets = rows[:, :4].argmax(1)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(100):
            batch = torch.randint(256, (32,))
            optimizer.zero_grad()
            torch.nn.functional.cross_entropy(model(rows[batch]), targets[batch]).backward()
            optimizer.step()
        found = {cause.code: cause for cause in session.report().causes}

    assert ("vanishing_gradients" in found) is is_named
    if is_named:
        assert found["vanishing_gradients"].advice.startswith("Take 3 out, or normalise over more than one feature")
        assert any("3 normalises over a single feature" in one for one in found["vanishing_gradients"].evidence)


@pytest.mark.parametrize(("shape", "called", "is_named"), [
    ((1,), ("0", "1", "2", "3"), True), ((8,), ("0", "1", "2", "3"), False), ((1,), ("1", "0", "2", "3"), False),
])  # fmt: skip
def test_only_a_norm_of_one_feature_at_which_gradients_end_is_named(shape, called, is_named):
    """One beside the path of the gradients stands before all matrices or behind all of them."""
    layers = ("Linear", "LayerNorm", "Linear", "Linear")
    shapes = ((8, 8), shape, (8, 8), (8, 8))
    facts = Facts(
        steps=STEPS, called=called, layers=tuple(LayerFacts(name=str(n), kind=kind) for n, kind in enumerate(layers)),
        parameters=tuple(ParameterFacts(name=f"{n}.weight", shape=one, std=0.2) for n, one in enumerate(shapes)),
    )  # fmt: skip
    sizes = {"0.weight": 1e-8, "2.weight": 1e-4, "3.weight": 1e-2}
    tensors = {"gradient_rms": {name: Series(np.arange(STEPS), np.full(STEPS, one)) for name, one in sizes.items()}}
    loss = Series(np.arange(STEPS), np.full(STEPS, 2.3))
    cause = vanishing_gradients(Evidence(series={"loss": loss}, tensors=tensors, facts=facts)).cause

    assert cause.advice.startswith("Take 1 out") is is_named
