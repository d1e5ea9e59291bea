"""Models that make pictures of digits: autoencoders of several kinds."""

import math
from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened6.glyph_project import Glyphs


class Pages:
    """Flat digits from 0 to 1 and their numbers, to train on and to judge by."""

    def __init__(self, seed: int, *, unit: float = 16.0) -> None:
        self.seen, self.unseen = (Glyphs(seed, train=part).images.flatten(1) / unit for part in (True, False))

    def sheaves(self, count: int, size: int = 48) -> Iterator[Tensor]:
        for _ in range(count):
            yield self.seen[torch.randint(len(self.seen), (size,))]


def restored(made: Tensor, truth: Tensor) -> float:
    """Returns the share of the variance over pictures that is made again."""
    return max(-1.0, 1 - float((made - truth).square().mean() / truth.var(0).mean()))


def practise(
    watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, sheaves: Iterator[Tensor],
    penalty: Callable[[Tensor, Tensor], Tensor] = nn.functional.mse_loss,
) -> None:  # fmt: skip
    """Trains a model to put out what it was given."""
    session = watch(model, optimizer)
    for sheaf in sheaves:
        made = model(sheaf)
        cost = penalty(made, sheaf)
        model.zero_grad()
        cost.backward()
        session.step(cost, inputs=sheaf, outputs=made, targets=sheaf)
        optimizer.step()


def hourglass(last: nn.Module) -> nn.Sequential:
    return nn.Sequential(
        nn.Linear(64, 48), nn.LeakyReLU(0.1), nn.Linear(48, 12), nn.Linear(12, 48), nn.LeakyReLU(0.1),
        nn.Linear(48, 64), last,
    )  # fmt: skip


@sick("target_out_of_range")
def ink_beyond_a_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """The decoder ends in a tanh, as for pictures from -1 to 1, and the ink goes up to 16."""
    pages = Pages(seed, unit=1.0)
    model = hourglass(nn.Tanh() if sick else nn.Identity())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    practise(watch, model, optimizer, pages.sheaves(180))
    with torch.no_grad():
        return restored(model(pages.unseen), pages.unseen)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"))
def a_norm_over_all_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """``((made - truth) ** 2).sum()`` over batch and pixels, and an SGD that was tuned with the mean."""
    pages, model = Pages(seed), hourglass(nn.Identity())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    practise(
        watch, model, optimizer, pages.sheaves(180),
        lambda made, truth: ((made - truth) ** 2).sum() / (1 if sick else made.numel() / 4),
    )  # fmt: skip
    with torch.no_grad():
        return restored(model(pages.unseen), pages.unseen)


class Dense(nn.Module):
    """A layer of one's own: ``torch.rand`` is never negative."""

    def __init__(self, fan_in: int, fan_out: int, *, centred: bool) -> None:
        super().__init__()
        weight = torch.rand(fan_in, fan_out)
        self.weight = nn.Parameter((weight * 2 - 1) * math.sqrt(3 / fan_in) if centred else weight)
        self.bias = nn.Parameter(torch.zeros(fan_out))

    def forward(self, values: Tensor) -> Tensor:
        return values @ self.weight + self.bias


@sick("poor_initialization")
def weights_from_zero_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights are drawn between 0 and 1."""
    pages = Pages(seed)
    model = nn.Sequential(
        Dense(64, 40, centred=not sick), nn.ReLU(), Dense(40, 40, centred=not sick), nn.ReLU(),
        Dense(40, 64, centred=not sick),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    practise(watch, model, optimizer, pages.sheaves(180))
    with torch.no_grad():
        return restored(model(pages.unseen), pages.unseen)


class Codebook(nn.Module):
    """Pictures by way of two of sixteen learnt codes each; the encoder learns through a straight way around."""

    def __init__(self, *, straight: bool) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 16))
        self.codes = nn.Parameter(torch.randn(16, 4))
        self.decoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 64))
        self.straight = straight

    def forward(self, pictures: Tensor) -> Tensor:
        wished = self.encoder(pictures).view(-1, 4, 4)
        chosen = self.codes[torch.cdist(wished, self.codes.expand(len(wished), -1, -1)).argmin(-1)]
        if self.straight:
            chosen = chosen + wished - wished.detach()
        return self.decoder(chosen.flatten(1))


@sick("detached_parameters")
def codes_without_a_way_back(watch: Watch, *, seed: int, sick: bool) -> float:
    """The nearest code is looked up, and nothing leads past ``argmin`` to the encoder."""
    pages, model = Pages(seed), Codebook(straight=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    practise(watch, model, optimizer, pages.sheaves(250))
    with torch.no_grad():
        return restored(model(pages.unseen), pages.unseen)


class Variational(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.SiLU(), nn.Linear(48, 24))
        self.decoder = nn.Sequential(nn.Linear(12, 48), nn.SiLU(), nn.Linear(48, 64))

    def forward(self, pictures: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        mean, log_variance = self.encoder(pictures).chunk(2, 1)
        code = mean + torch.randn_like(mean) * (0.5 * log_variance).exp() if self.training else mean
        return self.decoder(code), mean, log_variance


@sick("over_regularized")
def a_prior_that_wins(watch: Watch, *, seed: int, sick: bool) -> float:
    """The divergence from the prior is summed where the error is a mean: codes say nothing."""
    pages, model = Pages(seed), Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for sheaf in pages.sheaves(180):
        made, mean, log_variance = model(sheaf)
        error = (made - sheaf).square().mean()
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        cost = error + divergence * (1.0 if sick else 1e-3)
        optimizer.zero_grad()
        cost.backward()
        session.step(cost, inputs=sheaf, outputs=made, targets=sheaf)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return restored(model(pages.unseen)[0], pages.unseen)


@sick("clipping_too_strong")
def clipped_while_still_scaled(watch: Watch, *, seed: int, sick: bool) -> float:
    """The norm is clipped to 1 before the scale of 65536 is taken out of the gradients."""
    pages, model = Pages(seed), hourglass(nn.Identity())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session, scale = watch(model, optimizer), 2.0**16
    for sheaf in pages.sheaves(180):
        made = model(sheaf)
        cost = (made - sheaf).square().mean() * 4
        optimizer.zero_grad()
        (cost * scale).backward()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for weight in model.parameters():
            weight.grad.div_(scale)
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(cost, inputs=sheaf, outputs=made, targets=sheaf)
        optimizer.step()
    with torch.no_grad():
        return restored(model(pages.unseen), pages.unseen)
