"""Each probe sees what it looks for, and not what it does not."""

import math

import pytest
import torch
from digits_data import digits_data
from torch import nn
from torch.nn import functional

from debuggers.probes.batch import ProbedBatch
from debuggers.probes.run import run_probes


def digits(rows=64):
    images, labels = digits_data()
    return torch.tensor(images[:rows] / 16, dtype=torch.float32), torch.tensor(labels[:rows])


def network(*more):
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), *more, nn.ReLU(), nn.Linear(32, 10))


def probed(model, batch=None, *, loss=functional.cross_entropy, kind="cross_entropy", optimizer=None, steps=25):
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2) if optimizer is None else optimizer
    return run_probes(model, optimizer, ProbedBatch(digits() if batch is None else batch, loss), kind=kind, steps=steps)


class Mixing(nn.Module):
    def __init__(self):
        super().__init__()
        self.model = network()

    def forward(self, x):
        return self.model(x).softmax(0)


class Words(nn.Module):
    """Takes integers; subtracts the mean over the batch if it mixes."""

    def __init__(self, *, mixes):
        super().__init__()
        self.embedding, self.head, self.mixes = nn.Embedding(17, 8), nn.Linear(8, 10), mixes

    def forward(self, x):
        x = self.embedding(x).mean(1)
        return self.head(x - x.mean(0) if self.mixes else x)


def test_a_sound_model_passes_all_probes():
    report = probed(network(nn.BatchNorm1d(32)))
    assert not report.failures
    results = report.results
    assert results["fit_one_batch"]["fits"]
    assert results["fit_one_batch"]["last"] < 0.5 * results["fit_one_batch"]["first"]
    assert not results["zeroed_inputs"]["ignores_inputs"]
    assert not results["batch_mixing"]["mixed"]
    assert 1e-5 < results["learning_rate"]["suggested"] < 1
    assert results["initial_loss"]["expected"] == pytest.approx(math.log(10))
    assert results["initial_loss"]["ratio"] == pytest.approx(1, abs=0.2)
    assert report.summary().count("\n") == 5


def test_a_softmax_over_the_batch_mixes():
    result = probed(Mixing()).results["batch_mixing"]
    assert result["mixed"]
    assert f"{result['others']:.3g}" in result["evidence"]


@pytest.mark.parametrize("mixes", [True, False])
def test_integer_inputs_are_judged_by_their_outputs(mixes):
    torch.manual_seed(0)
    images, labels = digits()
    report = probed(Words(mixes=mixes), ((images * 16).long(), labels))
    assert report.results["batch_mixing"]["mixed"] is mixes


def test_a_dead_model_neither_fits_nor_sees_its_inputs():
    model = network()
    with torch.no_grad():
        model[0].bias.fill_(-100)
    results = probed(model).results
    assert results["zeroed_inputs"]["ignores_inputs"]
    assert not results["batch_mixing"]["mixed"]
    assert (
        probed(model, optimizer=torch.optim.SGD(model.parameters(), lr=1e-4)).results["fit_one_batch"]["fits"] is False
    )


def test_the_modes_differ_with_a_dropout():
    result = probed(network(nn.Dropout(0.9))).results["modes"]
    assert result["layers"] == ["1"]
    assert result["train"] != result["eval"]
    plain = probed(network()).results["modes"]
    assert plain["train"] == plain["eval"]


def test_the_squared_error_is_compared_with_the_variance():
    x, y = digits(rows=500)
    y = y.float()
    result = probed(nn.Linear(64, 1), (x, y[:, None]), loss=functional.mse_loss, kind="mse").results["initial_loss"]
    assert result["expected"] == pytest.approx(y.var(correction=0).item(), rel=1e-5)
    assert result["ratio"] > 2


@pytest.mark.parametrize("make", [torch.optim.LBFGS, torch.optim.SGD, torch.optim.AdamW])
def test_copies_of_optimizers_train(make):
    model = network()
    report = probed(model, optimizer=make(model.parameters(), lr=0.1), steps=10)
    assert {"fit_one_batch", "learning_rate"} <= set(report.results), report.failures


def test_a_failing_probe_is_told():
    def fails(outputs, targets):
        raise RuntimeError("no loss today")

    report = probed(network(), loss=fails)
    assert not report.results
    assert "no loss today" in report.failures["batch_mixing"]
    assert "no loss today" in report.summary()


class Keeps(nn.Module):
    """Keeps its last outputs with their graph, as recurrent models keep their state, and returns a loss first."""

    def __init__(self):
        super().__init__()
        self.model, self.kept = network(), []

    def forward(self, x, labels=None):
        self.kept = [self.model(x)]
        loss = None if labels is None else functional.cross_entropy(self.kept[0], labels)
        return {"loss": loss, "logits": self.kept[0]}


def test_a_model_that_keeps_results_and_returns_its_loss_first_is_probed():
    model, (inputs, labels) = Keeps(), digits()
    model(inputs)
    report = probed(model, {"x": inputs, "labels": labels}, loss=None)
    assert not report.failures
    assert report.results["initial_loss"]["expected"] == pytest.approx(math.log(10))
    assert model.kept[0].grad_fn is not None


def test_complex_outputs_are_compared():
    model = nn.Linear(6, 2, dtype=torch.complex64)
    inputs = torch.randn(16, 6, dtype=torch.complex64)

    def loss(outputs, targets):
        return (outputs - targets).abs().square().mean()

    for mixes, sees in ((False, model), (True, nn.Sequential(model, nn.Softmax(0)))):
        if mixes:
            sees[1].forward = lambda x: x / x.abs().sum(0)
        assert probed(sees, (inputs, inputs[:, :2]), loss=loss, kind="").results["batch_mixing"]["mixed"] is mixes


def test_a_model_without_outputs_is_told():
    class Silent(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(64))

        def forward(self, x):
            self.loss = (x @ self.weight).square().mean()

    def forward(model, batch):
        model(batch[0])
        return model.loss

    model = Silent()
    model(digits()[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    report = run_probes(model, optimizer, ProbedBatch(digits(), forward=forward), kind="mse", steps=5)
    assert "the model returned NoneType, which holds no tensor" in report.failures["zeroed_inputs"]
    assert {"fit_one_batch", "modes", "learning_rate"} <= report.results.keys()
