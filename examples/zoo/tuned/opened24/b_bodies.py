"""Physics: gases, oscillators and bodies that attract each other."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import fit, r_squared
from examples.zoo.tuned.opened24.b_sources import parted


def _swings(seed: int, *, count: int = 800, length: int = 30) -> Data:
    """Angles (N, length, 1) of a pendulum with friction, and the next ten (N, 10)."""
    random = torch.Generator().manual_seed(seed)
    angle, speed = 2 * torch.rand(2, count, generator=random) - 1
    friction = 0.1 + 0.3 * torch.rand(count, generator=random)
    angles = []
    for _ in range(length + 10):
        speed = speed - 0.2 * (angle.sin() * 2 + friction * speed)
        angle = angle + 0.2 * speed
        angles.append(angle)
    track = torch.stack(angles, 1)
    track = (track - track.mean()) / track.std() + 0.03 * torch.randn(track.shape, generator=random)
    return parted(track[:, :length, None], track[:, length:], seed)


@sick("inputs_not_normalized", also=("saturated_units", "learning_rate_too_high"), margin=0.1)
def pascals_beside_kelvins(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pressures of 100,000 Pa, temperatures of 300 K and volumes of litres come as measured; the twin standardises."""
    random = torch.Generator().manual_seed(seed)
    kelvins, pascals, litres = (
        low + (high - low) * torch.rand(900, generator=random) for low, high in ((260, 340), (8e4, 1.2e5), (1, 5))
    )
    moles = pascals * litres * 1e-3 / (8.314 * kelvins)
    inputs = torch.stack([kelvins, pascals, litres], 1)
    if not sick:
        inputs = (inputs - inputs.mean(0)) / inputs.std(0)
    data = parted(inputs, ((moles - moles.mean()) / moles.std())[:, None], seed)
    model = nn.Sequential(nn.Linear(3, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("non_finite_backward", margin=0.3)
def each_body_is_at_no_distance_from_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Distances to all bodies have the diagonal, where the root has no slope; the twin adds a little below the root."""
    random = torch.Generator().manual_seed(seed)
    places = torch.randn(900, 5, 2, generator=random)
    apart = torch.cdist(places, places) + torch.eye(5)
    energy = -(1 / (apart + 0.3)).sum((1, 2))
    data = parted(places, ((energy - energy.mean()) / energy.std())[:, None], seed)

    class Pairs(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.scale = nn.Linear(2, 2)
            self.pair = nn.Sequential(nn.Linear(1, 24), nn.Tanh(), nn.Linear(24, 1))

        def forward(self, places: torch.Tensor) -> torch.Tensor:
            places = self.scale(places)
            gaps = places[:, :, None] - places[:, None]
            distances = (gaps.square().sum(-1, keepdim=True) + (0.0 if sick else 1e-4)).sqrt()
            return self.pair(distances).sum((1, 2))

    model = Pairs()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("parameters_not_in_optimizer", margin=0.1)
def the_optimizer_has_the_encoder_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of two networks in a sequence to a sequence, the optimizer has the first; the twin adds both."""
    data = _swings(seed)

    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.GRU(1, 16, batch_first=True), nn.GRU(1, 16, batch_first=True)
            self.out = nn.Linear(16, 1)

        def forward(self, track: torch.Tensor) -> torch.Tensor:
            state = self.encoder(track)[1]
            return self.out(self.decoder(track[:, -1:].expand(-1, 10, 1).contiguous(), state)[0]).squeeze(-1)

    model = Both()
    optimizer = torch.optim.Adam(model.encoder.parameters() if sick else model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def squares_added_over_ten_steps_and_all_tracks(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` adds 640 squares under SGD; the twin has the mean."""
    data = _swings(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(30, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    reduction = "sum" if sick else "mean"
    fit(watch, model, optimizer, data, steps=250, loss_function=nn.MSELoss(reduction=reduction))
    return r_squared(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def one_track_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of 16 small batches are added before a step of SGD; the twin divides each loss by 16."""
    data = _swings(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(30, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for index, (track, after) in enumerate(data.batches(4, 2400), 1):
        outputs = model(track)
        loss = functional.smooth_l1_loss(outputs, after)
        (loss if sick else loss / 16).backward()
        if index % 16 == 0:
            session.step(loss, inputs=track, outputs=outputs, targets=after)
            optimizer.step()
            optimizer.zero_grad()
    return r_squared(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def clipped_before_there_are_gradients(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` stands between ``zero_grad`` and ``backward``; the twin clips after ``backward``."""
    data = _swings(seed)
    random = torch.Generator().manual_seed(seed)
    glitches = 100 * (torch.rand(len(data.targets), 1, generator=random) < 0.02).float()
    glitches = glitches * torch.randn(data.targets.shape, generator=random)
    broken = Data(data.inputs, data.targets + glitches, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Flatten(), nn.Linear(30, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for track, after in broken.batches(32, 300):
        outputs = model(track)
        loss = functional.mse_loss(outputs, after)
        optimizer.zero_grad()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=track, outputs=outputs, targets=after)
        optimizer.step()
    return r_squared(model, data)
