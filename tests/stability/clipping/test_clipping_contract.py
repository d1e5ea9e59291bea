"""What every clipping type keeps to: steps that are not finite, sparse gradients, checkpoints, and what it refuses."""

import io
import math

import pytest
import torch
from torch import nn

from stability import (
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    StabilityConfigError,
    StabilityError,
)

TYPES = {
    "none": {},
    "norm": {"max_norm": 0.1},
    "value": {"clip_value": 0.01},
    "global_norm": {"max_norm": 0.1},
    "adaptive": {},
    "exponential": {},
    "layer_wise": {"layer_thresholds": {"*.weight": 0.1, "2.bias": 0.01}},
    "percentile": {"percentile": 80.0},
    "agc": {"agc_exclude": ("2.*",)},
}


def manager(clipping_type="norm", **fields):
    config = GradientClippingConfig(clipping_type=clipping_type, **fields)
    return NumericalStabilityManager(config, NaNHandlingConfig())


def network(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3))


def step(model, stability, *, factor=1.0, seed=0):
    """Returns the result of a step with new gradients, and the gradients before it."""
    generator = torch.Generator().manual_seed(seed)
    model.zero_grad()
    loss = model(torch.randn(5, 6, generator=generator)).square().mean() * factor
    loss.backward()
    before = [parameter.grad.clone() for parameter in model.parameters()]
    return stability.step(model, loss, torch.optim.SGD(model.parameters(), lr=0.1)), before


def same_bits(one, other):
    return all(torch.equal(a.view(torch.int32), b.view(torch.int32)) for a, b in zip(one, other, strict=True))


def gradients(model):
    return [parameter.grad for parameter in model.parameters()]


@pytest.mark.parametrize("name", TYPES)
def test_a_step_that_is_not_finite_is_neither_clipped_nor_remembered(name):
    model, stability, undisturbed = network(), manager(name, **TYPES[name]), manager(name, **TYPES[name])
    for tested in (stability, undisturbed):
        step(model, tested)
    result, before = step(model, stability, factor=math.inf)
    assert same_bits(before, gradients(model))
    assert tuple(result["clipping_stats"][key] for key in ("threshold", "clipped_parameters", "clipped")) == (
        None,
        0,
        False,
    )

    after, _ = step(model, stability, factor=100.0)
    clipped = [gradient.clone() for gradient in gradients(model)]
    expected, _ = step(model, undisturbed, factor=100.0)

    assert same_bits(clipped, gradients(model))
    assert expected["clipping_stats"] == after["clipping_stats"]


@pytest.mark.parametrize("name", TYPES)
def test_a_checkpoint_goes_on_as_if_there_had_been_none(name):
    model, kept = network(), manager(name, **TYPES[name])
    for number in range(4):
        step(model, kept, factor=1.0 + number, seed=number)
    checkpoint = io.BytesIO()
    torch.save(kept.state_dict(), checkpoint)
    checkpoint.seek(0)
    resumed = manager(name, **TYPES[name])
    resumed.load_state_dict(torch.load(checkpoint, weights_only=True))

    for number in range(12):
        expected, _ = step(model, kept, factor=10.0 ** (number % 3), seed=number)
        clipped = [gradient.clone() for gradient in gradients(model)]
        result, _ = step(model, resumed, factor=10.0 ** (number % 3), seed=number)
        assert expected["clipping_stats"] == result["clipping_stats"]
        assert expected["step"] == result["step"]
        assert same_bits(clipped, gradients(model))


def test_the_state_of_another_type_is_refused():
    with pytest.raises(StabilityError, match=r"holds \['norms'\]; expected \['count', 'sum'\], .*'exponential'"):
        manager("exponential").load_state_dict(manager("adaptive").state_dict())


@pytest.mark.parametrize("clip_value", [0.001, 0.02, 5.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16, torch.float64])
def test_value_clipping_equals_clip_grad_value_bit_for_bit(clip_value, dtype):
    model = network()
    step(model, manager("none"))
    model.to(dtype)
    twin = network().to(dtype)
    for parameter, other in zip(twin.parameters(), model.parameters(), strict=True):
        parameter.grad = other.grad.clone()
    torch.nn.utils.clip_grad_value_(twin.parameters(), clip_value)

    manager("value", clip_value=clip_value).step(model, 0.5, torch.optim.SGD(model.parameters()))

    assert all(torch.equal(one, other) for one, other in zip(gradients(twin), gradients(model), strict=True))


