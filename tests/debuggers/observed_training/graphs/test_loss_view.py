"""What the graph of a loss shows, for losses as users write them."""

import copy
import time

import pytest
import torch
from torch import nn
from torch.nn import functional

from debuggers.observed_training.graphs.loss_view import loss_view, output_nodes

ROWS, CLASSES = 6, 3
CLASS = torch.tensor([0, 2, 1, 1, 0, 2])
SHARES = functional.one_hot(CLASS, CLASSES).float()
VALUES = torch.linspace(0.1, 0.9, ROWS)[:, None]
WEIGHTS = torch.tensor([1.0, 2.0, 3.0])


def linear(units):
    torch.manual_seed(0)
    return nn.Linear(4, units)


def viewed(loss_of, *modules, units=CLASSES):
    """The view of the loss of a small model's outputs."""
    model = nn.Sequential(linear(units), *modules)
    outputs = model(torch.ones(ROWS, 4))
    return loss_view(loss_of(outputs), output_nodes([outputs]))


CLASSIFICATIONS = {
    "functional": lambda o: functional.cross_entropy(o, CLASS),
    "module": lambda o: nn.CrossEntropyLoss()(o, CLASS),
    "label smoothing": lambda o: functional.cross_entropy(o, CLASS, label_smoothing=0.1),
    "class weights": lambda o: nn.CrossEntropyLoss(weight=WEIGHTS)(o, CLASS),
    "ignored index": lambda o: nn.CrossEntropyLoss(ignore_index=1)(o, CLASS),
    "mean of single losses": lambda o: functional.cross_entropy(o, CLASS, reduction="none").mean(),
    "sum divided by the rows": lambda o: functional.cross_entropy(o, CLASS, reduction="sum") / ROWS,
    "probabilities": lambda o: functional.cross_entropy(o, SHARES),
    "log-softmax and nll": lambda o: functional.nll_loss(o.log_softmax(1), CLASS),
    "logarithm of softmax and nll": lambda o: functional.nll_loss(o.softmax(1).log(), CLASS),
    "of a distribution": lambda o: -torch.distributions.Categorical(logits=o).log_prob(CLASS).mean(),
    "gathered": lambda o: -o.log_softmax(1).gather(1, CLASS[:, None]).mean(),
    "indexed": lambda o: -o.log_softmax(1)[range(ROWS), CLASS].mean(),
    "one-hot": lambda o: -(SHARES * o.log_softmax(1)).sum(1).mean(),
    "one-hot with a minus sign": lambda o: (-SHARES * o.log_softmax(1)).sum(1).mean(),
    "one-hot with an epsilon": lambda o: -(SHARES * (o.softmax(1) + 1e-8).log()).sum(1).mean(),
    "picked probabilities": lambda o: -torch.log(o.softmax(1)[range(ROWS), CLASS]).mean(),
    "in two dimensions": lambda o: functional.cross_entropy(o[:, :, None, None], CLASS[:, None, None]),
    "of a sequence": lambda o: functional.cross_entropy(o.view(2, 3, CLASSES).reshape(-1, CLASSES), CLASS),
    "with a penalty": lambda o: functional.cross_entropy(o, CLASS) + 0.1 * nn.Parameter(WEIGHTS).square().sum(),
    "in float32": lambda o: functional.cross_entropy(o.float(), CLASS).float(),
}


@pytest.mark.parametrize("name", CLASSIFICATIONS)
def test_a_mean_cross_entropy_is_one_however_it_is_written(name):
    facts = viewed(CLASSIFICATIONS[name]).facts

    assert (facts.kind, facts.reduction, facts.factor, facts.negated) == ("cross_entropy", "mean", 1.0, False)
    assert (facts.before, facts.broadcast, facts.terms) == ("", False, 1)
    assert facts.outputs_shape[:2] == (ROWS, CLASSES)
    assert facts.penalized == (name == "with a penalty")
    assert facts.weighted == (name == "class weights")
    assert facts.ignored == (1 if name == "ignored index" else None)
    assert facts.nodes[-1] == "AddmmBackward0"


