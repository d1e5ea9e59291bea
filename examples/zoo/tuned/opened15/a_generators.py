"""Generative models that go wrong: autoencoders, a diffusion model, and two nets against each other."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data


def _rebuilt(outputs: torch.Tensor, data: Data) -> float:
    """Returns the share of the pixels' variance that the outputs for the held-out digits explain."""
    return samples.explained(outputs.detach(), data.test_inputs)


@sick("over_regularized")
def a_divergence_summed_against_a_mean_error(watch: Watch, *, seed: int, sick: bool) -> float:
    """A VAE adds the sum of the divergence to the mean of the squared error; the twin sums both."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 20))
    decoder = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64), nn.Sigmoid())
    vae = nn.ModuleList([encoder, decoder])
    optimizer = torch.optim.Adam(vae.parameters(), lr=2e-3)
    session = watch(vae, optimizer)
    for images, _ in data.batches(100, 250):
        mean, log_variance = encoder(images).chunk(2, 1)
        outputs = decoder(mean + torch.randn_like(mean) * (log_variance / 2).exp())
        error = functional.mse_loss(outputs, images, reduction="mean" if sick else "sum")
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum()
        loss = (error + 0.1 * divergence) / (1 if sick else len(images))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    return _rebuilt(decoder(encoder(data.test_inputs)[:, :10]), data)


def _noised(images: torch.Tensor, level: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns images with a level (N, 1) of noise from 0 to 1, and the noise."""
    noise = torch.randn_like(images)
    return (1 - level).sqrt() * images + level.sqrt() * noise, noise


@sick("target_out_of_range")
def noise_predicted_by_a_sigmoid(watch: Watch, *, seed: int, sick: bool) -> float:
    """A diffusion model predicts the noise, which is normal; its last layer is a sigmoid, as it was for pixels."""
    data = datasets.digits(seed)
    layers: list[nn.Module] = [nn.Linear(65, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 64)]
    if sick:
        layers.append(nn.Sigmoid())
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(128, 350):
        level = torch.rand(len(images), 1)
        noised, noise = _noised(2 * images - 1, level)
        outputs = model(torch.cat([noised, level], 1))
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noised, outputs=outputs, targets=noise)
        optimizer.step()
    level = torch.full((len(data.test_inputs), 1), 0.7)
    noised, noise = _noised(2 * data.test_inputs - 1, level)
    with torch.no_grad():
        return samples.explained(model(torch.cat([noised, level], 1)), noise)


@sick("wrong_output_or_loss")
def a_sigmoid_before_a_loss_on_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """The decoder ends in a sigmoid, and the loss takes logits: no pixel can become darker than a half."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.ELU(), nn.Linear(64, 16))
    decoder = nn.Sequential(nn.Linear(16, 64), nn.ELU(), nn.Linear(64, 64))
    if sick:
        decoder.append(nn.Sigmoid())
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.BCEWithLogitsLoss()
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 300):
        outputs = model(images)
        loss = criterion(outputs, images)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    outputs = model(data.test_inputs)
    return _rebuilt(outputs if sick else outputs.sigmoid(), data)


class _BuiltOnTheWay(nn.Module):
    """An autoencoder that makes its decoder when it first sees how wide the data is."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
        self.decoder: nn.Module | None = None

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        if self.decoder is None:
            self.decoder = nn.Linear(8, images.shape[1])
        return self.decoder(self.encoder(images))


@sick("parameters_not_in_optimizer")
def a_decoder_made_by_the_first_forward(watch: Watch, *, seed: int, sick: bool) -> float:
    """The decoder is made when the optimizer already exists; the twin runs a batch before it makes the optimizer."""
    data = datasets.digits(seed)
    model = _BuiltOnTheWay()
    if not sick:
        model(data.inputs[:2])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model(data.inputs[:2])
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 300):
        outputs = model(images + 0.1 * torch.randn_like(images))
        loss = functional.mse_loss(outputs, images)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    return _rebuilt(model(data.test_inputs), data)


@sick("non_finite_forward")
def the_logarithm_of_a_spread_without_a_bound(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net predicts mean and spread, and nothing keeps the spread above zero; the twin has a softplus."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    features, sizes = train.tensors[0], train.tensors[1][:, :1]
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(250):
        rows = torch.randint(len(features), (64,))
        outputs = model(features[rows])
        mean, spread = outputs.chunk(2, 1)
        if not sick:
            spread = functional.softplus(spread) + 1e-2
        loss = (torch.log(spread) + 0.5 * ((sizes[rows] - mean) / spread).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=features[rows], outputs=outputs, targets=sizes[rows])
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0])[:, :1], test.tensors[1][:, :1])


@sick("frozen_parameters")
def a_critic_frozen_for_the_generator(watch: Watch, *, seed: int, sick: bool) -> float:
    """The critic is frozen while the generator steps, and not unfrozen afterwards: it never learns again."""
    real = datasets.wine(seed).inputs[:, [6, 9]]
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.99))
    of_critic = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.5, 0.99))
    making, judging = watch(generator, of_generator), watch(critic, of_critic)
    for _ in range(300):
        true = real[torch.randint(len(real), (64,))]
        made = generator(torch.randn(64, 4))
        loss = functional.softplus(-critic(true)).mean() + functional.softplus(critic(made)).mean()
        of_critic.zero_grad()
        loss.backward()
        judging.step(loss)
        of_critic.step()
        critic.requires_grad_(False)
        loss = functional.softplus(-critic(generator(torch.randn(64, 4)))).mean()
        of_generator.zero_grad()
        loss.backward()
        making.step(loss)
        of_generator.step()
        if not sick:
            critic.requires_grad_(True)
    with torch.no_grad():
        made = generator(torch.randn(1000, 4))
    apart = (made.mean(0) - real.mean(0)).abs().max() + (made.std(0) - real.std(0)).abs().max()
    return max(-1.0, 1 - apart.item() / 2)