class TwoEmbeddings(nn.Module):
    def __init__(self, *, sparse):
        super().__init__()
        torch.manual_seed(0)
        self.tokens = nn.Embedding(12, 4, sparse=sparse)
        self.head = nn.Linear(4, 2)

    def forward(self, tokens):
        return self.head(self.tokens(tokens)).square().sum()


SPARSE = TYPES | {"layer_wise": {"layer_thresholds": {"tokens.weight": 0.1}}, "agc": {"agc_exclude": ("head.*",)}}


@pytest.mark.parametrize("name", [name for name in SPARSE if name != "percentile"])
def test_sparse_gradients_are_clipped_as_dense_ones(name):
    """Token 3 comes three times: its rows are summed before they are clipped."""
    managers = [manager(name, **SPARSE[name]) for _ in range(2)]
    for factor in (1.0, 50.0):
        models = [TwoEmbeddings(sparse=sparse) for sparse in (False, True)]
        results = []
        for model, stability in zip(models, managers, strict=True):
            loss = model(torch.tensor([3, 1, 3, 7, 3])) * factor
            loss.backward()
            results.append(stability.step(model, loss, torch.optim.SGD(model.parameters())))
        dense, sparse = models

        assert sparse.tokens.weight.grad.is_sparse
        torch.testing.assert_close(dense.tokens.weight.grad, sparse.tokens.weight.grad.to_dense())
        torch.testing.assert_close(dense.head.weight.grad, sparse.head.weight.grad)
        stats = [result["clipping_stats"] for result in results]
        assert stats[0]["clipped"] == stats[1]["clipped"]
        assert stats[0]["total_norm"] == pytest.approx(stats[1]["total_norm"])


def test_of_sparse_gradients_the_percentile_counts_the_stored_values():
    model = nn.Embedding(100, 2, sparse=True)
    model(torch.tensor([5, 5, 9])).mul(torch.tensor([[1.0, 2.0], [1.0, 2.0], [3.0, 100.0]])).sum().backward()

    result = manager("percentile", percentile=60.0).step(model, 0.5, torch.optim.SGD(model.parameters()))

    stored = torch.tensor([2.0, 4.0, 3.0, 100.0]).quantile(0.6).item()
    assert stored == pytest.approx(result["clipping_stats"]["threshold"], rel=0.07)
    assert model.weight.grad.coalesce().values().max().item() == pytest.approx(stored, rel=0.07)


def test_a_sparse_gradient_that_is_not_clipped_stays_as_backward_left_it():
    model = TwoEmbeddings(sparse=True)
    model(torch.tensor([3, 3])).backward()
    before = model.tokens.weight.grad

    manager(max_norm=1e9).step(model, 0.5, torch.optim.SGD(model.parameters()))

    assert model.tokens.weight.grad is before
    assert not before.is_coalesced()


def test_scaled_sparse_gradients_are_unscaled_before_they_are_clipped():
    """The scaler changes them in place, or puts others in their place."""
    model = TwoEmbeddings(sparse=True)
    optimizer = torch.optim.SGD(model.parameters())
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    loss = model(torch.tensor([3, 1, 3]))
    scaler.scale(loss).backward()
    unscaled = model.tokens.weight.grad.to_dense() / 8.0
    config = GradientClippingConfig(clipping_type="value", clip_value=0.05)

    NumericalStabilityManager(config, NaNHandlingConfig(), scaler=scaler).step(model, loss, optimizer)

    torch.testing.assert_close(unscaled.clamp(-0.05, 0.05), model.tokens.weight.grad.to_dense())


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning")
def test_a_compressed_sparse_gradient_is_refused_by_name():
    model = nn.Linear(2, 2, bias=False)
    model.weight = nn.Parameter(torch.eye(2).to_sparse_csr())
    model.weight.grad = torch.eye(2).to_sparse_csr()

    with pytest.raises(StabilityError, match=r"gradient of weight has the layout torch.sparse_csr; expected a dense"):
        manager().step(model, 0.5, torch.optim.SGD(model.parameters()))