CHOSEN = torch.tensor([0, 2, 4])


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda o: functional.nll_loss(o[CHOSEN], CLASS[CHOSEN]),
        lambda o: functional.nll_loss(o[CLASS > 0], CLASS[CLASS > 0]),
        lambda o: functional.nll_loss(torch.cat([o[:3].exp().log_softmax(1), o[3:].log_softmax(1)]), CLASS),
        lambda o: functional.nll_loss(torch.stack([row.log_softmax(0) for row in o]), CLASS),
    ],
    ids=["some rows", "a mask", "two parts", "a part for each row"],
)
def test_log_probabilities_may_be_chosen_and_joined(loss_of):
    assert viewed(loss_of, nn.LogSoftmax(1)).facts.before == "log_softmax"


@pytest.mark.parametrize("name", sorted(CLASSIFICATIONS.keys() - {"picked probabilities"}))
def test_the_targets_of_a_cross_entropy_are_in_its_graph(name):
    targets = viewed(CLASSIFICATIONS[name]).targets

    assert targets is not None
    expected = SHARES if targets.is_floating_point() else CLASS
    assert torch.equal(targets.reshape(expected.shape), expected)


REGRESSIONS = {
    "mse": {
        "functional": lambda o: functional.mse_loss(o, VALUES),
        "module": lambda o: nn.MSELoss()(o, VALUES),
        "power": lambda o: ((o - VALUES) ** 2).mean(),
        "square": lambda o: (VALUES - o).square().mean(),
        "product": lambda o: torch.mean((d := o - VALUES) * d),
        "sum by the number": lambda o: ((o - VALUES) ** 2).sum() / ROWS,
        "masked": lambda o: functional.mse_loss(o, VALUES, reduction="none").mul(torch.ones(ROWS, 1)).mean(),
    },
    "l1": {
        "functional": lambda o: functional.l1_loss(o, VALUES),
        "written out": lambda o: (VALUES - o).abs().mean(),
    },
    "smooth_l1": {"functional": lambda o: functional.smooth_l1_loss(o, VALUES)},
    "rmse": {
        "root": lambda o: functional.mse_loss(o, VALUES).sqrt(),
        "power": lambda o: (((o - VALUES) ** 2).mean() + 1e-8) ** 0.5,
    },
    "huber": {"module": lambda o: nn.HuberLoss()(o, VALUES)},
    "bce_with_logits": {
        "functional": lambda o: functional.binary_cross_entropy_with_logits(o, VALUES),
        "module": lambda o: nn.BCEWithLogitsLoss(pos_weight=torch.ones(1))(o, VALUES),
    },
    "kl_div": {"functional": lambda o: functional.kl_div(o.log_softmax(0), VALUES, reduction="batchmean")},
}


def test_the_error_from_which_a_loss_grows_as_the_error_is_known():
    assert viewed(lambda o: functional.huber_loss(o, VALUES, delta=0.5), units=1).facts.limit == 0.5
    assert viewed(lambda o: functional.smooth_l1_loss(o, VALUES, beta=2.0), units=1).facts.limit == 2.0
    assert viewed(lambda o: functional.l1_loss(o, VALUES), units=1).facts.limit == 1.0


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in REGRESSIONS.items() for name in names])
def test_losses_of_values_are_told_apart(kind, name):
    view = viewed(REGRESSIONS[kind][name], units=1)

    assert (view.facts.kind, view.facts.reduction, view.facts.factor) == (kind, "mean", 1.0)
    assert (view.facts.negated, view.facts.broadcast, view.facts.before) == (False, False, "")
    assert view.facts.outputs_shape == (ROWS, 1)
    if view.difference is None:
        assert torch.equal(view.targets, VALUES)
    else:
        outputs = linear(1)(torch.ones(ROWS, 4))
        torch.testing.assert_close(outputs - view.difference_sign * view.difference, VALUES)


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda o: functional.binary_cross_entropy(o, VALUES),
        lambda o: -(VALUES * o.log() + (1 - VALUES) * (1 - o).log()).mean(),
    ],
)
def test_a_binary_cross_entropy_follows_a_sigmoid(loss_of):
    facts = viewed(loss_of, nn.Sigmoid(), units=1).facts

    assert (facts.kind, facts.reduction, facts.before, facts.negated) == ("bce", "mean", "sigmoid", False)


class Squared(nn.Module):
    def forward(self, values):
        return values**2


