"""More rates, wirings and ranges: a denoiser, counts of letters, an autoencoder and blocks with names."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened42.b_raw_material import Recurrent, explained, files, named, scaled_digits


class Denoiser(nn.Module):
    """Guesses the noise in a digit from it and from how much there is."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.level = nn.Linear(64, 128), nn.Linear(1, 128)
        self.rest = nn.Sequential(nn.SiLU(), nn.Linear(128, 128), nn.SiLU(), nn.Linear(128, 64))

    def forward(self, noisy: torch.Tensor, level: torch.Tensor) -> torch.Tensor:
        return self.rest(self.first(noisy) + self.level(level))


@sick("learning_rate_too_high", also=("dead_units", "saturated_units", "exploding_gradients"), margin=0.1)
def a_denoiser_at_a_rate_of_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """A diffusion model's AdamW has the 0.1 of an earlier SGD; the twin's is 0.003."""
    data = scaled_digits(seed)
    model = Denoiser()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1 if sick else 3e-3)
    session = watch(model, optimizer)

    def noised(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        level, noise = torch.rand(len(pixels), 1) * 0.8 + 0.2, torch.randn_like(pixels)
        return (1 - level**2).sqrt() * pixels + level * noise, level, noise

    for pixels, _ in data.batches(64, 300):
        noisy, level, noise = noised(pixels)
        outputs = model(noisy, level)
        loss = functional.mse_loss(outputs, noise)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=noise)
        optimizer.step()
    noisy, level, noise = noised(data.test_inputs)
    with torch.no_grad():
        return 1 - functional.mse_loss(model(noisy, level), noise).item()


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def counts_of_letters_at_the_rate_of_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam was exchanged for SGD, and its rate of 0.001 stayed; the twin has 0.3."""
    data = files(seed)
    model = nn.Sequential(nn.Linear(96, 32), nn.Tanh(), nn.Dropout(0.1), nn.Linear(32, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3 if sick else 0.3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("target_out_of_range", also=("saturated_units", "inputs_not_normalized"), margin=0.1)
def an_autoencoder_of_sixteen_greys(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decoder ends in a sigmoid, and the pixels to restore are from 0 to 16; the twin's are from 0 to 1."""
    drawn = datasets.digits(seed)
    scale = 16.0 if sick else 1.0
    data = Data(drawn.inputs, drawn.inputs * scale, drawn.test_inputs, drawn.test_inputs * scale)
    model = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 12), nn.Linear(12, 48), nn.GELU())
    model.extend([nn.Linear(48, 64), nn.Sigmoid()])
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=64, loss_function=functional.mse_loss)
    return explained(model, data)


class Blocks(nn.Module):
    """Twelve blocks with names from ``block_1`` to ``block_12`` that are added to what came before."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(96, 16)
        for number in range(1, 13):
            setattr(self, f"block_{number}", nn.Sequential(nn.LayerNorm(16), nn.Linear(16, 16), nn.GELU()))
        self.head = nn.Linear(16, 6)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.first(rows)
        for number in range(1, 13):
            hidden = hidden + 0.3 * getattr(self, f"block_{number}")(hidden)
        return self.head(hidden)


@sick("frozen_parameters", margin=0.05)
def a_pattern_that_fits_all_but_the_head(watch: Watch, *, seed: int, sick: bool) -> float:
    """A test of names freezes all but the head, as if the rest were trained before; the twin freezes nothing."""
    data = files(seed)
    model = Blocks()
    for name, weight in model.named_parameters():
        if sick and "head" not in name:
            weight.requires_grad_(False)
    optimizer = torch.optim.AdamW((weight for weight in model.parameters() if weight.requires_grad), lr=4e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("overfitting", margin=0.05)
def all_products_of_ten_columns(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide network on all products of columns learns 330 patients by heart; the twin is small, drops and decays."""
    drawn = datasets.diabetes(seed)

    def products(rows: torch.Tensor) -> torch.Tensor:
        return torch.cat([rows, (rows[:, :, None] * rows[:, None]).flatten(1)], 1).clamp(-4, 4)

    columns = (products(drawn.inputs), products(drawn.test_inputs)) if sick else (drawn.inputs, drawn.test_inputs)
    data = Data(columns[0], drawn.targets, columns[1], drawn.test_targets)
    width, drop = (256, 0.0) if sick else (16, 0.3)
    model = nn.Sequential(nn.Linear(columns[0].shape[1], width), nn.ReLU(), nn.Dropout(drop), nn.Linear(width, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.0 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss, validate_every=25)
    return r_squared(model, data)


@healthy(at_least=0.5)
def short_names_first(watch: Watch, *, seed: int) -> float:
    """A curriculum: names of up to 10 letters, then 16, then all; the loss rises where the next ones come in."""
    data = named(seed)
    model = Recurrent(64, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    lengths = (data.inputs > 0).sum(1)
    for longest, steps in ((10, 40), (16, 50), (24, 90)):
        chosen = lengths <= longest
        stage = Data(data.inputs[chosen], data.targets[chosen], data.test_inputs, data.test_targets)
        for codes, labels in stage.batches(24, steps):
            optimizer.zero_grad()
            outputs = model(codes)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=codes, outputs=outputs, targets=labels)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.5)
def a_code_that_is_drawn(watch: Watch, *, seed: int) -> float:
    """A variational autoencoder adds pixels' errors of each digit, and its penalty grows from 0 over 100 steps."""
    data = scaled_digits(seed)
    encoder, decoder = (nn.Sequential(nn.Linear(i, 64), nn.ELU(), nn.Linear(64, o)) for i, o in ((64, 24), (12, 64)))
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 300)):
        mean, spread = encoder(pixels).chunk(2, 1)
        outputs = decoder(mean + (spread / 2).exp() * torch.randn_like(mean))
        penalty = 0.5 * (mean.square() + spread.exp() - spread - 1).sum(1).mean()
        loss = (outputs - pixels).square().sum(1).mean() + min(1.0, step / 100) * penalty
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        restored = decoder(encoder(data.test_inputs).chunk(2, 1)[0])
    return 1 - (restored - data.test_inputs).square().mean().item()


@healthy(at_least=0.9)
def eight_small_batches_averaged(watch: Watch, *, seed: int) -> float:
    """Gradients of eight small batches are averaged, then clipped, with weights decayed for matrices alone."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 32), nn.LayerNorm(32), nn.GELU(), nn.Linear(32, 2))
    matrices = [weight for weight in model.parameters() if weight.ndim == 2]
    vectors = [weight for weight in model.parameters() if weight.ndim < 2]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=5e-3)
    session = watch(model, optimizer)
    for index, (rows, labels) in enumerate(data.batches(8, 480), 1):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels) / 8
        loss.backward()
        if index % 8 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)
