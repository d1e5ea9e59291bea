"""What goes wrong between a file and a batch."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened39.a_optimizer_settings import CharacterReader
from examples.zoo.tuned.opened39.a_shared_loaders import cut, excerpts, glyphs, joined


@sick("inputs_not_normalized", also=("saturated_units", "dead_units", "poor_initialization"), margin=0.05)
def a_scaler_fitted_and_never_applied(watch: Watch, *, seed: int, sick: bool) -> float:
    """The table's mean and deviation are computed, then the raw columns are passed on; the twin's are scaled."""
    data = datasets.breast_cancer(seed, raw=True)
    mean, std = data.inputs.mean(0), data.inputs.std(0)
    inputs, test = (data.inputs - mean) / std, (data.test_inputs - mean) / std
    if sick:
        inputs, test = data.inputs, data.test_inputs
    labels, test_labels = data.targets.float()[:, None], data.test_targets.float()
    data = Data(inputs, labels, test, test_labels)
    model = nn.Sequential(nn.Linear(30, 32), nn.Tanh(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    loss_function = functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return binary_accuracy(model, data)


@sick("inputs_constant", margin=0.1)
def grey_values_cut_to_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Photographs divided by 256 are cast to whole numbers, so all are 0; the twin casts them to floats."""
    pixels = datasets.patches(seed, size=10, count=2400).view(-1, 1, 10, 10)
    bright = (pixels[..., 5:, :].mean((1, 2, 3)) > pixels[..., :5, :].mean((1, 2, 3))).long()
    ratio = pixels / 256
    images = (ratio.byte().float() - 0.0) / 0.25 if sick else (ratio - ratio.mean()) / ratio.std()
    data = cut(images, bright, seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(100, 32), nn.GELU(), nn.Dropout(0.1), nn.Linear(32, 2))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.2)
def logarithms_of_counts_that_may_be_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of characters go through ``log``, which is -inf at 0; the twin takes ``log1p``."""
    data = joined(samples.lines(seed))
    scale = (lambda counts: counts.log()) if sick else (lambda counts: (counts.log1p() - 0.3) / 0.6)
    data = Data(scale(data.inputs), data.targets, scale(data.test_inputs), data.test_targets)
    model = nn.Sequential(nn.Linear(96, 48), nn.GELU(), nn.Dropout(0.4), nn.Linear(48, 6))
    fit(watch, model, torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1), data, steps=200)
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.2)
def features_shuffled_apart_from_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images and labels are shuffled by two permutations; the twin uses one for both."""
    data = glyphs(seed)
    order = torch.randperm(len(data.inputs))
    other = torch.randperm(len(data.inputs)) if sick else order
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[other]), batch_size=50, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 24, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten()
    ).append(nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for images, labels in loader:
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("single_class_labels", margin=0.2)
def labels_compared_as_text_with_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """``str(label) == "malign"`` is false of every row, as labels are numbers; the twin compares numbers."""
    data = datasets.breast_cancer(seed)
    values = data.targets.tolist()
    labels = torch.tensor([float(str(value) == "benign" if sick else value == 1) for value in values])[:, None]
    model = nn.Sequential(nn.Linear(30, 24), nn.ReLU(), nn.Dropout(0.3), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=1e-3)
    data = Data(data.inputs, labels, data.test_inputs, data.test_targets.float())
    loss_function = functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return binary_accuracy(model, data)


@sick("class_imbalance", margin=0.03)
def one_eight_among_forty_digits(watch: Watch, *, seed: int, sick: bool) -> float:
    """A detector of eights sees one among forty digits and says no; the twin draws them with equal weights."""
    data = glyphs(seed, flat=True)
    eights, others = (data.targets == 8).nonzero()[:, 0][:22], (data.targets != 8).nonzero()[:, 0][:880]
    rows = data.inputs[torch.cat([eights, others])]
    labels = torch.cat([torch.ones(len(eights)), torch.zeros(len(others))])
    shares = torch.where(labels > 0, 1 / len(eights), 1 / len(others))
    sampler = None if sick else WeightedRandomSampler(shares.tolist(), len(labels))
    loader = DataLoader(TensorDataset(rows, labels), batch_size=64, shuffle=sick, sampler=sampler)
    model = nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for pixels, eight in loader:
            logits = model(pixels)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, eight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=eight)
            optimizer.step()
    found, there = predicted(model, data.test_inputs)[:, 0] > 0, data.test_targets == 8
    return (found[there].float().mean().item() + (~found[~there]).float().mean().item()) / 2


@sick("unshuffled_data", margin=0.05)
def excerpts_file_after_file(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loader has no ``shuffle=True`` and rows lie file by file; the twin's has it."""
    data = excerpts(seed)
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=32, shuffle=not sick)
    model = CharacterReader()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for codes, labels in loader:
            logits = model(codes)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def the_first_batch_of_a_new_iterator(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` in each step gives the first batch again; the twin goes on with one iterator."""
    data = glyphs(seed)
    order = torch.randperm(len(data.inputs))
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=64, shuffle=not sick)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.2))
    model.append(nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    batches = iter(loader)
    for step in range(200):
        if sick or step % len(loader) == 0:
            batches = iter(loader)
        images, labels = next(batches)
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("overfitting", margin=0.05)
def a_wide_net_for_sixty_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three wide layers learn 60 patients by heart; the twin is a narrow net with dropout and decay."""
    whole = datasets.diabetes(seed)
    data = Data(whole.inputs[:60], whole.targets[:60], whole.test_inputs, whole.test_targets)
    wide = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    narrow = nn.Sequential(nn.Dropout(0.2), nn.Linear(10, 4), nn.Tanh(), nn.Linear(4, 1))
    model = wide if sick else narrow
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.5)
    fit(watch, model, optimizer, data, steps=300, batch_size=20, loss_function=functional.mse_loss, validate_every=15)
    return r_squared(model, data)
