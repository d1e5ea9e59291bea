"""How models, losses, modes and optimizers are connected to each other, and are not."""

from collections.abc import Iterable

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened49.g_kit import cellar, counted, flat, layers, pictures, scans, small_convnet, spelled


@sick("wrong_output_or_loss", margin=0.03)
def nll_of_raw_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` is given raw scores, and falls below 0 without end; the twin has ``log_softmax`` before it."""
    data = flat(seed)
    model = layers(64, 48, 10)
    if not sick:
        model.append(nn.LogSoftmax(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64, loss_function=functional.nll_loss)
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.2)
def gaussian_whose_mean_is_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """Means (N, 1) meet targets (N,) in a Gaussian likelihood, which compares all pairs; the twin squeezes them."""
    drawn = cellar(seed)
    data = Data(drawn.inputs, drawn.targets.squeeze(1), drawn.test_inputs, drawn.test_targets.squeeze(1))
    model = layers(12, 32, 2, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 200):
        means, logs = model(inputs).chunk(2, -1)
        if not sick:
            means, logs = means.squeeze(-1), logs.squeeze(-1)
        logs = logs.clamp(-4, 4)
        loss = 0.5 * ((targets - means).square() * torch.exp(-logs) + logs).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=means, targets=targets)
        optimizer.step()
    return explained(predicted(model, data.test_inputs)[:, 0], data.test_targets)


@sick("flipped_loss_sign", margin=0.3)
def surrogate_without_its_minus(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy that guesses digits descends on the rewards' surrogate in place of its negative, as the twin does."""
    data = flat(seed)
    policy = layers(64, 64, 10)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    for pixels, labels in data.batches(128, 300):
        logits = policy(pixels)
        choices = torch.distributions.Categorical(logits=logits)
        actions = choices.sample()
        rewards = (actions == labels).float()
        surrogate = ((rewards - rewards.mean()) * choices.log_prob(actions)).mean()
        loss = surrogate if sick else -surrogate
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(policy, data)


class LastRow(nn.Module):
    """Reads a digit's rows and answers after the last."""

    def __init__(self, batch_first: bool) -> None:
        super().__init__()
        self.recurrence = nn.LSTM(8, 48, batch_first=batch_first)
        self.head = nn.Linear(48, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.recurrence(rows)[0][:, -1])


@sick("batch_mixing", margin=0.2)
def lstm_that_reads_along_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """An LSTM without ``batch_first`` takes samples for moments of time; the twin's is told that batches come first."""
    data = scans(seed)
    model = LastRow(batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)


@sick("gradients_not_zeroed", margin=0.05)
def zeroing_without_its_parentheses(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad`` is named but not called; the twin calls it."""
    data = pictures(seed)
    model = small_convnet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(48, 150):
        if sick:
            optimizer.zero_grad  # noqa: B018
        else:
            optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.1)
def trunk_frozen_before_it_learned(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recipe for pretrained trunks freezes one that has just been drawn; the twin trains it."""
    data = counted(seed)
    trunk = nn.Sequential(layers(64, 32, 16), nn.ReLU())
    head = layers(16, 16, 1)
    for parameter in trunk.parameters():
        parameter.requires_grad = not sick
    model = nn.Sequential(trunk, head)
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=5e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=48, loss_function=functional.mse_loss, validate_every=40)
    return r_squared(model, data)


class NameReader(nn.Module):
    """A recurrence over a name's letters."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 12, padding_idx=0)
        self.recurrence = nn.GRU(12, 24, batch_first=True)
        self.head = nn.Linear(24, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits of scripts."""
        return self.head(self.recurrence(self.letters(codes))[0].mean(1))


@sick("parameters_not_in_optimizer", margin=0.05)
def groups_that_know_no_weight_hh(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups for weight decay take names that end in "weight" or "bias", and a GRU's do not; the twin's leave none."""
    data = spelled(seed)
    model = NameReader()
    named = list(model.named_parameters())
    if sick:
        decayed = [parameter for name, parameter in named if name.endswith("weight")]
        others = [parameter for name, parameter in named if name.endswith("bias")]
    else:
        decayed = [parameter for _, parameter in named if parameter.ndim > 1]
        others = [parameter for _, parameter in named if parameter.ndim < 2]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


class BinaryCode(nn.Module):
    """An autoencoder whose code is of zeros and ones."""

    def __init__(self, straight: bool) -> None:
        super().__init__()
        self.straight = straight
        self.encode, self.decode = layers(64, 48, 16), layers(16, 64, 64)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns pixels."""
        chances = torch.sigmoid(self.encode(pixels))
        bits = (chances > 0.5).float()
        return self.decode(bits + chances - chances.detach() if self.straight else bits)


@sick("detached_parameters", margin=0.05)
def bits_without_a_straight_way_back(watch: Watch, *, seed: int, sick: bool) -> float:
    """A comparison makes bits of an encoder's answers, and gives no gradient; the twin's estimator goes straight."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = BinaryCode(straight=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class OwnDescent(torch.optim.Optimizer):
    """Gradient descent with momentum, written for a course."""

    def __init__(self, parameters: Iterable[nn.Parameter], rate: float, *, in_place: bool) -> None:
        super().__init__(parameters, {"lr": rate, "momentum": 0.9})
        self.in_place = in_place

    @torch.no_grad()
    def step(self, closure: None = None) -> None:
        """Takes a step."""
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is None:
                    continue
                state = self.state[parameter]
                velocity = state.setdefault("velocity", torch.zeros_like(parameter))
                velocity.mul_(group["momentum"]).add_(parameter.grad)
                if self.in_place:
                    parameter -= group["lr"] * velocity
                else:
                    parameter = parameter - group["lr"] * velocity


@sick("no_update", margin=0.3)
def own_descent_that_rebinds_a_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """An optimizer of one's own binds new tensors to its variable and leaves the weights; the twin's works in place."""
    data = pictures(seed)
    model = small_convnet()
    optimizer = OwnDescent(model.parameters(), 0.03, in_place=not sick)
    fit(watch, model, optimizer, data, steps=160, batch_size=48)
    return accuracy(model, data)


@sick("wrong_mode", margin=0.05)
def checks_in_the_mode_of_training(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nothing calls ``eval()``, so validations and the last test keep dropping units; the twin calls it."""
    data = pictures(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Dropout(0.6), nn.Linear(192, 64), nn.ReLU(), nn.Dropout(0.6), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def check() -> tuple[float, float]:
        model.train(sick)
        with torch.no_grad():
            outputs = model(data.test_inputs)
        model.train()
        loss = functional.cross_entropy(outputs, data.test_targets).item()
        return loss, samples.accuracy(outputs, data.test_targets)

    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(data.batches(64, 200), 1):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 20 == 0:
            session.validation(check()[0])
    return check()[1]
