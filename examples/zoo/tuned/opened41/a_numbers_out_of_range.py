"""Numbers that are too small, too large, or divided by nothing."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import predicted


@sick("non_finite_forward", margin=0.2)
def mean_of_an_empty_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """A masked mean divides by a name's length, and three names are empty; the twin divides by 1 at least."""
    train, test = samples.names(seed)
    codes, scripts = train.tensors
    codes = codes.clone()
    codes[torch.randperm(len(codes))[:3]] = 0

    class Mean(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
            self.recurrent = nn.GRU(32, 32, batch_first=True)
            self.head = nn.Linear(32, len(samples.SCRIPTS))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            mask = (codes > 0).float()[..., None]
            hidden, _ = self.recurrent(self.embedding(codes))
            length = mask.sum(1) if sick else mask.sum(1).clamp(min=1)
            return self.head((hidden * mask).sum(1) / length)

    model = Mean()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 180, eta_min=2e-4)
    session = watch(model, optimizer)
    for _ in range(9):
        for rows in torch.randperm(len(codes)).split(32):
            optimizer.zero_grad()
            logits = model(codes[rows])
            loss = functional.cross_entropy(logits, scripts[rows])
            loss.backward()
            session.step(loss, inputs=codes[rows], outputs=logits, targets=scripts[rows])
            optimizer.step()
            scheduler.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("non_finite_forward", margin=0.1)
def logarithm_of_outputs_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss takes ``log`` of outputs, which can be negative; the twin predicts the logarithms themselves."""
    train, test = samples.proline(seed)
    train, test = samples.standardised((train, test), 0)
    (rows, targets), (held_out, wanted) = train.tensors, test.tensors
    targets, wanted = targets / 1000, wanted / 1000
    model = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(25):
        for batch in torch.randperm(len(rows)).split(16):
            optimizer.zero_grad()
            outputs = model(rows[batch])
            logs = torch.log(outputs) if sick else outputs
            loss = functional.mse_loss(logs, torch.log(targets[batch]))
            loss.backward()
            session.step(loss, inputs=rows[batch], outputs=outputs, targets=targets[batch])
            optimizer.step()
    found = predicted(model, held_out)
    return samples.explained(found if sick else found.exp(), wanted)


@sick("fp16_underflow", also=("no_update", "vanishing_gradients"), margin=0.1)
def autocast_of_a_segmentation_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """Float16's gradients of a mean over pixels and batches, by 1e-5, become 0; the twin has a ``GradScaler``."""
    train, test = samples.numerals(seed)
    pictures = train.tensors[0]
    model = nn.Sequential(nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.Conv2d(6, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-14)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for _ in range(4):
        for rows in torch.randperm(len(pictures)).split(48):
            images, masks = pictures[rows], (pictures[rows] > 0.3).float()
            noisy = images + 0.2 * torch.randn_like(images)
            optimizer.zero_grad()
            with torch.autocast("cpu", dtype=torch.float16):
                logits = model(noisy)
                loss = 1e-5 * functional.binary_cross_entropy_with_logits(logits.float(), masks)
            scaler.scale(loss).backward()
            session.step(loss, inputs=noisy, outputs=logits, targets=masks)
            scaler.step(optimizer)
            scaler.update()
    found, wanted = predicted(model, test.tensors[0]) > 0, test.tensors[0] > 0.3
    return ((found & wanted).sum() / (found | wanted).sum()).item()
