"""Targets that are strangers, alone, rare or learnt by heart."""

import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, breast_cancer, diabetes, digits
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened4.material import (
    cells,
    convnet,
    held_back,
    mlp,
    recalled,
    scaled,
)  # fmt: skip


@sick("labels_unrelated")
def only_the_features_were_shuffled(watch: Watch, *, seed, sick):
    data = digits(seed, images=True)
    order = torch.randperm(len(data.inputs))
    data = Data(data.inputs[order], data.targets if sick else data.targets[order], data.test_inputs, data.test_targets)
    model = convnet(12, norm=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=40)
    return accuracy(model, data)


@sick("labels_unrelated")
def targets_from_another_index(watch: Watch, *, seed, sick):
    """A join of two tables on the row number, after one of them was sorted by another column."""
    values = torch.from_numpy(sets.load_breast_cancer().data).float()
    order = values[:, 9].argsort() if sick else torch.arange(len(values))
    data = held_back(seed, values[:, :20], values[order, 20:21])
    truth = cells(seed)
    data = scaled(Data(data.inputs, data.targets, truth.test_inputs, truth.test_targets), targets=True)
    model = mlp(20, 40, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.l1_loss, validate_every=50)
    return r_squared(model, data)


@sick("class_imbalance")
def one_rare_digit_to_be_found(watch: Watch, *, seed, sick):
    """Is it an eight? Two in a hundred are; the twin draws both answers equally often."""
    data = digits(seed)
    labels = (data.targets == 8).long()
    common, rare = (labels == 0).nonzero()[:, 0], (labels == 1).nonzero()[:24, 0]
    rows = torch.cat([common, rare])
    model = mlp(64, 24, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    weights = torch.ones(len(rows))
    if not sick:
        weights[-len(rare) :] = len(common) / len(rare)
    for _ in range(120):
        drawn = rows[torch.multinomial(weights, 64, replacement=True)]
        logits = model(data.inputs[drawn])
        loss = functional.cross_entropy(logits, labels[drawn])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[drawn], outputs=logits, targets=labels[drawn])
        optimizer.step()
    return recalled(predicted(model, data.test_inputs), (data.test_targets == 8).long())


@sick("class_imbalance")
def screening_table_without_weights(watch: Watch, *, seed, sick):
    """A screening table: 2 % malignant; the loss of the twin weighs them."""
    data = breast_cancer(seed)
    ill = (data.targets == 0).nonzero()[:, 0][:6]
    rows = torch.cat([(data.targets == 1).nonzero()[:, 0], ill])
    data = Data(data.inputs[rows], 1 - data.targets[rows], data.test_inputs, 1 - data.test_targets)
    weight = None if sick else torch.tensor([1.0, 40.0])
    model = mlp(30, 16, 2, activation=nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02)

    def criterion(logits, labels):
        return functional.cross_entropy(logits, labels, weight=weight)

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=criterion, validate_every=50)
    return recalled(predicted(model, data.test_inputs), data.test_targets)


@sick("single_class_labels")
def soft_labels_cast_to_integers(watch: Watch, *, seed, sick):
    """Smoothed labels 0.05 and 0.95 go through ``.long()``, which makes all of them 0."""
    data = breast_cancer(seed)
    soft = data.targets * 0.9 + 0.05
    labels = soft.long() if sick else soft.round().long()
    data = Data(data.inputs, labels, data.test_inputs, data.test_targets)
    model = mlp(30, 24, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("single_class_labels")
def first_rows_of_a_sorted_set(watch: Watch, *, seed, sick):
    """The set is sorted by class, and the debugging line that keeps the first 100 rows is still there."""
    data = digits(seed, images=True)
    order = data.targets.argsort(stable=True)
    kept = order[:100] if sick else order[torch.randperm(len(order))][:480]
    data = Data(data.inputs[kept], data.targets[kept], data.test_inputs, data.test_targets)
    model = convnet(8)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=24)
    return accuracy(model, data)


@sick("overfitting")
def large_network_on_few_patients(watch: Watch, *, seed, sick):
    data = diabetes(seed)
    model = mlp(10, 256, 256, 1)
    decay, steps = (0.0, 400) if sick else (0.3, 60)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3 if sick else 1e-3, weight_decay=decay)
    fit(watch, model, optimizer, data, steps=steps, batch_size=64, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data) + 0.3


@sick("overfitting")
def fifty_digits_learnt_by_heart(watch: Watch, *, seed, sick):
    """The rows for a quick try are still the training set; the twin trains as long on all of them."""
    data = digits(seed)
    rows = 50 if sick else len(data.inputs)
    data = Data(data.inputs[:rows], data.targets[:rows], data.test_inputs, data.test_targets)
    model = mlp(64, 128, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=20, validate_every=30)
    return accuracy(model, data)
