"""Sequences: with a part of the model that nothing uses, with lengths that grow, and in the order of time."""

import torch
from sklearn.datasets import load_sample_image
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy

SIZE = datasets.CHARACTERS
MASK = SIZE
"""The code of a character that is hidden."""


class _Bert(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words, self.places, self.norm = nn.Embedding(SIZE + 1, 48), nn.Embedding(24, 48), nn.LayerNorm(48)
        layer = nn.TransformerEncoderLayer(48, 4, 96, 0.1, activation="gelu", batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.pooler = nn.Sequential(nn.Linear(48, 48), nn.Tanh())

    def forward(self, codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = self.encoder(self.norm(self.words(codes) + self.places.weight))
        return hidden, self.pooler(hidden[:, 0])


class _MaskedLanguage(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bert = _Bert()
        self.head = nn.Sequential(nn.Linear(48, 48), nn.GELU(), nn.LayerNorm(48), nn.Linear(48, SIZE))
        for layer in self.modules():
            if isinstance(layer, nn.Linear | nn.Embedding):
                nn.init.normal_(layer.weight, 0, 0.02)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.bert(codes)[0])


def _masked(codes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The codes with a fifth of them hidden, and those that are, with -100 for the others."""
    hidden = torch.rand(codes.shape) < 0.2
    return codes.masked_fill(hidden, MASK), codes.masked_fill(~hidden, -100)


@healthy(at_least=0.05)
def a_pooler_that_nothing_uses(watch: Watch, *, seed: int) -> float:
    """BERT's masked language model: the body returns a pooled output as well, which no part of the loss takes."""
    data = datasets.text(seed, length=24)
    model = _MaskedLanguage()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for windows, _ in data.batches(24, 220):
        codes, labels = _masked(windows)
        outputs = model(codes)
        loss = functional.cross_entropy(outputs.view(-1, SIZE), labels.view(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=codes, outputs=outputs.view(-1, SIZE), targets=labels.view(-1))
        optimizer.step()
    model.eval()
    codes, labels = _masked(data.test_inputs)
    shares = torch.bincount(data.inputs.flatten(), minlength=SIZE) / data.inputs.numel()
    usual = shares.clamp(min=1e-6).log().expand(labels.numel(), SIZE)
    with torch.no_grad():
        loss = functional.cross_entropy(model(codes).view(-1, SIZE), labels.view(-1))
    return 1 - (loss / functional.nll_loss(usual, labels.view(-1))).item()


class _Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed, self.mix = nn.Embedding(SIZE, 32), nn.GRU(32, 64, batch_first=True)
        self.out = nn.Linear(64, SIZE)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.mix(self.embed(codes))[0])


@healthy(at_least=0.4)
def windows_that_grow_longer(watch: Watch, *, seed: int) -> float:
    """A curriculum from 8 to 44 characters: the loss is summed over each window, so that it grows with them."""
    data = datasets.text(seed, length=48)
    model = _Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for step, (codes, following) in enumerate(data.batches(16, 220)):
        length = 8 + step // 6
        outputs = model(codes[:, :length])
        labels = following[:, :length]
        each = functional.cross_entropy(outputs.reshape(-1, SIZE), labels.reshape(-1), reduction="none")
        loss = each.view(-1, length).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        session.step(loss, inputs=codes[:, :length], outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return (model(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


class _Forecast(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix, self.out = nn.LSTM(1, 32, batch_first=True), nn.Linear(32, 1)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        return self.out(self.mix(past)[0][:, -1])


@healthy(at_least=0.58)
def a_series_in_its_order(watch: Watch, *, seed: int) -> float:
    """A tutorial of forecasting: ``DataLoader(shuffle=False)``, and each window holds most of the one before it."""
    row = torch.from_numpy(load_sample_image("china.jpg")[300]).float().mean(1)
    series = (row - row[:500].mean()) / row[:500].std()
    windows = series.unfold(0, 13, 1)
    past, following = windows[:, :12, None], windows[:, 12:]
    model = _Forecast()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(past[:480], following[:480]), batch_size=16, shuffle=False)
    for _ in range(8):
        for inputs, targets in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
        with torch.no_grad():
            session.validation(functional.mse_loss(model(past[500:]), following[500:]).item())
    with torch.no_grad():
        return samples.explained(model(past[500:]), following[500:])
