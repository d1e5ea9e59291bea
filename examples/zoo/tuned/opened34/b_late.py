"""Penalties, clipping, divisions and ends of trainings."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import fit, predicted
from examples.zoo.tuned.opened34.b_common import explained, parted, squares, strips


@sick("dead_units", also=("over_regularized", "loss_sum_not_mean"), margin=0.2)
def a_penalty_added_over_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sparse autoencoder's penalty is added over a batch, and kills all features; the twin takes its mean."""
    patches = squares(seed).flatten(1)
    data = parted(patches, patches, seed)
    inner, outer = nn.Sequential(nn.Linear(64, 96), nn.ReLU()), nn.Linear(96, 64)
    model = nn.Sequential(inner, outer)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        code = inner(pixels)
        outputs = outer(code)
        penalty = code.abs().sum() if sick else code.abs().mean()
        loss = functional.mse_loss(outputs, pixels) + 0.1 * penalty
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return explained(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def clipped_before_backward(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_norm_`` stands in front of ``backward``, where no gradients are; the twin has it behind."""
    data = strips(seed, length=24)

    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader, self.head = nn.RNN(1, 48, nonlinearity="relu", batch_first=True), nn.Linear(48, 4)
            nn.init.eye_(self.reader.weight_hh_l0)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.reader(rows[..., None])[0][:, -1])

    model = Plain()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for rows, following in data.batches(48, 300):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.mse_loss(outputs, following)
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=rows, outputs=outputs, targets=following)
        optimizer.step()
    return explained(model, data)


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.3)
def columns_divided_by_their_own_sums(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model divides each column of pixels by its sum, and some are blank; the twin's sums are 0.1 at least."""
    train, test = samples.halves(seed)
    data = Data(train.tensors[0], (train.tensors[1] - 0.3) / 0.37, test.tensors[0], (test.tensors[1] - 0.3) / 0.37)

    class Shares(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))

        def forward(self, above: torch.Tensor) -> torch.Tensor:
            columns = above.unflatten(1, (4, 8))
            sums = columns.sum(1, keepdim=True)
            return self.body((4 * columns / (sums if sick else sums.clamp(min=0.1)) - 1).flatten(1))

    model = Shares()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@sick("stopped_too_early", margin=0.05)
def one_epoch_as_for_a_large_model(watch: Watch, *, seed: int, sick: bool) -> float:
    """One epoch, which is enough to tune a large model, is 71 steps of a new one; the twin takes five."""
    data = datasets.text(seed, length=20, count=3000)
    model = nn.Sequential(
        nn.Embedding(CHARACTERS, 24),
        _Causal(24, 64),
        nn.ReLU(),
        _Causal(64, 64),
        nn.ReLU(),
        nn.Linear(64, CHARACTERS),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for characters, targets in data.batches(32, 71 if sick else 355):
        optimizer.zero_grad()
        outputs = model(characters)
        loss = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
        loss.backward()
        session.step(loss, inputs=characters, outputs=outputs, targets=targets)
        optimizer.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


class _Causal(nn.Module):
    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(inward, outward, 3)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        """Returns a convolution along places (N, length, channels) that sees no later ones."""
        return self.convolution(functional.pad(places.mT, (2, 0))).mT
