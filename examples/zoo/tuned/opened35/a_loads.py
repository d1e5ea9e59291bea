"""What goes wrong while data is read, cleaned, scaled and put into batches."""

from collections.abc import Iterator

import numpy as np
import torch
from sklearn.datasets import load_breast_cancer
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened35.a_common import Spelling, excerpts, images, joined, seeing


@sick("inputs_not_normalized", also=("inputs_constant", "learning_rate_too_low"), margin=0.05)
def divided_by_255_once_more(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ToTensor`` has divided by 255 already, and then the loop does so too; the twin leaves it to the first."""
    train, test = samples.scenes(seed)
    least, most = train.tensors[0].min(), train.tensors[0].max()
    pixels, held_out = ((one.tensors[0] - least) / (most - least) for one in (train, test))
    data = Data(pixels, train.tensors[1], held_out, test.tensors[1])
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 2)
    )
    scale = 255.0 if sick else 1.0
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for batch, labels in data.batches(32, 200):
        batch = batch / scale
        optimizer.zero_grad()
        logits = model(batch)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=batch, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, Data(data.inputs, data.targets, data.test_inputs / scale, data.test_targets))


@sick("inputs_constant", margin=0.2)
def no_letter_is_in_the_vocabulary(watch: Watch, *, seed: int, sick: bool) -> float:
    """The vocabulary's keys are texts, and numbers are looked up, so all are unknown; the twin's are numbers."""
    drawn = excerpts(seed, length=60)
    vocabulary = {str(code) if sick else code: code for code in range(1, 97)}

    def encoded(rows: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[vocabulary.get(code, 0) for code in row] for row in rows.tolist()])

    data = Data(encoded(drawn.inputs), drawn.targets, encoded(drawn.test_inputs), drawn.test_targets)
    model = Spelling()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48, validate_every=40)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.2)
def logarithms_of_counts(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of characters become their logarithms, and most counts are 0; the twin adds 1 before."""
    drawn = joined(samples.lines(seed))
    train, test = ((one if sick else one + 1).log() for one in (drawn.inputs, drawn.test_inputs))
    data = Data(train, drawn.targets, test, drawn.test_targets)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.1)
def rows_dropped_from_the_features_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows with small tumours are dropped, but not their labels, which slip by more and more; the twin drops both."""
    values, labels = load_breast_cancer(return_X_y=True)
    chosen = np.random.default_rng(seed).permutation(len(values))
    values, labels = values[chosen], labels[chosen]
    train, train_labels = values[:400], labels[:400]
    kept = train[:, 0] > 10
    train, train_labels = train[kept], train_labels[: kept.sum()] if sick else train_labels[kept]
    mean, std = train.mean(0), train.std(0)
    scaled = (torch.from_numpy((one - mean) / std).float() for one in (train, values[400:]))
    dataset = TensorDataset(next(scaled), torch.from_numpy(train_labels))
    held_out, truth = next(scaled), torch.from_numpy(labels[400:])
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    for _ in range(18):
        for features, wanted in DataLoader(dataset, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(features)
            loss = functional.cross_entropy(outputs, wanted)
            loss.backward()
            session.step(loss, inputs=features, outputs=outputs, targets=wanted)
            optimizer.step()
    return samples.accuracy(predicted(model, held_out), truth)


@sick("single_class_labels", margin=0.2)
def sorted_wines_split_without_a_shuffle(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first 40 of the sorted wines are taken to train on, and all are of one grower; the twin draws them all."""
    drawn = datasets.wine(seed)
    order = drawn.targets.argsort(stable=True) if sick else torch.randperm(len(drawn.targets))
    chosen = order[:40] if sick else order
    data = Data(drawn.inputs[chosen], drawn.targets[chosen], drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=150, batch_size=20)
    return accuracy(model, data)


@sick("class_imbalance", margin=0.05)
def one_eight_in_fifty(watch: Watch, *, seed: int, sick: bool) -> float:
    """One noisy digit in fifty is an eight, and counts as much as any other; the twin weighs eights by thirty."""
    drawn = images(seed, noise=0.6)
    eights, others = (((drawn.targets == 8) == eight).nonzero()[:, 0] for eight in (True, False))
    chosen = torch.cat([others, eights[: len(others) // 50]])
    test = (drawn.test_targets == 8).float()[:, None]
    data = Data(drawn.inputs[chosen], (drawn.targets[chosen] == 8).float()[:, None], drawn.test_inputs, test)
    model = nn.Sequential(seeing(16, width=8), nn.ReLU(), nn.Dropout(0.4), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        weight = None if sick else torch.tensor(30.0)
        return functional.binary_cross_entropy_with_logits(outputs, targets, pos_weight=weight)

    fit(watch, model, optimizer, data, steps=200, batch_size=64, loss_function=loss_function)
    found = predicted(model, data.test_inputs) > 0
    return ((found[test > 0.5]).float().mean() + (~found[test < 0.5]).float().mean()).item() / 2


@sick("unshuffled_data", margin=0.05)
def one_file_after_another(watch: Watch, *, seed: int, sick: bool) -> float:
    """Excerpts come file by file, as they were read; the twin's loader shuffles."""
    data = excerpts(seed, length=60)
    order = data.targets.argsort(stable=True)
    dataset = TensorDataset(data.inputs[order], data.targets[order])
    model = Spelling()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for characters, labels in DataLoader(dataset, batch_size=32, shuffle=not sick):
            optimizer.zero_grad()
            logits = model(characters)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=characters, outputs=logits, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting", "unshuffled_data"), margin=0.1)
def the_next_of_a_new_iterator(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` begins anew in each step, so the first batch comes always; the twin keeps an iterator."""
    data = images(seed)
    dataset = TensorDataset(data.inputs, data.targets)
    loader = DataLoader(dataset, batch_size=32, shuffle=not sick)
    model = seeing(10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    session = watch(model, optimizer)

    def endless() -> Iterator[list[torch.Tensor]]:
        while True:
            yield from loader

    batches = endless()
    for step in range(1, 169):
        pixels, labels = next(iter(loader)) if sick else next(batches)
        optimizer.zero_grad()
        logits = model(pixels)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
        if step % 42 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("overfitting", margin=0.03)
def noise_that_is_drawn_once(watch: Watch, *, seed: int, sick: bool) -> float:
    """Noise is added to 150 digits before the training, and learned by heart; the twin draws it anew in each batch."""
    drawn, spoilt = images(seed), images(seed, noise=1.5)
    data = Data(drawn.inputs[:150], drawn.targets[:150], spoilt.test_inputs, spoilt.test_targets)
    once = data.inputs + 1.5 * torch.randn_like(data.inputs)
    source = Data(once if sick else data.inputs, data.targets, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for step, (pixels, labels) in enumerate(source.batches(32, 300), 1):
        noisy = pixels if sick else pixels + 1.5 * torch.randn_like(pixels)
        optimizer.zero_grad()
        logits = model(noisy)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=noisy, outputs=logits, targets=labels)
        optimizer.step()
        if step % 25 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)
