"""Autoencoders and denoisers of digits and of photographs."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened18.b_stock import patches


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def decibels_and_uniform_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """Decibels are negative, and ``nn.init.uniform_`` draws from 0 to 1: no ReLU answers; the twin keeps defaults."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 32))
    if sick:
        nn.init.uniform_(model[0].weight)  # type: ignore[arg-type]
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for upper, lower in DataLoader(train, 32, shuffle=True):
            level = 0.5 * torch.log10(upper + 0.01)
            outputs = model(level)
            loss = functional.mse_loss(outputs, lower)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=level, outputs=outputs, targets=lower)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(0.5 * torch.log10(test.tensors[0] + 0.01)), test.tensors[1])


class _Clones(nn.Module):
    """Coders of two numbers each, side by side, whose reconstructions are added."""

    def __init__(self, alike: bool) -> None:
        super().__init__()
        first = self._coder()
        self.coders = nn.ModuleList(copy.deepcopy(first) if alike else self._coder() for _ in range(8))

    @staticmethod
    def _coder() -> nn.Module:
        return nn.Sequential(
            nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 2), nn.Linear(2, 24), nn.Tanh(), nn.Linear(24, 64)
        )

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return torch.stack([coder(images) for coder in self.coders]).sum(0)


@sick("unbroken_symmetry", margin=0.1)
def eight_clones_of_one_coder(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight parallel coders are deep copies of the first, and stay copies of it; the twin draws each anew."""
    data = datasets.digits(seed)
    model = _Clones(alike=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 250):
        outputs = model(images)
        loss = functional.mse_loss(outputs, images)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs), data.test_inputs)


@sick("frozen_parameters", margin=0.05)
def unfrozen_by_an_attribute(watch: Watch, *, seed: int, sick: bool) -> float:
    """After a stage for the decoder, ``encoder.requires_grad = True`` thaws nothing; the twin thaws its weights."""
    train, test = samples.numerals(seed)
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 8))
    decoder = nn.Sequential(nn.Linear(8, 48), nn.Tanh(), nn.Linear(48, 64))
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    encoder.requires_grad_(False)
    for epoch in range(10):
        if epoch == 1:
            if sick:
                encoder.requires_grad = True  # type: ignore[assignment]
            else:
                encoder.requires_grad_(True)
        for images, _ in DataLoader(train, 48, shuffle=True):
            outputs = model(images)
            loss = functional.mse_loss(outputs, images.flatten(1))
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=images.flatten(1))
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[0].flatten(1))


@sick("detached_parameters", margin=0.05)
def codes_by_an_argmax(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of eight codes is the argmax of eight scores, which has no gradient; the twin passes a softmax's through."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    decoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def rebuilt(images: torch.Tensor) -> torch.Tensor:
        scores = encoder(images).view(-1, 8, 8)
        codes = functional.one_hot(scores.argmax(-1), 8).float()
        if not sick:
            soft = scores.softmax(-1)
            codes = codes + soft - soft.detach()
        return decoder(codes.flatten(1))

    for images, _ in data.batches(64, 300):
        outputs = rebuilt(images)
        loss = functional.mse_loss(outputs, images)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(rebuilt(data.test_inputs), data.test_inputs)


def _pictures(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    train, test = (part.tensors[0].float() / 127.5 - 1 for part in patches(seed, count=1000))
    return train, test


def _denoiser() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.SiLU(), nn.Conv2d(16, 16, 3, padding=1), nn.SiLU(),
        nn.Conv2d(16, 3, 3, padding=1),
    )  # fmt: skip


@sick("over_regularized", margin=0.05)
def smooth_at_any_price(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoiser's total variation counts five times its error, so that all becomes flat; the twin's counts 0.001."""
    train, test = _pictures(seed)
    model = _denoiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows in torch.randperm(len(train)).split(32):
            clean = train[rows]
            noisy = clean + 0.3 * torch.randn_like(clean)
            outputs = model(noisy)
            variation = outputs.diff(dim=2).abs().mean() + outputs.diff(dim=3).abs().mean()
            loss = functional.mse_loss(outputs, clean) + (5.0 if sick else 1e-3) * variation
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test + 0.3 * torch.randn_like(test)).flatten(1), test.flatten(1))


@sick("labels_unrelated", margin=0.2)
def two_loaders_zipped(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loader of noisy and one of clean pictures, each shuffling for itself, are zipped; the twin has one of pairs."""
    train, test = _pictures(seed)
    noisy, model = train + 0.3 * torch.randn_like(train), _denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        apart = zip(DataLoader(noisy, 32, shuffle=True), DataLoader(train, 32, shuffle=True), strict=True)
        for inputs, clean in apart if sick else DataLoader(TensorDataset(noisy, train), 32, shuffle=True):
            outputs = model(inputs)
            loss = functional.l1_loss(outputs, clean)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=clean)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test + 0.3 * torch.randn_like(test)).flatten(1), test.flatten(1))


@healthy(at_least=0.6)
def an_image_is_what_is_optimised(watch: Watch, *, seed: int) -> float:
    """The parameters are a picture's pixels, found again from random projections of it; the net is none at all."""
    picture = datasets.digits(seed).test_inputs[0]
    projections = torch.randn(400, 64)
    seen = projections @ picture
    model = nn.ParameterDict({"pixels": nn.Parameter(torch.full((64,), 0.5))})
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for _ in range(200):
        rows = torch.randint(400, (32,))
        outputs = projections[rows] @ model["pixels"]
        loss = functional.mse_loss(outputs, seen[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=projections[rows], outputs=outputs, targets=seen[rows])
        optimizer.step()
    return samples.explained(model["pixels"].detach()[:, None], picture[:, None])
