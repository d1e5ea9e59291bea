"""Depth in time and in layers: recurrences, forecasts, deep stacks, codebooks and frozen bodies."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import fit
from examples.zoo.tuned.opened32.b_common import LETTERS, explained, prose


@sick("exploding_gradients", also=("learning_rate_too_high", "poor_initialization"), margin=0.1)
def a_plain_rnn_over_sixty_letters(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ReLU recurrence begins above 1 and is not clipped; the twin begins at the identity and clips."""
    data = prose(seed, length=60, count=700)
    inputs, test = (codes.eq(5).float().cumsum(1)[:, -1:] for codes in (data.inputs, data.test_inputs))
    data = Data(data.inputs, (inputs - 6) / 2.5, data.test_inputs, (test - 6) / 2.5)

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(LETTERS, 16)
            self.rnn, self.head = nn.RNN(16, 32, nonlinearity="relu", batch_first=True), nn.Linear(32, 1)
            nn.init.orthogonal_(self.rnn.weight_hh_l0, gain=1.8)
            if not sick:
                nn.init.eye_(self.rnn.weight_hh_l0)
                nn.init.normal_(self.rnn.weight_ih_l0, std=0.01)
                nn.init.zeros_(self.rnn.bias_ih_l0)
                nn.init.zeros_(self.rnn.bias_hh_l0)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(self.letters(codes))[1][0])

    model = Counter()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for codes, counts in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.mse_loss(outputs, counts)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=codes, outputs=outputs, targets=counts)
        optimizer.step()
    return explained(model, data)


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.1)
def the_initialisation_of_bert_without_its_norms(watch: Watch, *, seed: int, sick: bool) -> float:
    """Fourteen tanh layers begin with a deviation of 0.02, without norms or shortcuts; the twin begins by Xavier."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    layers: list[nn.Module] = [nn.Linear(10, 32), nn.Tanh()]
    for _ in range(12):
        layers += [nn.Linear(32, 32), nn.Tanh()]
    model = nn.Sequential(*layers, nn.Linear(32, 10))

    def begin(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            if sick:
                nn.init.normal_(module.weight, std=0.02)
            else:
                nn.init.xavier_uniform_(module.weight)
            nn.init.zeros_(module.bias)

    model.apply(begin)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("detached_parameters", margin=0.05)
def a_codebook_without_the_straight_way_through(watch: Watch, *, seed: int, sick: bool) -> float:
    """A VQ-VAE decodes the nearest code, whose choice gives the encoder no gradient; the twin passes it through."""
    images = datasets.digits(seed)
    data = Data(2 * images.inputs - 0.6, images.inputs, 2 * images.test_inputs - 0.6, images.test_inputs)

    class Quantised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))
            self.codes = nn.Parameter(0.3 * torch.randn(24, 4))
            self.decoder = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 64))

        def parts(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            found = self.encoder(pixels).view(-1, 6, 4)
            nearest = self.codes[torch.cdist(found, self.codes).argmin(-1)]
            to_codes = functional.mse_loss(nearest, found.detach())
            if not sick:
                to_codes = to_codes + 0.25 * functional.mse_loss(found, nearest.detach())
                nearest = found + (nearest - found).detach()
            return self.decoder(nearest.flatten(1)), to_codes

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.parts(pixels)[0]

    model = Quantised()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, wanted in data.batches(64, 400):
        optimizer.zero_grad()
        rebuilt, to_codes = model.parts(pixels)
        loss = functional.mse_loss(rebuilt, wanted) + to_codes
        loss.backward()
        session.step(loss, inputs=pixels, outputs=rebuilt, targets=wanted)
        optimizer.step()
    return explained(model, data)


@sick("frozen_parameters", margin=0.05)
def thawed_by_a_flag_of_modules(watch: Watch, *, seed: int, sick: bool) -> float:
    """``requires_grad = True`` is set on modules, which have no such flag; the twin calls ``requires_grad_``."""
    images = datasets.digits(seed, images=True)
    body = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Flatten())
    before = nn.Sequential(body, nn.Linear(128, 1))
    first = torch.optim.Adam(before.parameters(), lr=3e-3)
    for pixels, _ in images.batches(64, 60):
        first.zero_grad()
        functional.mse_loss(before(2 * pixels - 0.6)[:, 0], pixels.mean((1, 2, 3))).backward()
        first.step()

    def turned(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        angles = 2.4 * torch.rand(len(pixels), generator=torch.Generator().manual_seed(seed)) - 1.2
        rows = torch.stack([angles.cos(), -angles.sin(), angles.sin(), angles.cos()], 1).view(-1, 2, 2)
        grid = functional.affine_grid(functional.pad(rows, (0, 1)), list(pixels.shape), align_corners=False)
        return 2 * functional.grid_sample(pixels, grid, align_corners=False) - 0.6, angles[:, None]

    data = Data(*turned(images.inputs), *turned(images.test_inputs))
    body.requires_grad_(False)
    model = nn.Sequential(body, nn.Linear(128, 1))
    for layer in body:
        if sick:
            layer.requires_grad = True
        else:
            layer.requires_grad_(True)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def a_norm_meant_for_every_entry(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD's gradients are clipped to a norm of 0.002, as if it were one of an entry; the twin clips to 2."""
    data = prose(seed, length=12)
    vowels = torch.tensor([0, 1, 5, 9, 15, 21])
    shares, test = (
        torch.isin(codes, vowels).float().mean(1, keepdim=True) for codes in (data.inputs, data.test_inputs)
    )
    data = Data(data.inputs, (shares - 0.45) / 0.1, data.test_inputs, (test - 0.45) / 0.1)

    class Share(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.rnn = nn.Embedding(LETTERS, 16), nn.GRU(16, 24, batch_first=True)
            self.head = nn.Linear(24, 1)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(self.letters(codes))[0].mean(1))

    model = Share()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for codes, wanted in data.batches(32, 300):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.smooth_l1_loss(outputs, wanted)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=wanted)
        nn.utils.clip_grad_norm_(model.parameters(), 0.002 if sick else 2.0)
        optimizer.step()
    return explained(model, data)
