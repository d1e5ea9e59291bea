"""Losses and heads that ask for something else, and numbers that are none."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened43.a_material import (
    digit_images,
    file_lines,
    flat_digits,
    joined,
    lower_halves,
    score,
    wines_and_proline,
)


@sick("target_out_of_range", also=("wrong_output_or_loss",), margin=0.1)
def a_decoder_that_ends_in_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """A DCGAN's decoder with its tanh draws pixels from 0 to 16; the twin ends in a plain layer."""
    drawn = lower_halves(seed)
    data = Data(
        (drawn.inputs - 0.3) / 0.37, drawn.targets * 16, (drawn.test_inputs - 0.3) / 0.37, drawn.test_targets * 16
    )
    layers = [
        nn.Linear(32, 96), nn.ReLU(), nn.Unflatten(1, (24, 1, 4)), nn.ConvTranspose2d(24, 12, (2, 2), stride=(2, 2)),
        nn.ReLU(), nn.ConvTranspose2d(12, 1, (2, 1), stride=(2, 1)),
    ]  # fmt: skip
    model = nn.Sequential(*layers, *([nn.Tanh()] if sick else []), nn.Flatten())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=64, loss_function=functional.mse_loss)
    return score(model, data)


class NextCharacter(nn.Module):
    """Causal convolutions over characters."""

    def __init__(self, probabilities: bool) -> None:
        super().__init__()
        self.characters = nn.Embedding(CHARACTERS, 32)
        self.near, self.far = nn.Conv1d(32, 48, 3), nn.Conv1d(48, 48, 3, dilation=2)
        self.head = nn.Linear(48, CHARACTERS)
        self.probabilities = probabilities

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        hidden = self.near(functional.pad(self.characters(codes).mT, (2, 0))).relu()
        hidden = self.far(functional.pad(hidden, (4, 0))).relu()
        scores = self.head(hidden.mT)
        return scores.softmax(-1) if self.probabilities else scores


@sick("wrong_output_or_loss", margin=0.03)
def characters_softened_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """A model of text returns probabilities, of which ``cross_entropy`` takes the softmax again."""
    data = datasets.text(seed, length=24)
    model = NextCharacter(probabilities=sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=loss_function)
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.1)
def a_likelihood_of_columns_and_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Mean and variance are columns and the targets are a row, so a written-out likelihood has all pairs."""
    drawn = wines_and_proline(seed)
    data = Data(drawn.inputs, drawn.targets[:, 0], drawn.test_inputs, drawn.test_targets[:, 0])
    model = nn.Sequential(nn.Linear(12, 24), nn.SiLU(), nn.Linear(24, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    for rows, targets in data.batches(32, 120):
        mean, spread = model(rows).chunk(2, -1)
        wanted = targets if sick else targets[:, None]
        loss = (0.5 * (wanted - mean).square() / (functional.softplus(spread) + 0.1) ** 2).mean()
        loss = loss + (functional.softplus(spread) + 0.1).log().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=mean, targets=wanted)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[:, 0], data.test_targets)


@sick("flipped_loss_sign", margin=0.2)
def advantages_that_are_descended(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy that guesses tumours descends its rewarded log-probabilities; the twin ascends them."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    sign = 1.0 if sick else -1.0
    for rows, labels in data.batches(48, 150):
        outputs = model(rows)
        policy = torch.distributions.Categorical(logits=outputs)
        actions = policy.sample()
        rewards = (actions == labels).float()
        loss = sign * (policy.log_prob(actions) * (rewards - rewards.mean())).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class ColumnAttention(nn.Module):
    """Each column of a digit attends to its pixels with ink."""

    def __init__(self, hidden_score: float) -> None:
        super().__init__()
        self.places = nn.Parameter(torch.randn(8, 8, 12) * 0.3)
        self.ink = nn.Linear(1, 12)
        self.score, self.head = nn.Linear(12, 1), nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 10))
        self.hidden_score = hidden_score

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        pixels = images.squeeze(1)
        tokens = (self.ink(pixels[..., None]) + self.places).tanh()
        scores = self.score(tokens).squeeze(-1).masked_fill(pixels == 0, self.hidden_score)
        return self.head((scores.softmax(1)[..., None] * tokens).sum(1).flatten(1))


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.2)
def columns_without_any_ink(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention masks empty pixels with minus infinity, and in a blank column all of them; the twin's is -10,000."""
    data = datasets.digits(seed, images=True)
    model = ColumnAttention(-torch.inf if sick else -1e4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_backward", margin=0.1)
def distances_to_oneself(watch: Watch, *, seed: int, sick: bool) -> float:
    """A contrastive loss takes roots of squared distances, which are 0 on the diagonal; the twin adds 1e-6 before."""
    data = flat_digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 120):
        vectors = model(pixels)
        squares = (vectors[:, None] - vectors[None]).square().sum(-1)
        distances = (squares if sick else squares + 1e-6).sqrt()
        same = (labels[:, None] == labels[None]).float()
        loss = (same * distances.square() + (1 - same) * (2 - distances).relu().square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=vectors, targets=labels)
        optimizer.step()
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    nearest = torch.cdist(asked, known).nan_to_num(0.0).argmin(1)
    return (data.targets[nearest] == data.test_targets).float().mean().item()


