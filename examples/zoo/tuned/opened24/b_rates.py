"""Rates, orders and limits: series, names and characters."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import fit, predicted, r_squared
from examples.zoo.tuned.opened24.b_sources import CharacterModel, Forecaster, load


@sick("learning_rate_too_high", also=("missing_warmup",), margin=0.05)
def a_tenth_for_adam_and_a_transformer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A causal transformer is trained by Adam with a rate of 0.1; the twin has 0.003."""
    data = datasets.text(seed, length=16)
    model = CharacterModel(length=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1 if sick else 3e-3)

    def loss_function(logits: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), following.flatten())

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("unshuffled_data", margin=0.05)
def lines_of_one_file_after_another(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of characters come file by file, as they were read, under ``shuffle=False``; the twin shuffles."""
    train, test = samples.standardised(samples.lines(seed), 0)
    order = train.tensors[1].argsort(stable=True)
    dataset = torch.utils.data.TensorDataset(*(column[order] for column in train.tensors))
    loader = torch.utils.data.DataLoader(dataset, batch_size=32, shuffle=not sick)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for counts, labels in loader:
            optimizer.zero_grad()
            outputs = model(counts)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=counts, outputs=outputs, targets=labels)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def a_norm_of_a_thousandth_under_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """A forecaster's gradients are clipped to a norm of 0.001 under SGD; the twin clips them to 1."""
    data = load(seed, length=16)
    model = Forecaster()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for windows, values in data.batches(32, 200):
        optimizer.zero_grad()
        outputs = model(windows)
        loss = functional.mse_loss(outputs, values)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=windows, outputs=outputs, targets=values)
        optimizer.step()
    return r_squared(model, data)
