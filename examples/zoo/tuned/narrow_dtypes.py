"""Numbers in a narrow dtype."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick


@sick("fp16_underflow")
def a_small_weight_for_the_loss_in_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss has a weight of 1e-4 among others, and its gradients under autocast have no scaler."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for _ in range(8):
        for upper, lower in DataLoader(train, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            with torch.autocast("cpu", torch.float16):
                painted = model(upper)
            loss = 1e-4 * functional.smooth_l1_loss(painted.float(), lower)
            scaler.scale(loss).backward()
            session.step(loss, inputs=upper, outputs=painted, targets=lower)
            scaler.step(optimizer)
            scaler.update()
    with torch.no_grad():
        return samples.explained(model.eval()(test.tensors[0]), test.tensors[1])
