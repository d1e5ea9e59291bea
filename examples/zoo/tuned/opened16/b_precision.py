"""Trainings in narrow numbers, and vision transformers, which a few bad steps can spoil."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened16.b_material import explained, oscillations


@torch.no_grad()
def _right(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    return (model(inputs).float().argmax(1) == labels).float().mean().item()


@sick("no_update")
def fine_tuned_in_bfloat16(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net goes on to shifted digits with weights in bfloat16, which round small steps away; the twin's are wider."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    before = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(3):
        for images, labels in DataLoader(train, 64, shuffle=True):
            before.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            before.step()
    dtype = torch.bfloat16 if sick else torch.float32
    model.to(dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    session = watch(model, optimizer)
    for _ in range(10):
        for images, labels in DataLoader(train, 32, shuffle=True):
            inputs = images.roll(1, 3).to(dtype)
            logits = model(inputs)
            loss = functional.cross_entropy(logits.float(), labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, test.tensors[0].roll(1, 3).to(dtype), test.tensors[1])


def _half_net() -> nn.Sequential:
    return nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 32))


@sick("fp16_underflow")
def small_errors_in_half_without_a_scale(watch: Watch, *, seed: int, sick: bool) -> float:
    """Half-precision gradients of squared millimetres become zero; the twin scales the loss by a million meanwhile."""
    noisy, clean, _ = oscillations(seed, count=800)
    millimetres = 1e-3
    model, narrow = _half_net(), _half_net().half()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-12)
    session = watch(model, optimizer)
    scale = 1.0 if sick else 2.0**20
    for _ in range(12):
        for rows in torch.randperm(640).split(32):
            narrow.load_state_dict(model.state_dict())
            narrow.zero_grad()
            outputs = millimetres * narrow(noisy[rows].half()).float()
            targets = millimetres * clean[rows]
            loss = functional.mse_loss(outputs, targets)
            (loss * scale).backward()
            for half, weight in zip(narrow.parameters(), model.parameters(), strict=True):
                weight.grad = half.grad.float() / scale if half.grad is not None else None
            session.step(loss, inputs=noisy[rows], outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return explained(model(noisy[640:]), clean[640:])


class _Sight(nn.Module):
    """A transformer that reads a digit as sixteen squares, and normalises after each sum."""

    def __init__(self, blocks: int = 4, width: int = 32) -> None:
        super().__init__()
        self.squares = nn.Conv2d(1, width, 2, stride=2)
        self.places = nn.Parameter(0.02 * torch.randn(16, width))
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.blocks = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False)
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        squares = self.squares(images).flatten(2).transpose(1, 2) + self.places
        return self.head(self.blocks(squares).mean(1))


@sick("missing_warmup")
def a_post_norm_transformer_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam's first steps at full rate ruin a transformer that normalises last; the twin's rate rises for 60 steps."""
    train, test = samples.numerals(seed)
    model = _Sight(blocks=4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: (1.0 if sick else min(1.0, (step + 1) / 60)) * max(0.0, 1 - step / 210)
    )
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 30, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            schedule.step()
    return _right(model, *test.tensors)


@healthy(at_least=0.9)
def autocast_to_bfloat16(watch: Watch, *, seed: int) -> float:
    """Layers compute in bfloat16, weights and the loss are in float32: the loss moves in coarse steps."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(),
        nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(4):
        for images, labels in DataLoader(train, 40, shuffle=True, drop_last=True):
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(images)
            loss = functional.cross_entropy(logits.float(), labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, *test.tensors)


@healthy(at_least=0.9)
def averaged_weights_at_a_rate_that_stays_high(watch: Watch, *, seed: int) -> float:
    """SWA: the rate goes down and up again and stays high, the loss is noisy, and the average of weights is kept."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 48), nn.ReLU(), nn.Linear(48, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    schedule = torch.optim.swa_utils.SWALR(optimizer, swa_lr=0.08, anneal_epochs=2)
    average = torch.optim.swa_utils.AveragedModel(model)
    session = watch(model, optimizer)
    for epoch in range(8):
        for images, labels in DataLoader(train, 40, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels, label_smoothing=0.1)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        if epoch > 2:
            average.update_parameters(model)
            schedule.step()
    return _right(average, *test.tensors)


@healthy(at_least=0.85)
def sharpness_aware_steps_of_two_passes(watch: Watch, *, seed: int) -> float:
    """SAM: each step first goes uphill by a little, takes the gradient there, and comes back before it goes down."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(576, 48), nn.ReLU(), nn.Linear(48, 10)
    )
    weights = list(model.parameters())
    optimizer = torch.optim.AdamW(weights, lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 48, shuffle=True):
            optimizer.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            norm = nn.utils.get_total_norm([weight.grad for weight in weights if weight.grad is not None])
            hills = [0.02 * weight.grad / (norm + 1e-12) for weight in weights if weight.grad is not None]
            with torch.no_grad():
                for weight, hill in zip(weights, hills, strict=True):
                    weight.add_(hill)
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            with torch.no_grad():
                for weight, hill in zip(weights, hills, strict=True):
                    weight.sub_(hill)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, *test.tensors)
