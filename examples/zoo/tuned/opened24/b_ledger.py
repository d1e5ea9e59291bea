"""Tables: tumours, wines, patients and prices."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened24.b_sources import parted


def _prices(seed: int, *, rows: int = 900) -> Data:
    """Eight measurements, standardised, and a price (N, 1) whose logarithm they explain."""
    random = torch.Generator().manual_seed(seed)
    inputs = torch.randn(rows, 8, generator=random)
    parts = 0.4 * inputs[:, 0] + 0.3 * inputs[:, 1] * inputs[:, 2].sign() + 0.2 * inputs[:, 3].abs()
    noise = 0.1 * torch.randn(rows, generator=random)
    return parted(inputs, (parts + noise).exp()[:, None], seed)


@sick("no_update", margin=0.2)
def zeroed_between_backward_and_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands after ``backward`` and before ``step``; the twin zeroes before ``backward``."""
    data = datasets.breast_cancer(seed)
    data = Data(data.inputs, data.targets.float(), data.test_inputs, data.test_targets.float())
    model = nn.Sequential(nn.Linear(30, 24), nn.GELU(), nn.Linear(24, 1), nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = watch(model, optimizer)
    for rows, benign in data.batches(32, 150):
        outputs = model(rows)
        loss = functional.binary_cross_entropy_with_logits(outputs, benign)
        if sick:
            loss.backward()
            optimizer.zero_grad()
        else:
            optimizer.zero_grad()
            loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=benign)
        optimizer.step()
    return binary_accuracy(model, data)


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def zero_grad_without_brackets(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad`` is named and not called; the twin calls it."""
    data = _prices(seed)
    data = Data(data.inputs, data.targets.log(), data.test_inputs, data.test_targets.log())
    model = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for rows, prices in data.batches(64, 250):
        optimizer.zero_grad if sick else optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, prices)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=prices)
        optimizer.step()
    return r_squared(model, data)


@sick("non_finite_forward", also=("wrong_output_or_loss",), margin=0.05)
def counts_whose_rate_may_be_negative(watch: Watch, *, seed: int, sick: bool) -> float:
    """Poisson's loss with ``log_input=False`` takes logarithms of raw outputs; the twin's outputs are logarithms."""
    data = _prices(seed)
    random = torch.Generator().manual_seed(seed)
    data = Data(
        data.inputs,
        torch.poisson(20 * data.targets, generator=random),
        data.test_inputs,
        torch.poisson(20 * data.test_targets, generator=random),
    )
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=250, loss_function=nn.PoissonNLLLoss(log_input=not sick))
    found = predicted(model, data.test_inputs)
    return samples.explained(found if sick else found.exp(), data.test_targets)


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.1)
def ten_layers_drawn_by_a_fiftieth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of ten narrow layers is drawn by 0.02, as in BERT, without residuals; the twin draws them by He's rule."""
    data = datasets.digits(seed)
    data = Data((data.inputs - 0.3) / 0.37, data.targets, (data.test_inputs - 0.3) / 0.37, data.test_targets)
    layers: list[nn.Module] = [nn.Linear(64, 32), nn.ReLU()]
    for _ in range(8):
        layers += [nn.Linear(32, 32), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(32, 10))
    for layer in model:
        if isinstance(layer, nn.Linear):
            if sick:
                nn.init.normal_(layer.weight, std=0.02)
            else:
                nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=300)
    return accuracy(model, data)


@sick("over_regularized", margin=0.1)
def the_absolute_sum_of_all_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """A tenth of the sum of all absolute weights is added to the loss; the twin adds a hundred thousandth of it."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows, worst in data.batches(32, 250):
        optimizer.zero_grad()
        outputs = model(rows)
        absolute = sum(weights.abs().sum() for weights in model.parameters())
        loss = functional.mse_loss(outputs, worst) + (0.1 if sick else 1e-5) * absolute
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=worst)
        optimizer.step()
    return samples.explained(model(data.test_inputs).detach(), data.test_targets)


@sick("wrong_mode", margin=0.05)
def eval_before_the_first_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A validation before the first epoch leaves the norms in eval mode, for raw wines; the twin calls ``train``."""
    data = datasets.wine(seed, raw=True)
    model = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(15):
        model.eval()
        with torch.no_grad():
            session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
        if not sick:
            model.train()
        for rows, kinds in data.batches(16, 8):
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, kinds)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=kinds)
            optimizer.step()
    return accuracy(model, data)