@pytest.mark.parametrize(
    ("module", "before"),
    [
        (nn.Softmax(1), "softmax"),
        (nn.LogSoftmax(1), "log_softmax"),
        (nn.Sigmoid(), "sigmoid"),
        (nn.LogSigmoid(), "log_sigmoid"),
        (nn.Tanh(), "tanh"),
        (nn.ReLU(), "relu"),
        (nn.Sequential(nn.ReLU(), nn.Flatten()), "relu"),
        (nn.GELU(), "gelu"),
        (nn.Softplus(), "softplus"),
        (nn.Hardtanh(), "hardtanh"),
        (nn.ReLU6(), "relu6"),
        (nn.ELU(), "elu"),
        (nn.ELU(alpha=2.0), ""),
        (nn.Hardtanh(-2.0, 2.0), ""),
        (nn.LeakyReLU(), ""),
        (Squared(), "square"),
    ],
)
def test_the_activation_before_the_loss_is_named(module, before):
    assert viewed(lambda o: functional.cross_entropy(o, CLASS), module).facts.before == before
    assert viewed(lambda o: functional.mse_loss(o, VALUES), module, units=1).facts.before == before


@pytest.mark.parametrize(("module", "before"), [(nn.Softmax(1), "softmax"), (nn.Identity(), "")])
def test_nll_without_a_logarithm_is_no_cross_entropy(module, before):
    facts = viewed(lambda o: functional.nll_loss(o, CLASS), module).facts

    assert (facts.kind, facts.before) == ("nll", before)


@pytest.mark.parametrize(
    ("loss_of", "factor"),
    [
        (lambda o: -functional.cross_entropy(o, CLASS), 1.0),
        (lambda o: -1 * functional.cross_entropy(o, CLASS), 1.0),
        (lambda o: 0.0 - functional.cross_entropy(o, CLASS) / 4, 0.25),
        (lambda o: o.log_softmax(1).gather(1, CLASS[:, None]).mean(), 1.0),
        (lambda o: (SHARES * o.log_softmax(1)).sum(1).mean(), 1.0),
    ],
)
def test_a_negative_loss_is_told(loss_of, factor):
    facts = viewed(loss_of).facts

    assert (facts.kind, facts.negated, facts.factor) == ("cross_entropy", True, factor)


@pytest.mark.parametrize(
    ("loss_of", "negated"),
    [
        (lambda o: -10 * (functional.mse_loss(o, VALUES) + 1e-8).log10(), True),
        (lambda o: 10 * (functional.mse_loss(o, VALUES) / 255**2).log10(), False),
        (lambda o: 10 * torch.log10(4.0 / functional.mse_loss(o, VALUES)), True),
        (lambda o: -20 * torch.log10(1 / functional.mse_loss(o, VALUES).sqrt()), False),
        (lambda o: torch.log(VALUES.square().sum(1) / (o - VALUES).square().sum(1)).mean(), True),
        (lambda o: (o - VALUES).square().sum().log(), False),
        (lambda o: (o - VALUES).square().log1p().mean(), False),
        (lambda o: -(1 - (o - VALUES).square()).log().mean(), False),
    ],
)
def test_decibels_of_errors_have_a_sign(loss_of, negated):
    facts = viewed(loss_of, units=1).facts

    assert (facts.kind, facts.negated, facts.reduction) == ("log_mse", negated, "mean")


@pytest.mark.parametrize(
    ("loss_of", "reduction", "factor"),
    [
        (lambda o: functional.mse_loss(o, VALUES, reduction="sum"), "sum", 1.0),
        (lambda o: functional.mse_loss(o, VALUES, reduction="none").sum(), "sum", 1.0),
        (lambda o: ((o - VALUES) ** 2).sum(), "sum", 1.0),
        (lambda o: functional.mse_loss(o, VALUES) / 4, "mean", 0.25),
        (lambda o: 100.0 * functional.mse_loss(o, VALUES), "mean", 100.0),
        (lambda o: torch.tensor(2.0) * functional.mse_loss(o, VALUES), "mean", 2.0),
    ],
)
def test_sums_and_factors_are_told(loss_of, reduction, factor):
    facts = viewed(loss_of, units=1).facts

    assert (facts.kind, facts.reduction, facts.factor) == ("mse", reduction, factor)


