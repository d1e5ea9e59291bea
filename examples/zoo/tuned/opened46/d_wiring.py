"""Gradients that are kept, parameters that are forgotten, and modes: how models and optimizers are wired."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened46.d_kit import Reader, faces, lower_halves, perceptron, scripts, train


@sick("gradients_not_zeroed", margin=0.05)
def clearing_one_loop_too_far_out(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands in the loop over epochs, one level too far out; the twin calls it for each batch."""
    data = scripts(seed)
    model = Reader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(10):
        optimizer.zero_grad()
        for rows in torch.randperm(len(data.inputs)).split(32):
            if not sick:
                optimizer.zero_grad()
            outputs = model(data.inputs[rows])
            loss = functional.cross_entropy(outputs, data.targets[rows])
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.1)
def second_stage_that_thaws_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """The second stage sets ``body.requires_grad = True``, which thaws nothing; the twin calls ``requires_grad_``."""
    data = faces(seed)
    body = nn.Sequential(nn.Flatten(), nn.Linear(64, 10), nn.ReLU(), nn.Linear(10, 6), nn.ReLU())
    model = nn.Sequential(body, nn.Linear(6, 10))
    for parameter in body.parameters():
        parameter.requires_grad = False
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(64, 300)):
        if step == 15:
            if sick:
                body.requires_grad = True
            else:
                body.requires_grad_(True)
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.1)
def optimizer_of_the_encoder_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer was made of the encoder's parameters and not of the decoder's; the twin gives it the model's."""
    data = lower_halves(seed)
    model = nn.ModuleDict({"encoder": perceptron(32, 48, 12), "decoder": perceptron(12, 48, 32)})
    optimizer = torch.optim.Adam((model["encoder"] if sick else model).parameters(), lr=3e-3)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model["decoder"](model["encoder"](inputs).relu())
        return functional.smooth_l1_loss(outputs, targets), outputs

    train(watch, model, optimizer, data, step, steps=250)
    with torch.no_grad():
        return explained(step(data.test_inputs, data.test_targets)[1], data.test_targets)


class RoundedCode(nn.Module):
    """An autoencoder of bits, with or without the gradient that passes straight through."""

    def __init__(self, straight: bool) -> None:
        super().__init__()
        self.straight = straight
        self.encode, self.decode = perceptron(64, 64, 10), perceptron(10, 64, 64)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns pixels."""
        soft = self.encode(pixels).sigmoid()
        bits = (soft > 0.5).float()
        return self.decode(bits + soft - soft.detach() if self.straight else bits)


@sick("detached_parameters", margin=0.05)
def bits_without_straight_through(watch: Watch, *, seed: int, sick: bool) -> float:
    """Codes are compared with 0.5, so that no gradient reaches the encoder; the twin passes it straight through."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = RoundedCode(not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Towers(nn.Module):
    """Queries of upper halves, keys of lower ones, and their similarities."""

    def __init__(self, cut: bool) -> None:
        super().__init__()
        self.cut = cut
        self.query, self.key = perceptron(32, 64, 12), perceptron(32, 12, 12)

    def forward(self, upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
        """Returns similarities of all pairs, divided by a temperature."""
        queries = functional.normalize(self.query(upper), dim=1)
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.cut):
            keys = functional.normalize(self.key(lower), dim=1)
        return queries @ keys.T / 0.1


@sick("detached_parameters", margin=0.1)
def keys_as_in_moco_without_momentum(watch: Watch, *, seed: int, sick: bool) -> float:
    """Keys have no gradient, as in MoCo, and their tower follows no other either; the twin trains it as well."""
    data = lower_halves(seed)
    model = Towers(sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for upper, lower in data.batches(64, 250):
        optimizer.zero_grad()
        outputs, pairs = model(upper, lower - 0.3), torch.arange(len(upper))
        loss = functional.cross_entropy(outputs, pairs)
        loss.backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=pairs)
        optimizer.step()
    with torch.no_grad():
        found = model(data.test_inputs[:100], data.test_targets[:100] - 0.3).topk(5).indices
    return (found == torch.arange(100)[:, None]).any(1).float().mean().item()


@sick("wrong_mode", also=("vanishing_gradients",), margin=0.1)
def left_in_eval_by_a_first_check(watch: Watch, *, seed: int, sick: bool) -> float:
    """A validation before the first epoch leaves the model in eval mode; the twin calls ``train`` after it."""
    data = datasets.digits(seed)
    layers: list[nn.Module] = []
    for width in (64, *[32] * 7):
        layers += [nn.Linear(width, 32, bias=False), nn.BatchNorm1d(32), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    model.eval()
    with torch.no_grad():
        session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
    if not sick:
        model.train()
    for inputs, targets in data.batches(48, 120):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return accuracy(model, data)


class Variational(nn.Module):
    """A variational autoencoder of digits with a code of eight."""

    def __init__(self) -> None:
        super().__init__()
        self.encode, self.decode = perceptron(64, 64, 16), perceptron(8, 64, 64)

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns pixels, means and logarithms of variances."""
        mean, log_variance = self.encode(pixels).chunk(2, -1)
        noise = torch.randn_like(mean) if self.training else 0
        return self.decode(mean + noise * (log_variance / 2).exp()), mean, log_variance


@sick("over_regularized", margin=0.1)
def divergence_against_a_mean_over_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """A VAE's error is a mean over pixels but its divergence a sum over the code; the twin divides both by 64."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs, mean, log_variance = model(inputs)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        error = functional.mse_loss(outputs, targets) / 0.04
        return error + divergence * (1 if sick else 1 / 64), outputs

    train(watch, model, optimizer, data, step, steps=350)
    return explained(predicted_pixels(model, data.test_inputs), data.test_targets)


def predicted_pixels(model: nn.Module, pixels: torch.Tensor) -> torch.Tensor:
    """Returns the means' reconstructions."""
    model.eval()
    with torch.no_grad():
        return model(pixels)[0]


@sick("overfitting", margin=0.1)
def a_wide_network_for_few_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two layers of 256 units learn 331 patients by heart; the twin has one of 8 and weight decay."""
    data = datasets.diabetes(seed)
    model = perceptron(10, 256, 256, 1) if sick else perceptron(10, 8, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0 if sick else 0.3)
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(32, 400), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 40 == 0:
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(predicted(model, data.test_inputs), data.test_targets)
