"""Autoencoders of patches and digits, plain, denoising and variational."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.samples import explained


def autoencoder(size: int = 64, code: int = 12, *, end: nn.Module | None = None) -> nn.Sequential:
    """Returns an encoder and a decoder with one hidden layer each."""
    layers = [nn.Linear(size, 48), nn.ReLU(), nn.Linear(48, code), nn.ReLU(), nn.Linear(code, 48), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(48, size), *([] if end is None else [end]))


class VAE(nn.Module):
    """A variational autoencoder; gives the reconstruction, the mean and the logarithm of the variance."""

    def __init__(self, code: int = 8) -> None:
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(64, 64), nn.ReLU())
        self.mu, self.logvar = nn.Linear(64, code), nn.Linear(64, code)
        self.dec = nn.Sequential(nn.Linear(code, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        hidden = self.enc(x)
        mu, logvar = self.mu(hidden), self.logvar(hidden)
        drawn = mu + torch.randn_like(mu) * (0.5 * logvar).exp() if self.training else mu
        return self.dec(drawn), mu, logvar


def divergence(mu: torch.Tensor, logvar: torch.Tensor) -> torch.Tensor:
    """Returns the mean over a batch of the divergence from the standard normal."""
    return (-0.5 * (1 + logvar - mu.square() - logvar.exp()).sum(1)).mean()


def pictures(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns patches from 0 to 255 to train on and to judge by."""
    pixels = datasets.patches(seed, count=1600)
    return pixels[:1200], pixels[1200:]


def shades(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns patches with mean 0 and deviation 1."""
    train, test = pictures(seed)
    return (train - train.mean()) / train.std(), (test - train.mean()) / train.std()


Criterion = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def reconstruct(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    images: tuple[torch.Tensor, torch.Tensor],
    *,
    epochs: int = 8,
    batch: int = 50,
    criterion: Criterion = functional.mse_loss,
    corrupt: Callable[[torch.Tensor], torch.Tensor] | None = None,
    wanted: Callable[[torch.Tensor], torch.Tensor] | None = None,
) -> float:
    """Trains a model to give back its input and returns what it explains of pictures that it has not seen."""
    train, test = images
    session = watch(model, optimizer)
    for _ in range(epochs):
        for rows in torch.randperm(len(train)).split(batch):
            x = train[rows]
            target = x if wanted is None else wanted(x)
            given = x if corrupt is None else corrupt(x)
            output = model(given)
            loss = criterion(output, target)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=given, outputs=output, targets=target)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return explained(model(test), test if wanted is None else wanted(test))


@sick("target_out_of_range")
def bytes_behind_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """The input is divided by 255, the target is not; the decoder ends in a sigmoid."""
    train, test = pictures(seed)
    model = autoencoder(end=nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scale = 255.0 if sick else 1.0
    return reconstruct(watch, model, optimizer, (train / 255, test / 255), wanted=lambda x: scale * x)


@sick("target_out_of_range", also=("wrong_output_or_loss",))
def binary_cross_entropy_of_standardised_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """The binary cross entropy asks for shares; standardised pixels are not from 0 to 1."""
    model = autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion: Criterion = functional.binary_cross_entropy_with_logits if sick else functional.mse_loss
    return reconstruct(watch, model, optimizer, shades(seed), criterion=criterion)


@sick("learning_rate_too_high")
def adam_at_one_tenth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam with a rate of 0.1 on a narrow code."""
    model = autoencoder(code=8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if sick else 3e-3)
    return reconstruct(watch, model, optimizer, shades(seed), epochs=6)


@sick("saturated_units", also=("inputs_not_normalized",))
def sigmoids_that_see_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hidden sigmoids take pixels of up to 255, and stand at 0 or 1 for each of them."""
    train, test = pictures(seed)
    mean, std = train.mean(), train.std()
    images = (train, test) if sick else ((train - mean) / std, (test - mean) / std)
    model = nn.Sequential(nn.Linear(64, 32), nn.Sigmoid(), nn.Linear(32, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return reconstruct(watch, model, optimizer, images, wanted=(lambda x: (x - mean) / std) if sick else None)


def _vary(watch: Watch, seed: int, *, rate: float, weight: Callable[[int], float], steps: int = 220) -> float:
    """Trains a variational autoencoder on digits; ``weight`` gives the divergence's weight at a step."""
    data = datasets.digits(seed)
    vae = VAE()
    optimizer = torch.optim.Adam(vae.parameters(), lr=rate)
    session = watch(vae, optimizer)
    for step, (x, _) in enumerate(data.batches(64, steps)):
        optimizer.zero_grad()
        output, mu, logvar = vae(x)
        error = functional.mse_loss(output, x, reduction="sum") / len(x)
        loss = error + weight(step) * divergence(mu, logvar)
        loss.backward()
        session.step(loss, inputs=x, outputs=output, targets=x)
        optimizer.step()
    vae.eval()
    with torch.no_grad():
        return explained(vae(data.test_inputs)[0], data.test_inputs)


@sick("flipped_loss_sign", also=("exploding_gradients", "non_finite_forward"))
def divergence_subtracted(watch: Watch, *, seed: int, sick: bool) -> float:
    """The divergence is subtracted from the error instead of added to it."""
    return _vary(watch, seed, rate=3e-3, weight=lambda _: -0.1 if sick else 0.1)


@sick("over_regularized")
def divergence_times_fifty(watch: Watch, *, seed: int, sick: bool) -> float:
    """The divergence outweighs the error fifty times: the code says nothing."""
    return _vary(watch, seed, rate=3e-3, weight=lambda _: 50.0 if sick else 0.1)


@sick("poor_initialization", also=("vanishing_gradients",))
def weights_of_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights are drawn with a deviation of 0.001, and the signal dies on its way."""
    model = autoencoder()
    if sick:
        for weight in model.parameters():
            nn.init.normal_(weight, std=1e-3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    return reconstruct(watch, model, optimizer, shades(seed))


@healthy(at_least=0.5)
def divergence_that_warms_up(watch: Watch, *, seed: int) -> float:
    """The divergence's weight grows over 100 steps, and the loss with it."""
    return _vary(watch, seed, rate=3e-3, weight=lambda step: 0.1 * min(1.0, step / 100))


@healthy(at_least=0.6)
def noise_taken_away(watch: Watch, *, seed: int) -> float:
    """A denoising autoencoder: a quarter of the pixels is set to zero in each batch."""
    model = autoencoder(code=24)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    return reconstruct(watch, model, optimizer, shades(seed), corrupt=lambda x: x * (torch.rand_like(x) > 0.25))


@healthy(at_least=0.7)
def a_wide_code(watch: Watch, *, seed: int) -> float:
    """A linear bottleneck with SELU around it, trained by RMSprop."""
    model = nn.Sequential(
        nn.Linear(64, 64), nn.SELU(), nn.Linear(64, 16), nn.Linear(16, 64), nn.SELU(), nn.Linear(64, 64)
    )
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    return reconstruct(watch, model, optimizer, shades(seed))
