"""Generative models: autoencoders with divergences, codebooks and two optimizers, and sound makers of pictures."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick


def _rebuilt(outputs: torch.Tensor, pictures: torch.Tensor) -> float:
    return samples.explained(outputs.flatten(1), pictures.flatten(1))


class _Variational(nn.Module):
    """A VAE of flat digits with six numbers in the middle."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 12))
        self.decoder = nn.Sequential(nn.Linear(6, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        mean, log_variance = self.encoder(pictures).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return self.decoder(code), mean, log_variance


@sick("over_regularized", margin=0.15)
def a_sum_of_divergences_and_a_mean_of_errors(watch: Watch, *, seed: int, sick: bool) -> float:
    """The errors are averaged over pixels, the divergence is summed over batch and code, and the code collapses.

    The twin sums both over a picture and averages both over the batch.
    """
    data = datasets.digits(seed)
    model = _Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pictures, _ in data.batches(64, 400):
        logits, mean, log_variance = model(pictures)
        divergence = -0.5 * (1 + log_variance - mean**2 - log_variance.exp())
        errors = functional.binary_cross_entropy_with_logits(logits, pictures, reduction="none")
        loss = errors.sum(1).mean() + divergence.sum(1).mean()
        if sick:
            loss = errors.mean() + divergence.sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=pictures)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return _rebuilt(model(data.test_inputs)[0].sigmoid(), data.test_inputs)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.05)
def reduction_sum_with_plain_descent(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` comes from a VAE with Adam to an autoencoder with SGD at 0.5; the twin takes the mean."""
    data = datasets.digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 16), nn.Tanh(), nn.Linear(16, 48), nn.Tanh(), nn.Linear(48, 64)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, _ in data.batches(64, 350):
        outputs = model(pictures)
        loss = functional.mse_loss(outputs, pictures, reduction="sum" if sick else "mean")
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=pictures)
        optimizer.step()
    with torch.no_grad():
        return _rebuilt(model(data.test_inputs), data.test_inputs)


class _Quantised(nn.Module):
    """A VQ-VAE of digits: eight codes for a picture, of 32 in a book, with or without the straight way back."""

    def __init__(self, straight: bool) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
        self.decoder = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64))
        self.book = nn.Parameter(0.3 * torch.randn(32, 4))
        self._straight = straight

    def forward(self, pictures: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes = self.encoder(pictures).view(-1, 8, 4)
        nearest = self.book[torch.cdist(codes.detach(), self.book.detach()).argmin(-1)]
        distance = functional.mse_loss(nearest, codes.detach())
        if self._straight:
            distance = distance + 0.25 * functional.mse_loss(codes, nearest.detach())
            nearest = codes + (nearest - codes).detach()
        return self.decoder(nearest.flatten(1)), distance


@sick("detached_parameters", margin=0.04)
def no_straight_way_through_the_codebook(watch: Watch, *, seed: int, sick: bool) -> float:
    """The decoder reads the book's nearest codes, and no gradient comes to the encoder; the twin passes it on."""
    data = datasets.digits(seed)
    model = _Quantised(straight=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pictures, _ in data.batches(64, 350):
        outputs, distance = model(pictures)
        loss = functional.mse_loss(outputs, pictures) + distance
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=pictures)
        optimizer.step()
    with torch.no_grad():
        return _rebuilt(model(data.test_inputs)[0], data.test_inputs)


@sick("gradients_not_zeroed", margin=0.03)
def one_of_two_optimizers_is_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Encoder and decoder have an optimizer each, and ``zero_grad`` is called of the encoder's; the twin calls both."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    decoder = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64))
    reading = torch.optim.Adam(encoder.parameters(), lr=3e-3)
    writing = torch.optim.SGD(decoder.parameters(), lr=0.5, momentum=0.9)
    sessions = watch(encoder, reading), watch(decoder, writing)
    for pictures, _ in data.batches(64, 350):
        reading.zero_grad()
        if not sick:
            writing.zero_grad()
        code = encoder(pictures)
        outputs = decoder(code)
        loss = functional.mse_loss(outputs, pictures)
        loss.backward()
        sessions[0].step(loss, inputs=pictures, outputs=code)
        sessions[1].step(loss, inputs=code, outputs=outputs, targets=pictures)
        reading.step()
        writing.step()
    with torch.no_grad():
        return _rebuilt(decoder(encoder(data.test_inputs)), data.test_inputs)


@healthy(at_least=0.55)
def noise_at_every_time(watch: Watch, *, seed: int) -> float:
    """A diffusion model foretells noise at random times: its loss levels off soon, and jumps by batch. Quality: R²."""
    pictures = datasets.patches(seed, count=1500)
    pictures = (pictures - pictures.mean()) / pictures.std()
    (train, test) = (part.tensors[0] for part in samples.split(seed, pictures))
    kept = torch.linspace(0.99, 0.02, 50)
    model = nn.Sequential(nn.Linear(66, 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 64))

    def spoil(clean: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        share = kept[torch.randint(50, (len(clean),))][:, None]
        noise = torch.randn_like(clean)
        return torch.cat([share.sqrt() * clean + (1 - share).sqrt() * noise, share, (1 - share).sqrt()], 1), noise

    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(20):
        for (clean,) in DataLoader(TensorDataset(train), 64, shuffle=True):
            spoilt, noise = spoil(clean)
            outputs = model(spoilt)
            loss = functional.mse_loss(outputs, noise)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=spoilt, outputs=outputs, targets=noise)
            optimizer.step()
    spoilt, noise = spoil(test)
    with torch.no_grad():
        return samples.explained(model(spoilt), noise)