def test_an_exact_name_wins_over_patterns_and_the_first_pattern_over_later_ones():
    thresholds = {"*.weight": 0.1, "2.*": 0.2, "2.weight": 0.3}
    model = network()
    step(model, manager("layer_wise", layer_thresholds=thresholds), factor=1e4)

    norms = {name: parameter.grad.norm().item() for name, parameter in model.named_parameters()}

    assert norms["0.bias"] > 1.0
    assert {name: pytest.approx(norms[name], rel=1e-5) for name in ("0.weight", "2.bias", "2.weight")} == {
        "0.weight": 0.1,
        "2.bias": 0.2,
        "2.weight": 0.3,
    }


@pytest.mark.parametrize(
    ("clipping_type", "fields", "message"),
    [
        (
            "layer_wise",
            {"layer_thresholds": {"*": 1.0, "2.wieght": 1.0}},
            r"layer_thresholds names '2.wieght'.*2.weight",
        ),
        ("agc", {"agc_exclude": ("head.*",)}, r"agc_exclude names 'head.\*', which matches none of the 4 parameters"),
    ],
)
def test_a_name_that_matches_nothing_is_refused_at_the_first_step_with_the_nearest(clipping_type, fields, message):
    with pytest.raises(StabilityError, match=message):
        step(network(), manager(clipping_type, **fields))


def test_a_name_may_be_of_a_parameter_without_a_gradient():
    model = network()
    model[0].bias.requires_grad_(False)
    loss = model(torch.ones(2, 6)).sum()
    loss.backward()

    stability = manager("layer_wise", layer_thresholds={"0.bias": 1.0})

    assert not stability.step(model, loss, torch.optim.SGD(model.parameters()))["clipping_stats"]["clipped"]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"clip_value": 0.5}, "clip_value is 0.5, which the clipping type 'norm' does not use; expected 1.0"),
        ({"clipping_type": "global_norm", "norm_type": 1.0}, "norm_type is 1.0, which .*It uses max_norm"),
        (
            {"clipping_type": "agc", "layer_thresholds": {"a": 1.0}},
            "layer_thresholds is .*which the clipping type 'agc'",
        ),
        ({"clipping_type": "value", "clip_value": 0}, "clip_value is 0; expected a number above 0"),
        ({"clipping_type": "adaptive", "adaptive_factor": 1.0}, "adaptive_factor is 1.0; expected a number above 1"),
        ({"clipping_type": "exponential", "exponential_factor": math.nan}, "nan; expected a number above 1"),
        ({"clipping_type": "exponential", "exponential_decay": 1.0}, "1.0; expected a number from 0 to below 1"),
        ({"clipping_type": "exponential", "exponential_floor": -1.0}, "-1.0; expected a number of at least 0"),
        ({"clipping_type": "percentile", "percentile": 100}, "100; expected a number above 0 and below 100"),
        ({"clipping_type": "layer_wise"}, "layer_thresholds is {}; expected at least one entry"),
        ({"clipping_type": "layer_wise", "layer_thresholds": [1.0]}, "expected a mapping of names"),
        ({"clipping_type": "layer_wise", "layer_thresholds": {"a": -1.0}}, "holds 'a': -1.0; expected a name"),
        ({"clipping_type": "layer_wise", "layer_thresholds": {"a": True}}, "holds 'a': True; expected a name"),
        ({"clipping_type": "agc", "agc_exclude": "head"}, "agc_exclude is 'head'; expected a tuple of names"),
        ({"clipping_type": "agc", "agc_eps": 0.0}, "agc_eps is 0.0; expected a number above 0"),
    ],
)
def test_a_wrong_or_unread_field_is_refused(fields, message):
    with pytest.raises(StabilityConfigError, match=message):
        GradientClippingConfig(**fields)


def test_clipping_is_switched_off_by_one_field():
    config = GradientClippingConfig(clipping_type="none", max_norm=3.0, clip_value=0.5)

    assert config.clipping_type == "none"


def test_later_changes_of_a_mapping_do_not_reach_the_configuration():
    thresholds = {"a": 1.0}
    config = GradientClippingConfig(clipping_type="layer_wise", layer_thresholds=thresholds)
    thresholds["a"] = 2.0

    assert config.layer_thresholds == {"a": 1.0}
