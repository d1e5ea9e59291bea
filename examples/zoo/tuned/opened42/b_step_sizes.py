"""Rates, schedules, sums and clipping, in language models, sequences and a denoiser."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened42.b_raw_material import (
    Recurrent,
    explained,
    files,
    forecasts,
    named,
    scored,
)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def a_bert_recipe_for_a_network_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrent network with new weights is trained at the 2e-5 of fine tuning a large one; the twin at 4e-3."""
    data = named(seed)
    model = Recurrent(64, 8)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 4e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, validate_every=50)
    return accuracy(model, data)


class Speller(nn.Module):
    """A small recurrent language model of characters."""

    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.letters = nn.Embedding(CHARACTERS, width)
        self.reader = nn.LSTM(width, width, batch_first=True)
        self.head = nn.Linear(width, CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(self.letters(codes))[0])


def _by_place(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())


@sick("clipping_ineffective", also=("learning_rate_too_high", "exploding_gradients", "saturated_units"), margin=0.03)
def a_rate_of_twenty_clipped_before_backward(watch: Watch, *, seed: int, sick: bool) -> float:
    """An LSTM at SGD's rate of 20 needs clipping to 0.25, done here on empty gradients; the twin clips them after."""
    data = datasets.text(seed, length=20)
    model = Speller()
    optimizer = torch.optim.SGD(model.parameters(), lr=20.0)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 170):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = _by_place(outputs, following)
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        session.step(loss, inputs=codes, outputs=outputs, targets=following)
        optimizer.step()
    return scored(predicted(model, data.test_inputs), data.test_targets)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "saturated_units"), margin=0.05)
def characters_added_over_all_places(watch: Watch, *, seed: int, sick: bool) -> float:
    """A model of characters adds the loss of 640 of them, at a rate for their mean; the twin takes the mean."""
    data = datasets.text(seed, length=20)
    window = nn.Sequential(
        nn.Embedding(CHARACTERS, 32), nn.GRU(32, 64, batch_first=True), _First(), nn.Linear(64, CHARACTERS)
    )
    optimizer = torch.optim.SGD(window.parameters(), lr=0.5, momentum=0.9)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return nn.CrossEntropyLoss(reduction="sum" if sick else "mean")(outputs.flatten(0, 1), targets.flatten())

    fit(watch, window, optimizer, data, steps=170, batch_size=32, loss_function=loss_function)
    return scored(predicted(window, data.test_inputs), data.test_targets)


class _First(nn.Module):
    def forward(self, found: tuple[torch.Tensor, torch.Tensor]) -> torch.Tensor:
        return found[0]


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients", "dead_units"), margin=0.05)
def sixteen_small_batches_of_lines(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of 16 batches of 6 lines are summed for a step; the twin divides each loss by 16."""
    data = files(seed)
    model = nn.Sequential(nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for index, (rows, labels) in enumerate(data.batches(6, 16 * 60), 1):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        (loss if sick else loss / 16).backward()
        if index % 16 == 0:
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def a_forecast_by_a_recurrence_of_relu(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights of 0.4 make a recurrence with ReLU grow over 24 values; the twin starts from the identity."""
    drawn = forecasts(seed)
    data = Data(drawn.inputs, drawn.targets, drawn.test_inputs, drawn.test_targets)

    class Series(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader = nn.RNN(1, 48, nonlinearity="relu", batch_first=True)
            self.head = nn.Linear(48, 4)
            if sick:
                nn.init.normal_(self.reader.weight_hh_l0, std=0.4)
            else:
                nn.init.eye_(self.reader.weight_hh_l0)
                nn.init.normal_(self.reader.weight_ih_l0, std=0.1)

        def forward(self, series: torch.Tensor) -> torch.Tensor:
            return self.head(self.reader(series)[0][:, -1])

    model = Series()
    optimizer = torch.optim.SGD(model.parameters(), lr=2e-3, momentum=0.9)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)
