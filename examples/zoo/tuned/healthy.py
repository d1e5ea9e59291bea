"""Ordinary trainings in which nothing is wrong."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, binary_accuracy, fit, held_out_loss, r_squared


def _over_characters(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), codes.flatten())


@healthy(at_least=0.85)
def mlp_with_sgd(watch: Watch, *, seed: int) -> float:
    """Digits, SGD with momentum."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)
    fit(watch, model, optimizer, data, steps=250, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.9)
def cnn_with_adam(watch: Watch, *, seed: int) -> float:
    """Digits as images, batch norm, Adam."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Dropout(0.1), nn.Linear(96, 10),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=50, validate_every=30)
    return accuracy(model, data)


class _CausalTransformer(nn.Module):
    """Two blocks with the norm before each part."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS, width)
        self.position = nn.Parameter(torch.randn(24, width) * 0.02)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 3 * width, dropout=0.05, batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(codes.shape[1])
        values = self.embedding(codes) + self.position[: codes.shape[1]]
        for block in self.blocks:
            values = block(values, src_mask=mask, is_causal=True)
        return self.head(self.norm(values))


@healthy(at_least=0.36)
def transformer_with_warmup_and_cosine(watch: Watch, *, seed: int) -> float:
    """Characters, AdamW, a linear warm-up and a cosine to zero, clipping to 1."""
    data = datasets.text(seed, length=24)
    model = _CausalTransformer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.SequentialLR(
        optimizer,
        [
            torch.optim.lr_scheduler.LinearLR(optimizer, 0.05, total_iters=20),
            torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 160),
        ],
        milestones=[20],
    )
    session = watch(model, optimizer)
    for codes, following in data.batches(24, 180):
        optimizer.zero_grad()
        logits = model(codes)
        loss = _over_characters(logits, following)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)


class _Rows(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.LSTM(8, 32, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(images.view(-1, 8, 8))
        return self.head(states[:, -1])


@healthy(at_least=0.85)
def lstm_with_clipping(watch: Watch, *, seed: int) -> float:
    """Digits row by row, RMSprop, clipping that acts now and then."""
    data = datasets.digits(seed)
    model = _Rows()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (inputs, labels) in enumerate(data.batches(32, 250), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 2.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 50 == 0:
            session.validation(held_out_loss(model, data), metrics={"accuracy": accuracy(model, data)})
    return accuracy(model, data)


@healthy(at_least=0.3)
def linear_regression(watch: Watch, *, seed: int) -> float:
    """Patients, one linear layer, full batches: the loss ends far above zero, as it must."""
    data = datasets.diabetes(seed)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    fit(watch, model, optimizer, data, steps=150, batch_size=512, loss_function=functional.mse_loss)
    return r_squared(model, data)


@healthy(at_least=0.9)
def binary_classifier(watch: Watch, *, seed: int) -> float:
    """Tumours, a loss on logits, AdamW."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 16), nn.GELU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def loss_function(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels.float())

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function, validate_every=30)
    return binary_accuracy(model, data)


@healthy(at_least=0.9)
def small_table_in_full_batches(watch: Watch, *, seed: int) -> float:
    """Flowers: all samples in each step, as they were measured."""
    data = datasets.iris(seed, raw=True)
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=200)
    return accuracy(model, data)


@healthy(at_least=0.85)
def hinge_loss_and_adagrad(watch: Watch, *, seed: int) -> float:
    """A loss and an optimizer that are seldom seen."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 16), nn.SiLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=5e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=16, loss_function=functional.multi_margin_loss)
    return accuracy(model, data)
