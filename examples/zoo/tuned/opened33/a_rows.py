"""What is wrong with the rows of a training: their scale, their order and their number."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened33.a_parts import (
    Speller,
    centred,
    forever,
    loader,
    masks,
    of,
    of_characters,
    right,
    segmenter,
)


@sick(
    "inputs_not_normalized",
    also=("learning_rate_too_high", "dead_units", "exploding_gradients", "saturated_units"),
    margin=0.03,
)
def a_scaler_whose_result_is_lost(watch: Watch, *, seed: int, sick: bool) -> float:
    """The scaled table of tumours is computed, and the raw one, with areas of 1,000, is used; the twin uses it."""
    raw = samples.diagnoses(seed)
    scaled = samples.standardised(raw, 0)
    data = of(raw if sick else scaled)
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for rows, labels in forever(data, 32, 200):
        optimizer.zero_grad()
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("inputs_constant", margin=0.1)
def all_characters_are_unknown(watch: Watch, *, seed: int, sick: bool) -> float:
    """The vocabulary's keys are strings and codes are looked up, so all are unknown; the twin's keys are codes."""
    windows = datasets.text(seed, length=12)
    keys = {str(code) if sick else code: code for code in range(datasets.CHARACTERS - 1)}

    def known(codes: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[keys.get(code, datasets.CHARACTERS - 1) for code in row] for row in codes.tolist()])

    data = datasets.Data(known(windows.inputs), windows.targets, known(windows.test_inputs), windows.test_targets)
    model = Speller(40, nn.GRU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=32, loss_function=of_characters)
    return right(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def a_table_with_empty_cells(watch: Watch, *, seed: int, sick: bool) -> float:
    """A few cells of a table are empty and come as NaN; the twin puts the column's mean there."""
    data = datasets.diabetes(seed)
    empty = torch.rand(data.inputs.shape, generator=torch.Generator().manual_seed(seed)) < 0.01
    rows = torch.where(empty, torch.nan if sick else 0.0, data.inputs)
    data = datasets.Data(rows, data.targets, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(10, 16), nn.SiLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("overfitting", margin=0.05)
def a_wide_net_for_few_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net of 500,000 weights learns 330 patients by heart; the twin is small, with dropout and weight decay."""
    data = datasets.diabetes(seed)
    width = 700 if sick else 12
    model = nn.Sequential(nn.Linear(10, width), nn.ReLU(), nn.Dropout(0.0 if sick else 0.3))
    if sick:
        model.extend([nn.Linear(width, width), nn.ReLU()])
    model.append(nn.Linear(width, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3 if sick else 3e-3, weight_decay=0.0 if sick else 0.3)
    session = watch(model, optimizer)
    for _ in range(25):
        for rows, progress in loader(data, 32):
            outputs = model(rows)
            loss = functional.mse_loss(outputs, progress)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=progress)
            optimizer.step()
        session.validation(held_out_loss(model, data, functional.mse_loss))
    return r_squared(model, data)


@sick("class_imbalance", margin=0.1)
def few_pixels_to_be_found(watch: Watch, *, seed: int, sick: bool) -> float:
    """One pixel in 20 is bright and noise hides it, so none is found; the twin gives those more weight."""
    data = masks(seed, level=0.98, noise=0.7)
    share = data.targets.mean()
    model = segmenter(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    weight = None if sick else (1 - share) / share
    session = watch(model, optimizer)
    for images, wanted in forever(data, 32, 150):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.binary_cross_entropy_with_logits(logits, wanted, pos_weight=weight)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=wanted)
        optimizer.step()
    found, truth = predicted(model, data.test_inputs) > 0, data.test_targets > 0.5
    return ((found[truth].float().mean() + (~found[~truth]).float().mean()) / 2).item()


@sick("unshuffled_data", margin=0.03)
def one_file_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Six files' lines are joined and the loader keeps their order; the twin's loader shuffles."""
    pair = samples.standardised(samples.lines(seed), 0)
    data = of(pair)
    order = data.targets.argsort(stable=True)
    joined = TensorDataset(data.inputs[order], data.targets[order])
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    batches = DataLoader(joined, batch_size=32, shuffle=not sick)
    session = watch(model, optimizer)
    for _ in range(6):
        for counts, files in batches:
            optimizer.zero_grad()
            logits = model(counts)
            loss = functional.cross_entropy(logits, files)
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting", "unshuffled_data"), margin=0.03)
def always_the_first_of_the_loader(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` in each step begins anew, so the first batch comes always; the twin goes on."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    order = torch.randperm(len(data.inputs))
    ordered = TensorDataset(data.inputs[order], data.targets[order])
    batches = DataLoader(ordered, batch_size=32) if sick else loader(data, 32)
    following = iter(batches)
    session = watch(model, optimizer)
    for _ in range(160):
        if sick:
            images, labels = next(iter(batches))
        elif (batch := next(following, None)) is None:
            following = iter(batches)
            images, labels = next(following)
        else:
            images, labels = batch
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)