@pytest.mark.parametrize(("divisor", "factor"), [(ROWS, 3.0), (3 * ROWS, 1.0)])
def test_a_sum_over_rows_of_several_values_is_so_many_times_their_mean(divisor, factor):
    values = VALUES.expand(ROWS, 3).contiguous()
    facts = viewed(lambda o: functional.mse_loss(o, values, reduction="sum") / divisor, units=3).facts

    assert (facts.kind, facts.reduction, facts.factor) == ("mse", "mean", factor)


@pytest.mark.filterwarnings("ignore:Using a target size")
def test_broadcasting_is_told_with_both_shapes():
    fused = viewed(lambda o: functional.mse_loss(o, VALUES[:, 0]), units=1).facts
    written = viewed(lambda o: (o - VALUES[:, 0]).square().mean(), units=1).facts
    flat = viewed(lambda o: functional.l1_loss(o.squeeze(1), VALUES[:, 0]), units=1).facts

    assert (fused.broadcast, fused.outputs_shape, fused.targets_shape) == (True, (ROWS, 1), (ROWS,))
    assert (written.broadcast, written.outputs_shape) == (True, (ROWS, 1))
    assert not flat.broadcast


@pytest.mark.parametrize(
    ("loss_of", "broadcast"),
    [
        pytest.param(lambda o: (o.exp() - VALUES[:, 0] * o).mean(), True, id="Poisson's"),
        pytest.param(lambda o: (o.exp() - VALUES * o).mean(), False, id="Poisson's of columns"),
        pytest.param(lambda o: (o.exp()[:, 0] - VALUES[:, 0] * o[:, 0]).mean(), False, id="Poisson's of rows"),
        pytest.param(lambda o: (o + VALUES[:, 0] * (-o).exp()).mean(), True, id="of an exponential distribution"),
        pytest.param(lambda o: (o * o.T - 2 * o * VALUES[:, 0]).mean(), False, id="of kernels"),
        pytest.param(lambda o: (o.square() - 2 * o * VALUES[:, 0]).exp().mean(), False, id="of distances"),
    ],
)
def test_a_column_and_a_row_in_a_sum_are_broadcast(loss_of, broadcast):
    assert viewed(loss_of, units=1).facts.broadcast is broadcast


@pytest.mark.parametrize(
    "loss_of",
    [
        lambda o: functional.poisson_nll_loss(o, SHARES),
        lambda o: functional.mse_loss(o, SHARES, reduction="none").sum(1).sqrt().mean(),
        lambda o: torch.linalg.vector_norm(o - SHARES),
        lambda o: o.mean(),
        lambda o: -(o.log_softmax(1).gather(1, CLASS[:, None])[:, 0] * WEIGHTS.repeat(2)).mean(),  # advantages
        lambda o: functional.cross_entropy(o, CLASS) + functional.mse_loss(o, SHARES),
        lambda o: (o[:, None] - o[None]).square().mean(),
        lambda o: 0.01 / functional.mse_loss(o, SHARES),
    ],
)
def test_what_is_not_certain_has_no_kind(loss_of):
    facts = viewed(loss_of).facts

    assert facts.kind == ""
    assert not facts.negated


def test_the_main_term_of_an_autoencoders_loss_is_the_reconstruction():
    def evidence_lower_bound(o):
        mean, log_variance = o[:, :1], o[:, 1:2]
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        return functional.mse_loss(o[:, 2:], VALUES, reduction="sum") + divergence

    facts = viewed(evidence_lower_bound).facts

    assert (facts.kind, facts.reduction) == ("mse", "sum")
    assert facts.terms > 1


def test_two_heads_with_one_kind_of_loss_have_that_kind():
    facts = viewed(
        lambda o: functional.cross_entropy(o, CLASS) + 0.5 * functional.cross_entropy(o.flip(1), CLASS)
    ).facts

    assert (facts.kind, facts.terms) == ("cross_entropy", 2)


class ModelWithLoss(nn.Module):
    """Returns its loss beside its outputs, as language models do."""

    def __init__(self):
        super().__init__()
        self.layer = linear(CLASSES)

    def forward(self, inputs, labels):
        logits = self.layer(inputs)
        return {"loss": functional.cross_entropy(logits, labels), "logits": logits}


