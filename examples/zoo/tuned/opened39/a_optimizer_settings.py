"""Rates, schedules, and clipping that were set badly."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened39.a_shared_loaders import excerpts, explained, glyphs, pixelwise, scan_lines, stamped


class CharacterReader(nn.Module):
    """Looks for short runs of characters and says of which of four files they are."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(CHARACTERS, 24)
        self.runs = nn.Conv1d(24, 64, 4)
        self.drop, self.head = nn.Dropout(0.2), nn.Linear(64, 4)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        found = self.runs(self.embedding(codes).transpose(1, 2)).relu().amax(2)
        return self.head(self.drop(found))


class Encoder(nn.Module):
    """A small transformer that reads a digit row by row, normalised after each block."""

    def __init__(self, layers: int = 6) -> None:
        super().__init__()
        self.embed = nn.Linear(8, 32)
        self.places = nn.Parameter(0.1 * torch.randn(8, 32))
        block = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(block, layers)
        self.head = nn.Linear(32, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.embed(pixels.view(-1, 8, 8)) + self.places).mean(1))


class LineLstm(nn.Module):
    """Forecasts the next pixels of a line."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(1, 24, batch_first=True)
        self.head = nn.Linear(24, 1)

    def forward(self, runs: torch.Tensor) -> torch.Tensor:
        return self.head(self.lstm(runs)[0][:, -1])


@sick("learning_rate_too_high", also=("exploding_gradients",), margin=0.05)
def adam_with_the_rate_of_plain_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam was put in place of SGD and kept its rate of 0.1 for a reader of characters; the twin's is 0.003."""
    data = excerpts(seed)
    model = CharacterReader()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if sick else 3e-3)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=48, shuffle=True)
    for _ in range(9):
        for codes, labels in loader:
            optimizer.zero_grad()
            logits = model(codes)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def sgd_with_the_rate_of_adamw(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD took the 3e-5 of a recipe for AdamW and barely moves a segmentation; the twin's rate is 0.1."""
    data = stamped(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=3e-5 if sick else 0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, masks in data.batches(32, 250):
        logits = model(images)
        loss = functional.binary_cross_entropy_with_logits(logits, masks)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=masks)
        optimizer.step()
    return pixelwise(model, data)


@sick("missing_warmup", also=("learning_rate_too_high", "vanishing_gradients"), margin=0.05)
def a_post_norm_encoder_at_full_speed(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer with norms after its blocks starts at its full rate; the twin warms up for 100 steps."""
    data = glyphs(seed)
    model = Encoder(5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    ramp = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: (1.0 if sick else min(1.0, (step + 1) / 120)) * max(0.05, 1 - step / 220)
    )
    fit(watch, model, optimizer, data, steps=200, batch_size=32, scheduler=ramp)
    return accuracy(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low", "stopped_too_early"), margin=0.05)
def exponential_decay_after_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ExponentialLR(gamma=0.8)`` was meant for epochs, and ``step()`` is in the inner loop; the twin's is outside."""
    data = scan_lines(seed)
    model = LineLstm()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.8)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=64, shuffle=True)
    for _ in range(8):
        for runs, ahead in loader:
            optimizer.zero_grad()
            guesses = model(runs)
            loss = functional.mse_loss(guesses, ahead)
            loss.backward()
            session.step(loss, inputs=runs, outputs=guesses, targets=ahead)
            optimizer.step()
            if sick:
                schedule.step()
        if not sick:
            schedule.step()
    return explained(model, data)


@sick("stopped_too_early", margin=0.05)
def one_epoch_for_a_reader_of_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """Epochs are 2 since a trial of the script, and the loss still falls; the twin has 16."""
    data = excerpts(seed, each=500)
    model = CharacterReader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1.5e-3)
    fit(watch, model, optimizer, data, steps=60 if sick else 400, batch_size=64)
    return accuracy(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low", "stopped_too_early"), margin=0.05)
def a_norm_clipped_to_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` has a bound of 0.001 in a forecast with SGD; the twin's is 1."""
    data = scan_lines(seed)
    model = LineLstm()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for runs, ahead in data.batches(64, 250):
        guesses = model(runs)
        loss = functional.mse_loss(guesses, ahead)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=runs, outputs=guesses, targets=ahead)
        optimizer.step()
    return explained(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high", "poor_initialization"), margin=0.1)
def clipping_before_the_backward_pass(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped before ``backward()`` makes them, in a recurrent net; the twin clips them after it."""
    data = glyphs(seed, flat=True)
    cell, head = nn.RNN(4, 48, nonlinearity="relu", batch_first=True), nn.Linear(48, 10)
    nn.init.eye_(cell.weight_hh_l0)

    class Strip(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = cell, head

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(pixels.view(-1, 16, 4))[0][:, -1])

    model = Strip()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 220):
        optimizer.zero_grad()
        logits = model(pixels)
        loss = functional.cross_entropy(logits, labels)
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)
