"""Sound trainings whose losses, labels or sampling are out of the ordinary."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted, r_squared


@healthy(at_least=0.88)
def rare_digits_drawn_as_often_as_others(watch: Watch, *, seed: int) -> float:
    """Five digits have a tenth of the rows, and a sampler draws classes evenly. Quality: the mean of recalls."""
    data = datasets.digits(seed)
    kept = (data.targets < 5) | (torch.arange(len(data.targets)) % 8 == 0)
    rows = TensorDataset(data.inputs[kept], data.targets[kept])
    weights = 1 / rows.tensors[1].bincount(minlength=10)[rows.tensors[1]]
    loader = DataLoader(rows, batch_size=64, sampler=WeightedRandomSampler(weights.tolist(), 1000))
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(15):
        for pixels, labels in loader:
            logits = model(pixels)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=labels)
            optimizer.step()
    right = predicted(model, data.test_inputs).argmax(1) == data.test_targets
    return torch.stack([right[data.test_targets == digit].float().mean() for digit in range(10)]).mean().item()


@healthy(at_least=0.75)
def focal_loss_for_one_digit_of_ten(watch: Watch, *, seed: int) -> float:
    """Is it an eight? A focal loss with alpha 0.75. Quality: F1."""
    data = datasets.digits(seed)
    eight, test_eight = (data.targets == 8).float()[:, None], (data.test_targets == 8).float()[:, None]

    def focal(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        entropy = functional.binary_cross_entropy_with_logits(logits, labels, reduction="none")
        missed = (labels - logits.sigmoid()).abs()
        return ((0.25 + 0.5 * labels) * missed.square() * entropy).mean()

    data = datasets.Data(data.inputs, eight, data.test_inputs, test_eight)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=250, loss_function=focal)
    found = predicted(model, data.test_inputs) > 0
    return (2 * (found * test_eight).sum() / (found.sum() + test_eight.sum())).item()


@healthy(at_least=0.92)
def smoothed_labels_of_mixed_digits(watch: Watch, *, seed: int) -> float:
    """Mixup and label smoothing: the loss ends far above zero, and is right to."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    share = torch.distributions.Beta(0.4, 0.4)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 260):
        mix, other = share.sample(), torch.randperm(len(pixels))
        mixed = mix * pixels + (1 - mix) * pixels[other]
        wanted = mix * functional.one_hot(labels, 10) + (1 - mix) * functional.one_hot(labels[other], 10)
        logits = model(mixed)
        loss = functional.cross_entropy(logits, wanted, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=mixed, outputs=logits, targets=wanted)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.25)
def progress_with_noise_that_nobody_can_explain(watch: Watch, *, seed: int) -> float:
    """A ridge of a diabetes' progress: half of the variance is beyond these features, and the loss stays at it."""
    data = datasets.diabetes(seed)
    model = nn.Linear(10, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=nn.MSELoss())
    return r_squared(model, data)


@healthy(at_least=0.4)
def huber_for_amounts_of_which_some_are_mistyped(watch: Watch, *, seed: int) -> float:
    """Five in a hundred amounts have a digit too many, and Huber's loss lets them pass."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    features, amounts = train.tensors
    amounts = amounts.clone()
    amounts[::20] = amounts[::20] * 10 + 5
    model = nn.Linear(12, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)
    for _ in range(35):
        for x, y in DataLoader(TensorDataset(features, amounts), batch_size=32, shuffle=True):
            guess = model(x)
            loss = functional.huber_loss(guess, y, delta=0.5)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=guess, targets=y)
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@healthy(at_least=0.9)
def pairs_of_views_under_info_nce(watch: Watch, *, seed: int) -> float:
    """SimCLR on digits with noise and dropped pixels. Quality: the nearest neighbour's label on the features."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 48))
    model = nn.Sequential(body, nn.ReLU(), nn.Linear(48, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def view(pixels: torch.Tensor) -> torch.Tensor:
        return (pixels + 0.15 * torch.randn_like(pixels)) * (torch.rand_like(pixels) > 0.2)

    session = watch(model, optimizer)
    for pixels, _ in data.batches(96, 200):
        codes = functional.normalize(model(torch.cat([view(pixels), view(pixels)])), dim=1)
        likeness = (codes @ codes.T / 0.2).masked_fill(torch.eye(len(codes), dtype=torch.bool), -math.inf)
        loss = functional.cross_entropy(likeness, torch.arange(len(codes)).roll(len(pixels)))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    known, asked = (functional.normalize(predicted(body, part), dim=1) for part in (data.inputs, data.test_inputs))
    return (data.targets[(asked @ known.T).argmax(1)] == data.test_targets).float().mean().item()


@healthy(at_least=0.85)
def two_tasks_that_learn_their_weights(watch: Watch, *, seed: int) -> float:
    """A digit's class and how much ink it has, with uncertainties as weights: the loss falls below zero."""
    data = datasets.digits(seed)
    ink = data.inputs.mean(1, keepdim=True)
    ink_mean, ink_std = ink.mean(), ink.std()
    model = nn.ModuleDict(
        {"body": nn.Sequential(nn.Linear(64, 64), nn.ReLU()), "digit": nn.Linear(64, 10), "ink": nn.Linear(64, 1)}
    )
    model.register_parameter("logs", nn.Parameter(torch.zeros(2)))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 300):
        hidden = model["body"](pixels)
        entropy = functional.cross_entropy(model["digit"](hidden), labels)
        error = functional.mse_loss(model["ink"](hidden), (pixels.mean(1, keepdim=True) - ink_mean) / ink_std)
        loss = (-model.logs).exp() @ torch.stack([entropy, 0.5 * error]) + 0.5 * model.logs.sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model["digit"](model["body"](data.test_inputs)), data.test_targets)