def test_a_loss_that_the_model_computes_is_seen():
    returned = ModelWithLoss()(torch.ones(ROWS, 4), CLASS)
    view = loss_view(returned["loss"] / 2, output_nodes(list(returned.values())))

    assert (view.facts.kind, view.facts.factor, view.facts.outputs_shape) == ("cross_entropy", 0.5, (ROWS, CLASSES))
    assert torch.equal(view.targets, CLASS)


@pytest.mark.parametrize("loss_of", CLASSIFICATIONS.values(), ids=CLASSIFICATIONS)
def test_outputs_need_not_be_known(loss_of):
    model = linear(CLASSES)

    assert loss_view(loss_of(model(torch.ones(ROWS, 4)))).facts.kind == "cross_entropy"


def test_a_loss_without_graph_or_of_compiled_code_has_no_kind():
    compiled = torch.compile(lambda o: functional.mse_loss(o, VALUES), backend="aot_eager")

    assert loss_view(torch.ones(())).facts.kind == ""
    assert viewed(compiled, units=1).facts.kind == ""


def test_hooks_of_saved_tensors_are_not_called():
    unpacked = []

    def unpack(tensor):
        unpacked.append(tensor)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: tensor, unpack):
        loss = 0.5 * functional.cross_entropy(linear(CLASSES)(torch.ones(ROWS, 4)), CLASS)
    view = loss_view(loss)

    assert (view.facts.kind, view.targets) == ("cross_entropy", None)
    assert not unpacked


def test_the_gradient_is_the_same_and_nothing_is_kept():
    model = linear(CLASSES)
    twin = copy.deepcopy(model)
    for one, looks in ((model, True), (twin, False)):
        loss = CLASSIFICATIONS["label smoothing"](one(torch.ones(ROWS, 4)))
        if looks:
            facts = loss_view(loss).facts
            assert all(isinstance(name, str) for name in facts.nodes)
        loss.backward()

    assert torch.equal(model.weight.grad, twin.weight.grad)


def test_a_long_sum_of_losses_is_looked_at_in_part():
    outputs = linear(CLASSES)(torch.ones(ROWS, 4))
    loss = sum(functional.cross_entropy(outputs, CLASS) for _ in range(2000))
    begun = time.thread_time()
    facts = loss_view(loss, output_nodes([outputs])).facts

    assert time.thread_time() - begun < 0.05
    assert len(facts.nodes) <= 64


def test_a_mean_that_is_divided_by_a_tensor_is_a_mean_times_its_inverse():
    """As in a VQ-VAE, which divides by the variance of the data: it is no sum over a mask, which has a mean then."""
    scaled = viewed(lambda o: functional.mse_loss(o, VALUES) / torch.tensor(0.25), units=1).facts
    masked = viewed(lambda o: (o - VALUES).square().sum() / torch.tensor(4.0), units=1).facts
    assert (scaled.reduction, scaled.factor, masked.reduction, masked.factor) == ("mean", 4.0, "mean", 1.0)


def test_targets_without_an_element_have_no_sign():
    assert viewed(lambda o: (SHARES[:0] * o[:0].log_softmax(1)).sum()).facts.kind in ("", "cross_entropy")


@pytest.mark.parametrize(
    ("soften", "temperature"), [(lambda o: o / 4, 4.0), (lambda o: 0.25 * o, 4.0), (lambda o: o, 1.0)]
)
def test_what_outputs_are_divided_by_before_the_softmax_of_a_divergence_is_its_temperature(soften, temperature):
    facts = viewed(lambda o: functional.kl_div(soften(o).log_softmax(1), SHARES, reduction="batchmean")).facts
    assert (facts.kind, facts.temperature) == ("kl_div", temperature)


@pytest.mark.parametrize(("times", "kind"), [(1.0, "bce_with_logits"), (12.0, "")])
def test_counts_beside_the_logarithm_of_a_share_are_those_of_a_binomial(times, kind):
    found = torch.floor(times * torch.rand(ROWS, 1)) + (times == 1) * torch.rand(ROWS, 1)
    facts = viewed(
        lambda o: -(found * functional.logsigmoid(o) + (times - found) * functional.logsigmoid(-o)).mean(), units=1
    ).facts
    assert facts.kind == kind
