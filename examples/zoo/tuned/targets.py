"""Targets that say nothing, or too little: wrong labels, one class only, too few samples; and samples that mix."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted, r_squared


@sick("labels_unrelated")
def images_shuffled_without_their_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images are shuffled, their labels are not."""
    data = datasets.digits(seed, images=True)
    order = torch.randperm(len(data.inputs))
    data = Data(data.inputs[order], data.targets if sick else data.targets[order], data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, validate_every=50)
    return accuracy(model, data)


@sick("labels_unrelated")
def a_table_joined_by_the_wrong_key(watch: Watch, *, seed: int, sick: bool) -> float:
    """The targets of a regression belong to other patients."""
    data = datasets.diabetes(seed)
    targets = data.targets[torch.randperm(len(data.targets))] if sick else data.targets
    data = Data(data.inputs, targets, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("single_class_labels")
def labels_divided_away(watch: Watch, *, seed: int, sick: bool) -> float:
    """A conversion leaves class 0 for every digit: the loss is perfect and the model knows nothing."""
    data = datasets.digits(seed)
    data = Data(data.inputs, data.targets // 10 if sick else data.targets, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250)
    return accuracy(model, data)


@sick("single_class_labels")
def a_threshold_that_nobody_passes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Labels are made by a threshold on another scale, and all are false."""
    data = datasets.iris(seed)
    wanted = 1 if sick else 0.5
    labels = ((data.targets == 2).float() > wanted).float()
    data = Data(data.inputs, labels, data.test_inputs, (data.test_targets == 2).float())
    model = nn.Sequential(nn.Linear(4, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def loss_function(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(logits.squeeze(1), labels)

    fit(watch, model, optimizer, data, steps=120, batch_size=16, loss_function=loss_function)
    return binary_accuracy(model, data)


@sick("class_imbalance")
def two_in_a_hundred(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two of a hundred samples are of the second class; the twin gives them the same weight in sum."""
    data = datasets.digits(seed)
    labels = (data.targets == 8).long()
    rare, others = labels.nonzero()[:, 0][:18], (labels == 0).nonzero()[:, 0]
    rows = torch.cat([rare, others])
    test_labels = (data.test_targets == 8).long()
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    weights = None if sick else torch.tensor([1.0, len(others) / len(rare)])

    def loss_function(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits, labels, weight=weights)

    data = Data(data.inputs[rows], labels[rows], data.test_inputs, test_labels)
    fit(watch, model, optimizer, data, steps=120, loss_function=loss_function, validate_every=40)
    right = predicted(model, data.test_inputs).argmax(1) == test_labels
    return (right[test_labels == 0].float().mean() + right[test_labels == 1].float().mean()).item() / 2


@sick("overfitting", margin=0.1)
def a_wide_net_on_forty_samples(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide net learns forty samples by heart; the twin has all of them."""
    data = datasets.digits(seed)
    if sick:
        data = Data(data.inputs[:40], data.targets[:40], data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=20, validate_every=20)
    return accuracy(model, data)


@sick("overfitting", margin=0.1)
def a_regression_that_learns_its_noise(watch: Watch, *, seed: int, sick: bool) -> float:
    """A large net goes on until the training loss is nearly zero; the twin is small and regularised."""
    data = datasets.diabetes(seed)
    if sick:
        model = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
    else:
        model = nn.Sequential(nn.Linear(10, 16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=400, batch_size=32, loss_function=functional.mse_loss, validate_every=25)
    return r_squared(model, data)


class _RowsAsSteps(nn.Module):
    """An LSTM over the rows of a digit that takes (steps, batch, features)."""

    def __init__(self, *, mixed: bool) -> None:
        super().__init__()
        self.mixed = mixed
        self.cell = nn.LSTM(8, 32)
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows = images.view(-1, 8, 8)
        rows = rows.reshape(8, -1, 8) if self.mixed else rows.transpose(0, 1)
        states, _ = self.cell(rows)
        return self.head(states[-1])


@sick("batch_mixing")
def reshaped_instead_of_transposed(watch: Watch, *, seed: int, sick: bool) -> float:
    """(batch, steps, features) is brought to (steps, batch, features) by a reshape, which mixes the samples."""
    data = datasets.digits(seed)
    model = _RowsAsSteps(mixed=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64, validate_every=50)
    return accuracy(model, data)


class _Attentive(nn.Module):
    """Attention over the rows of a digit."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.embedding = nn.Linear(8, 32)
        self.position = nn.Parameter(torch.randn(8, 32) * 0.1)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=batch_first)
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows = self.embedding(images.view(-1, 8, 8)) + self.position
        mixed, _ = self.attention(rows, rows, rows, need_weights=False)
        return self.head(self.norm(mixed).mean(1))


@sick("batch_mixing")
def attention_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``batch_first`` is missing, so that attention goes over the samples of a batch instead of a digit's rows."""
    data = datasets.digits(seed)
    model = _Attentive(batch_first=not sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("batch_mixing", also=("wrong_output_or_loss",))
def softmax_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The softmax goes over dimension 0: samples of a batch compete, and one alone always has a probability of 1."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3), nn.LogSoftmax(dim=0 if sick else 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=120, batch_size=16, loss_function=functional.nll_loss)
    found = torch.stack([predicted(model, row[None])[0].argmax() for row in data.test_inputs])
    return (found == data.test_targets).float().mean().item()
