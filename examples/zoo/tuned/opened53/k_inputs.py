"""What is fed: scales, gaps, labels, order, and copies."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Subset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened53.k_shared import Spelling, from_pair


@sick("inputs_not_normalized", margin=0.05)
def tumours_in_micrometres(watch: Watch, *, seed: int, sick: bool) -> float:
    """Radii, areas and smoothnesses of tumours go into a tanh network as measured; the twin standardises them."""
    pair = samples.diagnoses(seed)
    data = from_pair(pair if sick else samples.standardised(pair, 0))
    model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 24), nn.Tanh(), nn.Linear(24, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("inputs_constant", margin=0.3)
def bytes_made_of_fractions(watch: Watch, *, seed: int, sick: bool) -> float:
    """A cache stores pixels, already divided by 17, as bytes, and all become 0; the twin stores them as floats."""
    drawn = datasets.digits(seed, images=True)
    kind = torch.uint8 if sick else torch.float32
    kept, test = ((part * 16 / 17).to(kind) for part in (drawn.inputs, drawn.test_inputs))
    data = Data(kept.float(), drawn.targets, test.float(), drawn.test_targets)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.2)
def logarithms_of_smooth_outlines(watch: Watch, *, seed: int, sick: bool) -> float:
    """Measurements are replaced with their logarithms, but some outlines have no dents at all; the twin adds 0.001."""
    raw = datasets.breast_cancer(seed, raw=True)
    added = 0.0 if sick else 1e-3
    logs, test = (torch.log(part + added) for part in (raw.inputs, raw.test_inputs))
    std, mean = torch.std_mean(logs, 0)
    data = Data((logs - mean) / std, raw.targets, (test - mean) / std, raw.test_targets)
    model = nn.Sequential(nn.Linear(30, 24), nn.SiLU(), nn.Linear(24, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=140, batch_size=32)
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.2)
def bucketed_by_length_without_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names are sorted by their lengths for buckets, and their scripts stay where they were; the twin sorts both."""
    drawn = from_pair(samples.names(seed))
    order = torch.argsort((drawn.inputs > 0).sum(1), stable=True)
    labels = drawn.targets if sick else drawn.targets[order]
    buckets = list(zip(drawn.inputs[order].split(32), labels.split(32), strict=True))
    model = Spelling(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        for index in torch.randperm(len(buckets)).tolist():
            rows, scripts = buckets[index]
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, scripts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=scripts)
            optimizer.step()
    return accuracy(model, drawn)


@sick("single_class_labels", margin=0.08)
def progress_above_a_raw_threshold(watch: Watch, *, seed: int, sick: bool) -> float:
    """Patients are labelled by a threshold of 140 though the values are standardised by then; the twin's is 0."""
    data = datasets.diabetes(seed)
    threshold = 140.0 if sick else 0.0
    marked = Data(data.inputs, (data.targets > threshold).float(), data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(10, 16), nn.ELU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    fit(
        *(watch, model, optimizer, marked),
        steps=120,
        batch_size=48,
        loss_function=functional.binary_cross_entropy_with_logits,
    )
    return ((predicted(model, data.test_inputs) > 0) == (data.test_targets > 0)).float().mean().item()


@sick("class_imbalance", margin=0.1)
def one_eight_in_thirty(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three of a hundred digits are eights, to be told from all others by an unweighted loss; the twin weighs them."""
    drawn = datasets.digits(seed)
    eights = torch.nonzero(drawn.targets == 8).flatten()[:38]
    rows = torch.cat([eights, torch.nonzero(drawn.targets != 8).flatten()])
    labels, test_labels = (drawn.targets[rows] == 8).long(), (drawn.test_targets == 8).long()
    data = Data(drawn.inputs[rows], labels, drawn.test_inputs, test_labels)
    model = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 2))
    counts = torch.bincount(data.targets).float()
    weights = torch.ones(2) if sick else counts.sum() / (2 * counts)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.8)

    def weighed(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs, labels, weight=weights)

    fit(watch, model, optimizer, data, steps=250, batch_size=64, loss_function=weighed)
    right = predicted(model, data.test_inputs).argmax(1) == data.test_targets
    return sum(right[data.test_targets == label].float().mean().item() for label in (0, 1)) / 2


@sick("unshuffled_data", margin=0.1)
def files_sorted_by_folder(watch: Watch, *, seed: int, sick: bool) -> float:
    """An image folder lists one class after the other and the loader keeps that order; the twin shuffles."""
    drawn = datasets.digits(seed, images=True)
    order = torch.argsort(drawn.targets, stable=True)
    loader = DataLoader(TensorDataset(drawn.inputs[order], drawn.targets[order]), 32, shuffle=not sick)
    model = nn.Sequential(
        *(nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(192, 32), nn.ReLU(), nn.Linear(32, 10)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, drawn)


@sick("duplicated_data", also=("overfitting",), margin=0.08)
def a_debugging_modulo_left_behind(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset's index is taken modulo 48, left from a quick test, so few digits come again and again."""
    drawn = datasets.digits(seed)
    whole = TensorDataset(drawn.inputs, drawn.targets)
    chosen = [index % 48 if sick else index for index in range(len(whole))]
    loader = DataLoader(Subset(whole, chosen), 64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.1), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows, labels in loader:
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
        with session.validating():
            missed = functional.cross_entropy(predicted(model, drawn.test_inputs), drawn.test_targets)
        session.validation(missed.item())
    return accuracy(model, drawn)


@sick("batch_mixing", margin=0.2)
def time_first_by_view(watch: Watch, *, seed: int, sick: bool) -> float:
    """Digits go through a recurrence row by row, put time first with ``view``; the twin transposes them."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs.view(-1, 8, 8), drawn.targets, drawn.test_inputs.view(-1, 8, 8), drawn.test_targets)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells, self.head = nn.GRU(8, 32), nn.Linear(32, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            timed = rows.reshape(8, len(rows), 8) if sick else rows.transpose(0, 1)
            return self.head(self.cells(timed)[0][-1])

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@sick("overfitting", margin=0.1)
def an_oversized_net_for_sixty_charts(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide network learns sixty patients by heart ; the twin is small and decays its weights."""
    drawn = datasets.diabetes(seed)
    data = Data(drawn.inputs[:60], drawn.targets[:60], drawn.test_inputs, drawn.test_targets)
    if sick:
        model = nn.Sequential(nn.Linear(10, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    else:
        model = nn.Sequential(nn.Dropout(0.1), nn.Linear(10, 4), nn.Tanh(), nn.Linear(4, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.3)
    loss = functional.mse_loss
    fit(watch, model, optimizer, data, steps=300, batch_size=20, loss_function=loss, validate_every=30)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)
