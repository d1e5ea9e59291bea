"""Regressions and classifiers of tables."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, binary_accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened40.b_provisions import benign, paired, styles, vintages, worst


@sick("shape_broadcast", also=("wrong_output_or_loss",), margin=0.2)
def weights_of_rows_and_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors (N,) of a squeezed output against targets (N, 1) become (N, N); the twin squeezes both."""
    data = vintages(seed)
    model = nn.Sequential(nn.Linear(12, 12), nn.SiLU(), nn.Linear(12, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for rows, proline in data.batches(24, 150):
        targets = proline if sick else proline.squeeze(-1)
        outputs = model(rows).squeeze(-1)
        loss = (outputs - targets).square().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("target_out_of_range", also=("wrong_output_or_loss", "dead_units"), margin=0.1)
def a_last_relu_for_standardised_sizes(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last layer has a ReLU as "sizes are positive", but they are standardised; the twin's is linear."""
    data = worst(seed)
    layers: list[nn.Module] = [nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 10)]
    model = nn.Sequential(*layers, *([nn.ReLU()] if sick else []))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_not_normalized", also=("exploding_gradients", "dead_units", "learning_rate_too_high"), margin=0.1)
def measurements_as_they_were_taken(watch: Watch, *, seed: int, sick: bool) -> float:
    """Areas up to 2,500 stand beside smoothness below 0.2, as they were measured; the twin standardises columns."""
    pair = samples.diagnoses(seed)
    data = paired(pair if sick else samples.standardised(pair, 0))
    model = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 16), nn.ReLU(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.3)
def logarithms_of_counts(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of characters, most of them 0, pass ``log``; the twin takes ``log1p``."""
    data = paired(samples.lines(seed))
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    compress = torch.log if sick else torch.log1p
    known = Data(compress(data.inputs), data.targets, compress(data.test_inputs), data.test_targets)
    fit(watch, model, optimizer, known, steps=200)
    return accuracy(model, known)


@sick("labels_unrelated", also=("overfitting",), margin=0.1)
def features_sampled_without_their_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """The table's features are shuffled in front of the training and its labels are not; the twin shuffles both."""
    data = styles(seed)
    order = torch.randperm(len(data.inputs))
    loader = DataLoader(
        TensorDataset(data.inputs[order], data.targets if sick else data.targets[order]), batch_size=64, shuffle=True
    )
    model = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for rows, files in loader:
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, files)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=files)
            optimizer.step()
        session.validation(functional.cross_entropy(predicted(model, data.test_inputs), data.test_targets).item())
    return accuracy(model, data)


@sick("single_class_labels", margin=0.1)
def every_string_is_true(watch: Watch, *, seed: int, sick: bool) -> float:
    """Labels come as "0" and "1" from a file, and ``bool`` takes both for true; the twin compares them with "1"."""
    data = benign(seed)
    column = [str(int(label)) for label in data.targets.tolist()]
    labels = [bool(value) for value in column] if sick else [value == "1" for value in column]
    read = Data(data.inputs, torch.tensor(labels).float()[:, None], data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(
        watch, model, optimizer, read, steps=120, batch_size=32,
        loss_function=functional.binary_cross_entropy_with_logits,
    )  # fmt: skip
    return binary_accuracy(model, data)


@sick("overfitting", margin=0.05)
def a_wide_network_for_forty_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three wide layers learn 40 patients by heart for 300 steps; the twin is linear, decays, and has them all."""
    whole = datasets.diabetes(seed)
    rows = 40 if sick else len(whole.inputs)
    data = Data(whole.inputs[:rows], whole.targets[:rows], whole.test_inputs, whole.test_targets)
    wide = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    model = wide if sick else nn.Sequential(nn.Linear(10, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3 if sick else 2e-2, weight_decay=0.01)
    fit(
        watch, model, optimizer, data, steps=300, batch_size=20 if sick else 64,
        loss_function=functional.mse_loss, validate_every=10,
    )  # fmt: skip
    return r_squared(model, data)


@sick("wrong_mode", also=("inputs_not_normalized",), margin=0.05)
def a_sanity_check_before_training(watch: Watch, *, seed: int, sick: bool) -> float:
    """A validation in front of the loop leaves BatchNorm in eval mode, and raw inputs pass; the twin ends that."""
    data = datasets.wine(seed, raw=True)
    model = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)

    def validate() -> None:
        model.eval()
        with torch.no_grad(), session.validating():
            session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
        if not sick:
            model.train()

    validate()
    for step, (rows, sorts) in enumerate(data.batches(32, 160), 1):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, sorts)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=sorts)
        optimizer.step()
        if step % 40 == 0:
            validate()
    return accuracy(model, data)


@sick("class_imbalance", margin=0.05)
def one_rare_file_among_six(watch: Watch, *, seed: int, sick: bool) -> float:
    """One row in 25 is of the file that is looked for, and nearly none is called so; the twin samples both alike."""
    train, test = (part.tensors for part in samples.standardised(samples.lines(seed), 0))
    wanted, test_wanted = (train[1] == 3).float(), (test[1] == 3).float()
    kept = torch.cat([torch.nonzero(wanted == 0)[:, 0], torch.nonzero(wanted)[:36, 0]])
    rows, labels = train[0][kept], wanted[kept][:, None]
    weights = torch.ones(len(labels)) if sick else torch.where(labels[:, 0] > 0, 24.0, 1.0)
    model = nn.Sequential(nn.Dropout(0.3), nn.Linear(96, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.2)
    session = watch(model, optimizer)
    for _ in range(200):
        chosen = torch.multinomial(weights, 64, replacement=True)
        outputs = model(rows[chosen])
        loss = functional.binary_cross_entropy_with_logits(outputs, labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[chosen], outputs=outputs, targets=labels[chosen])
        optimizer.step()
    right = (predicted(model, test[0])[:, 0] > 0) == (test_wanted > 0)
    return sum(right[test_wanted == value].float().mean().item() for value in (0, 1)) / 2
