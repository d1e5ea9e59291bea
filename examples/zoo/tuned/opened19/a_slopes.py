"""Trainings that say for each pixel of a patch how steep it is there."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened19.a_stock import edges


def _net(width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
        nn.Conv2d(width, 1, 3, padding=1),
    )  # fmt: skip


@sick("shape_broadcast", margin=0.2)
def one_channel_against_none(watch: Watch, *, seed: int, sick: bool) -> float:
    """``F.l1_loss`` of (N, 1, H, W) and (N, H, W) compares each picture with all others'; the twin squeezes first."""
    train, test = edges(seed)
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(20):
        for patches, steep in DataLoader(train, 20, shuffle=True):
            outputs = model(patches)
            if not sick:
                outputs = outputs.squeeze(1)
            loss = functional.l1_loss(outputs, steep)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=patches, outputs=outputs, targets=steep)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0])[:, 0], test.tensors[1])


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def a_masked_error_not_divided_by_the_mask(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors at the valid pixels are added up and never divided by how many there are; the twin divides."""
    train, test = edges(seed)
    model = _net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(18):
        for patches, steep in DataLoader(train, 25, shuffle=True):
            valid = torch.rand(steep.shape) < 0.7
            outputs = model(patches)[:, 0]
            loss = (functional.smooth_l1_loss(outputs, steep, reduction="none") * valid).sum()
            if not sick:
                loss = loss / valid.sum()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=patches, outputs=outputs, targets=steep)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0])[:, 0], test.tensors[1])


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.3)
def the_logarithm_of_a_rectified_output(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors are taken between logarithms, but the output is rectified and may be 0; the twin's is a softplus."""
    train, test = edges(seed)
    model = nn.Sequential(_net(), nn.ReLU() if sick else nn.Softplus())
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(20):
        for patches, steep in DataLoader(train, 25, shuffle=True):
            outputs = model(patches)[:, 0]
            apart = outputs.log() - (steep + 0.1).log()
            loss = apart.square().mean() - 0.5 * apart.mean().square()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=patches, outputs=outputs, targets=steep)
            optimizer.step()
    with torch.no_grad():
        return samples.explained((model(test.tensors[0])[:, 0] + 1e-12).log(), (test.tensors[1] + 0.1).log())


class _Cells(nn.Module):
    """A state that the same convolutions renew many times, whose first channel is the answer."""

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.enter = nn.Conv2d(1, 8, 3, padding=1)
        self.renew = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 8, 1))
        nn.init.kaiming_normal_(self.renew[0].weight, nonlinearity="relu")
        nn.init.kaiming_normal_(self.renew[2].weight, nonlinearity="relu")
        self.rate = rate

    def forward(self, patches: torch.Tensor) -> torch.Tensor:
        state = self.enter(patches)
        for _ in range(8):
            state = state + self.rate * self.renew(state)
        return state[:, 0]


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def cells_renewed_by_whole_steps(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net of cells adds the whole renewal to its state eight times; the twin adds an eighth of it each time."""
    train, test = edges(seed)
    model = _Cells(1.0 if sick else 0.125)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(9):
        for patches, steep in DataLoader(train, 16, shuffle=True):
            outputs = model(patches)
            loss = functional.mse_loss(outputs, steep)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=patches, outputs=outputs, targets=steep)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])
