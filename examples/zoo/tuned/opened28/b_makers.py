"""Makers of pictures: autoencoders, a GAN, a denoiser of diffusion, and masks."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import predicted
from examples.zoo.tuned.opened28.b_stock import discs, drawn, overlap


@sick("inputs_not_normalized", margin=0.2)
def diffusion_of_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Noise of deviation 1 is mixed into pictures from 0 to 255; the twin's pictures are from -1 to 1. Quality: R²."""
    clean = datasets.patches(seed, count=1500)
    if not sick:
        clean = clean / 127.5 - 1
    train, test = (part.tensors[0] for part in samples.split(seed, clean))
    kept = (1 - torch.linspace(1e-3, 0.2, 40)).cumprod(0)
    times = nn.Embedding(40, 16)
    net = nn.Sequential(nn.Linear(80, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 64))
    model = nn.ModuleDict({"times": times, "net": net})

    def spoil(pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        time, noise = torch.randint(40, (len(pictures),)), torch.randn_like(pictures)
        share = kept[time][:, None]
        return share.sqrt() * pictures + (1 - share).sqrt() * noise, time, noise

    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(350):
        noisy, time, noise = spoil(*drawn(64, train))
        found = net(torch.cat([noisy, times(time)], 1))
        loss = functional.mse_loss(found, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=found, targets=noise)
        optimizer.step()
    noisy, time, noise = spoil(test)
    with torch.no_grad():
        return samples.explained(net(torch.cat([noisy, times(time)], 1)), noise)


@sick("target_out_of_range", margin=0.1)
def a_sigmoid_after_normalised_colours(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures have mean 0 and deviation 1, and the decoder ends in a sigmoid, as in a tutorial; not the twin's."""
    train, test = (part.tensors[0] for part in samples.scenes(seed, count=1000))
    layers = [
        nn.Conv2d(3, 16, 3, stride=2, padding=1),
        nn.LeakyReLU(0.1),
        nn.Conv2d(16, 12, 3, stride=2, padding=1),
        nn.LeakyReLU(0.1),
        nn.ConvTranspose2d(12, 16, 4, stride=2, padding=1),
        nn.LeakyReLU(0.1),
        nn.ConvTranspose2d(16, 3, 4, stride=2, padding=1),
    ]
    model = nn.Sequential(*layers, nn.Sigmoid()) if sick else nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for pictures in train[torch.randperm(len(train))].split(32):
            outputs = model(pictures)
            loss = functional.mse_loss(outputs, pictures)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=pictures)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test), test)


@sick("flipped_loss_sign", also=("exploding_gradients", "non_finite_forward", "learning_rate_too_high"), margin=0.1)
def the_divergence_is_subtracted(watch: Watch, *, seed: int, sick: bool) -> float:
    """The ELBO is errors minus divergence in a blog, and the minus stays although all is minimised; the twin adds."""

    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU())
            self.mean, self.log_variance = nn.Linear(96, 8), nn.Linear(96, 8)
            self.decoder = nn.Sequential(nn.Linear(8, 96), nn.ReLU(), nn.Linear(96, 64))

        def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, ...]:
            hidden = self.encoder(pictures)
            mean, log_variance = self.mean(hidden), self.log_variance(hidden)
            code = mean + torch.randn_like(mean) * (log_variance / 2).exp() if self.training else mean
            return self.decoder(code), mean, log_variance

    data = datasets.digits(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pictures, _ in data.batches(64, 350):
        logits, mean, log_variance = model(pictures)
        errors = functional.binary_cross_entropy_with_logits(logits, pictures, reduction="sum") / len(pictures)
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum() / len(pictures)
        loss = errors - divergence if sick else errors + divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=pictures)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0].sigmoid(), data.test_inputs)


@sick("detached_parameters", also=("no_update",), margin=0.1)
def fakes_are_detached_for_both_players(watch: Watch, *, seed: int, sick: bool) -> float:
    """``detach`` of a GAN's discriminator step stands in the generator's, too; the twin judges the fakes themselves.

    Quality: 1 minus the error of the pixels' means and deviations.
    """
    real = datasets.digits(seed).inputs * 2 - 1
    generator = nn.Sequential(nn.Linear(12, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 64), nn.Tanh())
    judge = nn.Sequential(nn.Linear(64, 48), nn.LeakyReLU(0.2), nn.Dropout(0.2), nn.Linear(48, 1))
    makes = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judges = torch.optim.Adam(judge.parameters(), lr=1e-3, betas=(0.5, 0.999))
    making, judging = watch(generator, makes), watch(judge, judges)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(350):
        (pictures,) = drawn(64, real)
        noise = torch.randn(64, 12)
        fakes = generator(noise)
        judges.zero_grad()
        both = judge(torch.cat([pictures, fakes.detach()]))
        truth = torch.cat([torch.full((64, 1), 0.9), torch.zeros(64, 1)])
        loss = criterion(both, truth)
        loss.backward()
        judging.step(loss, inputs=pictures, outputs=both, targets=truth)
        judges.step()
        makes.zero_grad()
        scores = judge(fakes.detach() if sick else fakes)
        loss = criterion(scores, torch.ones(64, 1))
        loss.backward()
        making.step(loss, inputs=noise, outputs=scores)
        makes.step()
    made = predicted(generator, torch.randn(1000, 12))
    errors = (made.mean(0) - real.mean(0)).abs().mean() + (made.std(0) - real.std(0)).abs().mean()
    return 1 - errors.item()


class _Net(nn.Module):
    """A small U-net of pictures (N, 1, 16, 16)."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.deep = nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(8, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU())
        self.up = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.out = nn.Conv2d(16, 1, 3, padding=1)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        wide = self.down(pictures)
        return self.out(torch.cat([wide, self.up(self.deep(wide))], 1))


@sick("wrong_output_or_loss", margin=0.1)
def two_sigmoids_in_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A U-net ends in a sigmoid, and ``BCEWithLogitsLoss`` and the threshold add one; the twin gives logits."""
    data = discs(seed)
    model = nn.Sequential(_Net(), nn.Sigmoid()) if sick else _Net()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.BCEWithLogitsLoss()
    session = watch(model, optimizer)
    for pictures, masks in data.batches(32, 130):
        optimizer.zero_grad()
        outputs = model(pictures)
        loss = criterion(outputs, masks)
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
        optimizer.step()
    return overlap(predicted(model, data.test_inputs).sigmoid() > 0.5, data.test_targets)
