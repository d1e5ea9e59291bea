"""Numbers that run out of their range in the forward or the backward pass, or fall out of float16."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, throws


@sick("non_finite_forward", margin=0.1)
def the_logarithm_of_a_mean_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """A gamma deviance takes the logarithm of means that a linear layer puts out; the twin ends in a softplus."""
    train, test = samples.standardised(throws(seed), 0)
    model = nn.Sequential(
        nn.Linear(3, 48), nn.SiLU(), nn.Linear(48, 48), nn.SiLU(), nn.Linear(48, 1),
        nn.Identity() if sick else nn.Softplus(),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for rows, metres in DataLoader(train, batch_size=50, shuffle=True):
            distances = metres / 10
            means = model(rows)
            loss = (means.log() + distances / means).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=means, targets=distances)
            optimizer.step()
    return judged(model, TensorDataset(test.tensors[0], test.tensors[1] / 10), samples.explained)


class _Measured(nn.Module):
    """Attention over the measurements of a wine that were made, of which there may be none."""

    def __init__(self, guarded: bool) -> None:
        super().__init__()
        self.guarded = guarded
        self.columns = nn.Parameter(0.5 * torch.randn(13, 24))
        self.scale, self.score = nn.Parameter(0.5 * torch.randn(13, 24)), nn.Linear(24, 1)
        self.head = nn.Linear(24, 3)

    def forward(self, rows: torch.Tensor, made: torch.Tensor) -> torch.Tensor:
        tokens = torch.tanh(self.columns + self.scale * rows[..., None])
        hidden = -1e4 if self.guarded else -torch.inf
        weights = self.score(tokens)[..., 0].masked_fill(~made, hidden).softmax(1)
        return self.head((weights[..., None] * tokens).sum(1))


@sick("non_finite_forward", margin=0.1)
def a_mask_that_hides_all_of_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Missing columns get -inf, and a few wines miss all of them: softmax gives NaN; the twin's get -10,000."""
    data = datasets.wine(seed)
    drop = torch.rand(data.inputs.shape) < 0.15
    drop[torch.randperm(len(drop))[:4]] = True
    train = TensorDataset(data.inputs.masked_fill(drop, 0), ~drop, data.targets)
    model = _Measured(guarded=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(14):
        for features, made, cultivars in DataLoader(train, batch_size=12, shuffle=True):
            logits = model(features, made)
            loss = functional.cross_entropy(logits, cultivars)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=features, outputs=logits, targets=cultivars)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        logits = model(data.test_inputs, torch.ones_like(data.test_inputs, dtype=torch.bool))
    return samples.accuracy(logits, data.test_targets)


def _nearest(model: nn.Module, train: TensorDataset, test: TensorDataset) -> float:
    model.eval()
    with torch.no_grad():
        known, asked = model(train.tensors[0]), model(test.tensors[0])
    nearest = (asked[:, None] - known[None]).square().sum(2).argmin(1)
    return (train.tensors[1][nearest] == test.tensors[1]).float().mean().item()


@sick("non_finite_backward", margin=0.05)
def the_root_of_a_distance_to_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Distances are roots of sums, and 0 on the diagonal, where the root has no slope; the twin adds 1e-6."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=40, shuffle=True, drop_last=True):
            codes = model(images)
            squares = (codes[:, None] - codes[None]).square().sum(2)
            distances = (squares if sick else squares + 1e-6).sqrt()
            same = labels[:, None] == labels[None]
            pairs = torch.where(same, distances.square(), (2 - distances).clamp(min=0).square() * 4)
            loss = pairs.mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=codes, targets=labels)
            optimizer.step()
    return _nearest(model, train, test)


class _Statistics(nn.Module):
    """Tells a photograph by the deviation of each feature map, which is zero where the picture is blank."""

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.epsilon = epsilon
        self.features = nn.Conv2d(3, 24, 3, bias=False)
        self.head = nn.Sequential(nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 2))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        maps = self.features(images)
        return self.head((maps.var((2, 3)) + self.epsilon).sqrt())


@sick("non_finite_backward", margin=0.1)
def the_deviation_of_a_blank_picture(watch: Watch, *, seed: int, sick: bool) -> float:
    """Maps are pooled to deviations: roots without a slope at the zeros of blank pictures; the twin adds 1e-5."""
    train, test = samples.scenes(seed)
    train.tensors[0][::50] = 0
    model = _Statistics(0.0 if sick else 1e-5)
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        for pictures, photographs in DataLoader(train, batch_size=48, shuffle=True):
            optimizer.zero_grad()
            logits = model(pictures)
            loss = functional.cross_entropy(logits, photographs)
            loss.backward()
            session.step(loss, inputs=pictures, outputs=logits, targets=photographs)
            optimizer.step()
    return judged(model, test)


@sick("fp16_underflow", margin=0.1)
def a_denoiser_in_float16_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """A mean over 12,000 pixels has a weight of 1e-5 under float16's autocast, and no scaler; the twin has one."""
    train, test = samples.scenes(seed, count=900)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(192, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 192),
        nn.Unflatten(1, (3, 8, 8)),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for _ in range(8):
        for (images,) in DataLoader(TensorDataset(train.tensors[0]), batch_size=63, shuffle=True):
            with torch.autocast("cpu", torch.float16):
                outputs = model(images)
            # The weight beside other losses, of which this run has none.
            loss = 1e-5 * functional.mse_loss(outputs.float(), images)
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            session.step(loss, inputs=images, outputs=outputs, targets=images)
            scaler.step(optimizer)
            scaler.update()
    return judged(model, TensorDataset(test.tensors[0], test.tensors[0]), samples.explained)
