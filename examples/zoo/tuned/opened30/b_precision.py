"""Another precision, or another device's defaults, for a training that worked."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened30.b_stock import customers, hums, labelled


class _Reader(nn.Module):
    """One layer of attention over the frames of a hum, whose softmax is of its own making."""

    def __init__(self, *, largest: bool) -> None:
        super().__init__()
        self.frames, self.places = nn.Linear(6, 32), nn.Parameter(0.1 * torch.randn(8, 32))
        self.query, self.key, self.value = (nn.Linear(32, 32) for _ in range(3))
        self.head = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
        self._largest = largest

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        frames = self.frames(windows.view(-1, 8, 6)) + self.places
        scores = (self.query(frames) @ self.key(frames).transpose(1, 2)).half()
        if self._largest:
            scores = scores - scores.amax(-1, keepdim=True)
        powers = scores.exp()
        shares = powers / powers.sum(-1, keepdim=True)
        return self.head((frames + shares.float() @ self.value(frames)).mean(1))


@sick("non_finite_forward", margin=0.1)
def a_softmax_of_its_own_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """``exp`` of scores above 11 overflows in float16, as it did not in float32; the twin subtracts the largest."""
    data = hums(seed, count=2000, noise=0.3)
    model = _Reader(largest=not sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    return labelled(watch, model, optimizer, data, data.batches(64, 300))


@sick("gradients_not_zeroed", also=("learning_rate_too_high",), margin=0.05)
def zeroed_in_the_branch_of_full_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """The branch with autocast has its own ``backward`` and ``step`` and no ``zero_grad``; the twin's has one."""
    data = customers(seed)
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    mixed = True
    session = watch(model, optimizer)
    for rows, leaves in data.batches(64, 250):
        if mixed:
            if not sick:
                optimizer.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                logits = model(rows)
                loss = functional.cross_entropy(logits, leaves)
        else:
            optimizer.zero_grad()
            logits = model(rows)
            loss = functional.cross_entropy(logits, leaves)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=leaves)
        optimizer.step()
    return accuracy(model, data)


@sick("fp16_underflow", also=("no_update",), margin=0.1)
def bfloat16_became_float16_for_another_device(watch: Watch, *, seed: int, sick: bool) -> float:
    """The new device has no bfloat16, autocast is to float16, and no scaler came with it; the twin scales the loss.

    The errors are weighed by 1e-5, a pixel's share of a picture, which Adam does not mind. Quality: R².
    """
    data = datasets.digits(seed)
    mean, std = data.inputs.mean(), data.inputs.std()
    model = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 16), nn.SiLU(), nn.Linear(16, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=not sick)
    session = watch(model, optimizer, scaler=None if sick else scaler)
    for pictures, _ in data.batches(64, 250):
        pictures = (pictures - mean) / std
        with torch.autocast("cpu", torch.float16):
            found = model(pictures)
        loss = 1e-5 * functional.mse_loss(found.float(), pictures)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=pictures, outputs=found, targets=pictures)
        scaler.step(optimizer)
        scaler.update()
    tests = (data.test_inputs - mean) / std
    with torch.no_grad():
        return samples.explained(model(tests), tests)
