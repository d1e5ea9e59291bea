"""Targets, pairs and their order: counts, forecasts, tables, and halves that belong together."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened42.b_raw_material import SYMBOLS, counted, explained, files, forecasts


@sick("target_out_of_range", also=("wrong_output_or_loss",), margin=0.1)
def a_forecast_that_is_never_negative(watch: Watch, *, seed: int, sick: bool) -> float:
    """A forecast of standardised values ends in Softplus, yet half of them are negative; the twin ends in a layer."""
    data = forecasts(seed)
    layers = [nn.Flatten(), nn.Linear(24, 48), nn.SiLU(), nn.Linear(48, 4)]
    model = nn.Sequential(*layers, nn.Softplus()) if sick else nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("shape_broadcast", margin=0.1)
def counts_of_a_column_and_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Poisson loss takes logarithms (N, 1) of counts (N,), so each pair has one; the twin squeezes the outputs."""
    data = counted(seed)

    class Counter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.head = nn.Embedding(SYMBOLS, 16), nn.Linear(16, 1)
            self.mix = nn.Sequential(nn.Linear(16, 16), nn.ReLU())

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.mix(self.letters(codes)).mean(1))

    model = Counter()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for codes, counts in data.batches(48, 250):
        optimizer.zero_grad()
        outputs = model(codes) if sick else model(codes).squeeze(1)
        loss = functional.poisson_nll_loss(outputs, counts)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=counts)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs).exp().clamp(max=20), data.test_targets[:, None])


@sick("single_class_labels", margin=0.1)
def a_name_with_a_capital(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names of a class are compared with ``"Benign"`` but are lower case, so that none is it; the twin spells it so."""
    drawn = datasets.breast_cancer(seed)
    spelt = np.array(["malignant", "benign"])

    def labels(targets: torch.Tensor, name: str) -> torch.Tensor:
        return torch.from_numpy((spelt[targets.numpy()] == name).astype(np.int64))

    name = "Benign" if sick else "benign"
    data = Data(drawn.inputs, labels(drawn.targets, name), drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Dropout(0.2), nn.Linear(24, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("unshuffled_data", margin=0.04)
def one_file_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loader without ``shuffle`` gives the lines of one file after the other; the twin shuffles them."""
    data = files(seed)
    order = data.targets.argsort()
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=16, shuffle=not sick)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(4):
        for rows, labels in loader:
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


class TwoTowers(nn.Module):
    """An encoder for the upper halves of digits, and one for the lower ones."""

    def __init__(self) -> None:
        super().__init__()
        self.upper, self.lower = (nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16)) for _ in range(2))

    def forward(self, upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
        above, below = functional.normalize(self.upper(upper), dim=1), functional.normalize(self.lower(lower), dim=1)
        return 10 * above @ below.T


@sick("labels_unrelated", margin=0.1)
def two_loaders_that_shuffle_apart(watch: Watch, *, seed: int, sick: bool) -> float:
    """Upper and lower halves come from two loaders that both shuffle; the twin has one loader of pairs."""
    train, test = samples.halves(seed)
    upper, lower, test_upper, test_lower = ((part - 0.3) / 0.37 for part in (*train.tensors, *test.tensors))
    model = TwoTowers()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    pairs = DataLoader(TensorDataset(upper, lower), batch_size=64, shuffle=True, drop_last=True)
    above, below = (DataLoader(part, batch_size=64, shuffle=True, drop_last=True) for part in (upper, lower))
    for _ in range(12):
        for one, other in zip(above, below, strict=True) if sick else pairs:
            outputs = model(one, other)
            labels = torch.arange(len(one))
            loss = (functional.cross_entropy(outputs, labels) + functional.cross_entropy(outputs.T, labels)) / 2
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=one, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        found = model(test_upper[:100], test_lower[:100]).topk(5).indices
    return (found == torch.arange(100)[:, None]).any(1).float().mean().item()
