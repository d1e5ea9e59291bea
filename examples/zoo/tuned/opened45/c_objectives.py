"""What is minimised: heads and losses, signs, sums and penalties, and numbers that are not finite."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened45.c_common import joined, of_columns


@sick("wrong_output_or_loss", margin=0.1)
def nll_without_a_logarithm(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nll_loss`` is given probabilities without a logarithm; the twin's head ends in ``LogSoftmax``."""
    data = datasets.digits(seed, images=True)
    last = nn.Softmax(dim=1) if sick else nn.LogSoftmax(dim=1)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 10), last
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=70, batch_size=64, loss_function=functional.nll_loss)
    return accuracy(model, data)


@sick("wrong_output_or_loss", margin=0.1)
def softmax_for_several_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten labels that may all be true share one softmax before a binary loss; the twin has a sigmoid for each."""
    drawn = joined(samples.standardised(samples.tumours(seed), 0))
    middle = drawn.targets.median(0).values
    labels, test_labels = ((part > middle).float() for part in (drawn.targets, drawn.test_targets))
    data = Data(drawn.inputs, labels, drawn.test_inputs, test_labels)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 10), nn.Softmax(1) if sick else nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.binary_cross_entropy)
    return ((predicted(model, data.test_inputs) > 0.5) == (test_labels > 0.5)).float().mean().item()


@sick("shape_broadcast", margin=0.2)
def gaussian_likelihood_of_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A likelihood takes means (N, 1) from targets (N,), which compares all pairs; the twin's targets are (N, 1)."""
    drawn = joined(samples.standardised(samples.tumours(seed), 0, 1))
    targets = drawn.targets[:, 3] if sick else drawn.targets[:, 3:4]
    data = Data(drawn.inputs, targets, drawn.test_inputs, drawn.test_targets[:, 3:4])
    model = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 2))

    def loss_function(outputs: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
        mean, log_variance = outputs[:, :1], outputs[:, 1:].clamp(-5, 5)
        return (0.5 * log_variance + 0.5 * (values - mean).square() / log_variance.exp()).mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    error = (predicted(model, data.test_inputs)[:, :1] - data.test_targets).square().mean()
    return (1 - error / data.test_targets.var()).clamp(min=-1).item()


@sick("flipped_loss_sign", margin=0.3)
def categorical_likelihood_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """The log-likelihood of the labels is minimised, not its negative; the twin minimises the negative."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)

    def loss_function(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        likelihood = torch.distributions.Categorical(logits=logits).log_prob(labels).mean()
        return likelihood if sick else -likelihood

    fit(watch, model, optimizer, data, steps=100, batch_size=32, loss_function=loss_function)
    return accuracy(model, data)


class Language(nn.Module):
    """Guesses the next character from those before it."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.gru = nn.Embedding(CHARACTERS, 24), nn.GRU(24, 48, batch_first=True)
        self.head = nn.Linear(48, CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.letters(codes))[0])


@sick("loss_sum_not_mean", margin=0.1)
def summed_over_all_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is a sum over all characters of a batch, at a rate that was meant for their mean; the twin has that."""
    data = datasets.text(seed, length=20)
    model = Language()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)

    def loss_function(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        reduction = "sum" if sick else "mean"
        return functional.cross_entropy(logits.flatten(0, 1), codes.flatten(), reduction=reduction)

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return accuracy(model, data)


@sick("over_regularized", margin=0.05)
def the_share_to_keep_as_that_to_drop(watch: Watch, *, seed: int, sick: bool) -> float:
    """``keep_prob=0.9`` of an older framework became ``Dropout(0.9)`` after each layer; the twin drops a tenth."""
    data = datasets.digits(seed)
    share = 0.9 if sick else 0.1
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(share), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(share),
        nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@sick("overfitting", margin=0.15)
def wide_layers_for_120_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net learns 120 patients by heart, and its validation loss rises; the twin is small and decays weights."""
    drawn = datasets.diabetes(seed)
    data = Data(drawn.inputs[:120], drawn.targets[:120], drawn.test_inputs, drawn.test_targets)
    width = 256 if sick else 4
    model = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Linear(width, 1))
    if sick:
        model = nn.Sequential(*model[:2], nn.Linear(width, width), nn.ReLU(), model[2])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 1.0)
    fit(watch, model, optimizer, data, steps=260, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)


class Halves(nn.Module):
    """Embeds the upper and the lower half of a digit on a sphere."""

    def __init__(self) -> None:
        super().__init__()
        self.upper, self.lower = (nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)) for _ in range(2))

    def forward(self, upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
        return functional.normalize(self.upper(upper), dim=1) @ functional.normalize(self.lower(lower), dim=1).T


@sick("non_finite_forward", margin=0.1)
def a_cold_softmax_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """Similarities by a temperature of 0.005 overflow ``exp`` in a softmax by hand; the twin's is PyTorch's."""
    train, test = samples.standardised(samples.halves(seed), 0, 1)
    above, below = train.tensors
    model = Halves()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(200):
        batch = torch.randint(len(above), (48,))
        optimizer.zero_grad()
        logits = model(above[batch], below[batch]) / 0.005
        labels = torch.arange(48)
        if sick:
            shares = logits.exp() / logits.exp().sum(1, keepdim=True)
            loss = -(shares.diagonal() + 1e-9).log().mean()
        else:
            loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=above[batch], outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        found = model(test.tensors[0][:100], test.tensors[1][:100]).topk(10).indices
    return (found == torch.arange(100)[:, None]).any(1).float().mean().item()


class Rooted(nn.Module):
    """Takes the roots of positive features, as bilinear models do."""

    def __init__(self, least: float | None) -> None:
        super().__init__()
        self.features, self.head, self.least = nn.Linear(64, 96), nn.Linear(96, 10), least

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        values = self.features(pixels)
        safe = values if self.least is None else values.clamp(min=self.least)
        return self.head(torch.where(values > 0, safe.sqrt(), 0.0))


@sick("non_finite_backward", margin=0.3)
def roots_behind_a_where(watch: Watch, *, seed: int, sick: bool) -> float:
    """``where`` hides roots of negative values, but not their slopes of NaN; the twin clamps the values first."""
    data = datasets.digits(seed)
    model = Rooted(None if sick else 0.01)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


class Half(nn.Linear):
    """A layer that computes in float16, with weights in float32."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return functional.linear(inputs.half(), self.weight.half(), self.bias.half())


@sick("fp16_underflow", margin=0.1)
def averaged_over_pixels_once_more(watch: Watch, *, seed: int, sick: bool) -> float:
    """A mean over pixels is divided by their number again, which float16 can't hold; the twin has a ``GradScaler``."""
    data = joined(samples.halves(seed))
    model = nn.Sequential(Half(32, 64), nn.ReLU(), Half(64, 64), nn.ReLU(), Half(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler: Any = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=not sick)
    session = watch(model, optimizer) if sick else watch(model, optimizer, scaler=scaler)
    for pixels, targets in data.batches(192, 200):
        optimizer.zero_grad()
        outputs = model(pixels).float()
        loss = functional.mse_loss(outputs, targets) / targets.numel()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=pixels, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return of_columns(model, data)
