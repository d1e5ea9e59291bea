"""Narrow numbers, and a transformer at its first steps."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened37.a_common import explained, numerals, parted


@sick("fp16_underflow", also=("vanishing_gradients",), margin=0.05)
def a_small_share_of_a_loss_in_halves(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss that counts 0.00003 is trained in float16 without a ``GradScaler``; the twin has one."""
    patches = (one := datasets.patches(seed)).sub(one.mean()).div(one.std())
    data = parted(patches, patches, seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24), nn.ReLU(), nn.Linear(24, 96), nn.ReLU())
    model.append(nn.Linear(96, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for pixels, _ in data.batches(128, 300):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(pixels)
            loss = 3e-5 * functional.mse_loss(outputs.float(), pixels)
        scaler.scale(loss).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        scaler.step(optimizer)
        scaler.update()
    return explained(model, data)


class Squares(nn.Module):
    """A transformer with norms behind its sums that reads a digit as sixteen squares."""

    def __init__(self) -> None:
        super().__init__()
        self.squares, self.places = nn.Conv2d(1, 40, 2, stride=2), nn.Parameter(0.02 * torch.randn(16, 40))
        layer = nn.TransformerEncoderLayer(40, 4, 80, 0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.head = nn.Linear(40, 10)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        """Returns the logits (N, 10)."""
        return self.head(self.layers(self.squares(pictures).flatten(2).mT + self.places).mean(1))


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def a_linear_decay_from_the_first_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer's rate falls from its peak at the first step; the twin lets it rise for 60 steps before."""
    data = numerals(seed)
    model = Squares()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    warm = 1 if sick else 60
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / warm, max(0.02, 1 - step / 170))
    )
    fit(watch, model, optimizer, data, steps=170, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)
