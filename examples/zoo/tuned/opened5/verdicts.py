"""What outputs are compared with, in which shape, with which sign, and added up how."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, breast_cancer
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted
from examples.zoo.tuned.opened5.material import (
    ALPHABET,
    centres,
    dense,
    enlarged,
    explained,
    f1,
    pixels,
    series,
    turned,
    words,
)


@sick("target_out_of_range")
def ratings_up_to_sixteen_from_a_cosine(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two towers are compared by their cosine, from -1 to 1, and the ink that it should be goes up to 16."""

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.page = nn.Sequential(nn.Embedding(300, 16), nn.Linear(16, 16))
            self.place = nn.Sequential(nn.Embedding(64, 16), nn.Linear(16, 16))

        def forward(self, pairs: torch.Tensor) -> torch.Tensor:
            return F.cosine_similarity(self.page(pairs[:, 0]), self.place(pairs[:, 1]), dim=1)

    data, top = pixels(seed), 16.0 if sick else 1.0
    data = Data(data.inputs, data.targets * top, data.test_inputs, data.test_targets * top)
    model = Towers()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    fit(watch, model, optimizer, data, steps=240, batch_size=256, loss_function=F.mse_loss, validate_every=60)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("target_out_of_range")
def upscaler_that_ends_below_a_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels were centred once, and the last layer is still clamped to -0.5 and 0.5; now they are from 0 to 1."""
    data = enlarged(seed)
    bounds = (-0.5, 0.5) if sick else (0.0, 1.0)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.LeakyReLU(0.1), nn.ConvTranspose2d(16, 1, 4, 2, 1), nn.Hardtanh(*bounds)
    )
    nn.init.constant_(model[2].bias, 0.4)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=F.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("wrong_output_or_loss")
def counts_raised_to_a_power_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """The network of a count ends in ``exp``, and ``poisson_nll_loss`` takes logarithms unless told otherwise."""
    data = words(seed)
    data = Data(
        data.inputs,
        (data.inputs > 0).sum(1, keepdim=True),
        data.test_inputs,
        (data.test_inputs > 0).sum(1, keepdim=True),
    )
    model = nn.Sequential(nn.Embedding(ALPHABET, 8, padding_idx=0), nn.Flatten(), *dense(128, 32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for codes, counts in data.batches(50, 240):
        rate = model(codes).exp()
        loss = F.poisson_nll_loss(rate, counts, log_input=sick)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=rate, targets=counts)
        optimizer.step()
    return explained(predicted(model, data.test_inputs).exp(), data.test_targets.float())


@sick("wrong_output_or_loss")
def margins_between_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hinge asks for a distance of one between scores, and the scores went through a softmax."""
    data = turned(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 24, 3), nn.ReLU(), nn.Flatten(), nn.Linear(384, 4)
    )
    if sick:
        model.append(nn.Softmax(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, batch_size=40, loss_function=F.multi_margin_loss)
    return accuracy(model, data)


class Letters(nn.Module):
    """Which of the first twelve letters are in a word: an output for each."""

    def __init__(self, *, squashed: bool) -> None:
        super().__init__()
        self.letters = nn.Embedding(ALPHABET, 24, padding_idx=0)
        self.body = dense(24, 48, 12)
        self.squashed = squashed

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        scores = self.body(self.letters(codes).sum(1))
        return scores.sigmoid() if self.squashed else scores


def first_letters(seed: int) -> Data:
    """Words, and which of the letters from a to l are in them (N, 12)."""
    data = words(seed)

    def present(codes: torch.Tensor) -> torch.Tensor:
        return F.one_hot(codes, ALPHABET).amax(1)[:, 1:13].float()

    return Data(data.inputs, present(data.inputs), data.test_inputs, present(data.test_inputs))


@sick("wrong_output_or_loss")
def letters_squashed_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model returns probabilities of several labels, and the loss takes a sigmoid of them again."""
    data = first_letters(seed)
    model = Letters(squashed=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(
        watch, model, optimizer, data, steps=200, batch_size=40, loss_function=F.binary_cross_entropy_with_logits,
        validate_every=50,
    )  # fmt: skip
    return f1(predicted(model, data.test_inputs) - (0.5 if sick else 0.0), data.test_targets)


@sick("shape_broadcast")
def channel_that_met_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A convolution puts out (B, 1, T), the series to follow is (B, T): each meets each in (B, B, T)."""
    data = series(seed)
    goal = data.inputs[:, 0, 8:].contiguous()
    past = data.inputs[..., :-1].contiguous()
    data = Data(past, goal[:, -10:], data.test_inputs[..., :-1], data.test_inputs[:, 0, -10:])
    model = nn.Sequential(nn.Conv1d(1, 24, 8), nn.ReLU(), nn.Conv1d(24, 24, 1), nn.ReLU(), nn.Conv1d(24, 1, 7))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for values, following in data.batches(32, 160):
        guess = model(values)
        if not sick:
            guess = guess[:, 0]
        loss = F.mse_loss(guess, following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=values, outputs=guess, targets=following)
        optimizer.step()
    return explained(predicted(model, data.test_inputs)[:, 0], data.test_targets)


@sick("shape_broadcast")
def signs_in_a_column_margins_in_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A logistic loss by hand, ``softplus(-sign * score)``: scores are (B,), signs come as (B, 1)."""
    data = breast_cancer(seed)
    body = dense(30, 24, 1, act=nn.ELU)
    model = nn.Sequential(body, nn.Flatten(0))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for rows, labels in data.batches(40, 140):
        score = model(rows)
        sign = 2.0 * labels - 1.0
        if sick:
            sign = sign[:, None]
        loss = F.softplus(-sign * score).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=score, targets=sign)
        optimizer.step()
    return binary_accuracy(model, data)


@sick("flipped_loss_sign")
def noise_ratio_driven_down(watch: Watch, *, seed: int, sick: bool) -> float:
    """The signal-to-noise ratio in decibels is minimised like any loss; it had to be maximised."""
    data = enlarged(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def decibels(guess: torch.Tensor, high: torch.Tensor) -> torch.Tensor:
        ratio = -10 * (guess - high).square().mean((1, 2, 3)).clamp(min=1e-6).log10().mean()
        return ratio if sick else -ratio

    fit(watch, model, optimizer, data, steps=160, batch_size=32, loss_function=decibels, validate_every=40)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("flipped_loss_sign")
def ranked_the_other_way_round(watch: Watch, *, seed: int, sick: bool) -> float:
    """``margin_ranking_loss(worse, better, 1)`` wants the first to be larger. Quality: the share of pairs in order."""
    data = centres(seed)
    bright, test_bright = data.targets.mean(1), data.test_targets.mean(1)
    model = dense(24, 32, 1, act=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for left, right in torch.randint(len(bright), (200, 2, 64)):
        better = torch.where(bright[left] > bright[right], left, right)
        worse = left + right - better
        one, two = model(data.inputs[better])[:, 0], model(data.inputs[worse])[:, 0]
        first, second = (two, one) if sick else (one, two)
        loss = F.margin_ranking_loss(first, second, torch.ones(len(left)), margin=0.5)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[better], outputs=one)
        optimizer.step()
    scores = predicted(model, data.test_inputs)
    return ((scores > scores.T) == (test_bright[:, None] > test_bright[None])).float().mean().item()


@sick("loss_sum_not_mean")
def errors_summed_over_pictures_and_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` came with the loss of another project, the rate stayed."""
    data = enlarged(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.L1Loss(reduction="sum" if sick else "mean")
    session = watch(model, optimizer)
    for low, high in data.batches(16, 200):
        guess = model(low)
        loss = criterion(guess, high)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=low, outputs=guess, targets=high)
        optimizer.step()
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Following(nn.Module):
    """A recurrence that guesses what follows at each moment of a series (B, T)."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.GRU(1, 20, batch_first=True), nn.Linear(20, 1)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.out(self.cell(values[..., None])[0])[..., 0]


@sick("loss_sum_not_mean")
def sum_over_series_and_moments(watch: Watch, *, seed: int, sick: bool) -> float:
    """Thirty-two series of 23 moments: 736 errors are added up, and the rate is for their mean."""
    data = series(seed)
    model = Following()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    criterion = nn.HuberLoss(reduction="sum" if sick else "mean")
    session = watch(model, optimizer)
    for past, _ in data.batches(32, 180):
        values, following = past[:, 0, :-1], past[:, 0, 1:]
        guess = model(values)
        loss = criterion(guess, following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=values, outputs=guess, targets=following)
        optimizer.step()
    return explained(predicted(model, data.test_inputs[:, 0])[:, -1:], data.test_targets)


@sick("wrong_output_or_loss", also=("no_update",))
def softmax_over_one_output(watch: Watch, *, seed: int, sick: bool) -> float:
    """One score for benign or not, in a cross entropy over that one class: the loss is 0 whatever it is."""
    data = breast_cancer(seed)
    model = dense(30, 24, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(40, 120):
        score = model(rows)
        goal = labels.float()[:, None]
        loss = F.cross_entropy(score, goal) if sick else F.binary_cross_entropy_with_logits(score, goal)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=score, targets=goal)
        optimizer.step()
    return binary_accuracy(model, data)