class InMetres(nn.Module):
    """A network whose answers of order 1 are tenths of a millimetre, told in metres."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layers(rows).float() * METRES


METRES = 2e-4


@sick("fp16_underflow", also=("no_update",), margin=0.1)
def displacements_in_metres_by_halves(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors of a few ten-thousandths give float16 layers gradients of 0 without a scaler; the twin has one."""
    drawn = wines_and_proline(seed)
    data = Data(drawn.inputs, drawn.targets * METRES, drawn.test_inputs, drawn.test_targets * METRES)
    model = InMetres()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, eps=1e-14)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, enabled=not sick)
    session = watch(model, optimizer) if sick else watch(model, optimizer, scaler=scaler)
    for rows, targets in data.batches(64, 80):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(rows)
        loss = functional.mse_loss(outputs, targets)
        scaler.scale(loss).backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return score(model, data)


@sick("gradients_not_zeroed", margin=0.05)
def zeroes_for_the_averaged_copy(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` is called of the averaged copy, which has no gradients, and not of the model that is trained."""
    data = joined(samples.names(seed))
    model = nn.Sequential(nn.EmbeddingBag(64, 32, padding_idx=0), nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.8)
    average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.95))
    session = watch(model, optimizer)
    for codes, labels in data.batches(48, 200):
        (average if sick else model).zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
        average.update_parameters(model)
    return accuracy(average, data)


@sick("no_update", also=("learning_rate_too_low",), margin=0.1)
def a_warmup_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The share of a warm-up is divided with ``//``, so the rate is 0 until its end, which never comes."""
    data = file_lines(seed)
    model = nn.Sequential(nn.Linear(96, 48), nn.GELU(), nn.Dropout(0.4), nn.Linear(48, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) // 500, 1) if sick else min((step + 1) / 50, 1.0)
    )
    fit(watch, model, optimizer, data, steps=120, batch_size=48, scheduler=scheduler)
    return accuracy(model, data)


@sick("batch_mixing", margin=0.1)
def rows_viewed_instead_of_turned(watch: Watch, *, seed: int, sick: bool) -> float:
    """An LSTM wants time first, and ``view`` makes it so by mixing the digits of a batch; the twin transposes."""
    data = digit_images(seed)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrence, self.head = nn.LSTM(8, 48), nn.Linear(48, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            rows = images.squeeze(1)
            rows = rows.reshape(8, len(images), 8) if sick else rows.transpose(0, 1)
            return self.head(self.recurrence(rows)[0][-1])

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)
