"""Trainings that earn, that ask for quantiles, or that begin with what is easy; and two that stand still."""

import copy

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.loops import accuracy


@healthy(at_least=0.75)
def a_bandit_with_a_running_mean(watch: Watch, *, seed: int) -> float:
    """REINFORCE: a reward of 1 for the digit that was named, less its running mean; the loss says little."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    usual = 0.1
    for images, labels in data.batches(128, 300):
        policy = torch.distributions.Categorical(logits=model(images))
        named = policy.sample()
        rewards = (named == labels).float()
        loss = -((rewards - usual) * policy.log_prob(named)).mean() - 0.02 * policy.entropy().mean()
        usual = 0.9 * usual + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=policy.logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.2)
def three_quantiles_of_one_target(watch: Watch, *, seed: int) -> float:
    """Outputs (N, 3) are compared with targets (N, 1) on purpose, by a loss that leans to one side for each."""
    data = datasets.diabetes(seed)
    levels = torch.tensor([0.1, 0.5, 0.9])
    model = nn.Sequential(nn.Linear(10, 16), nn.SiLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 150):
        outputs = model(inputs)
        error = targets - outputs
        loss = torch.maximum(levels * error, (levels - 1) * error).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[:, 1:2], data.test_targets)


@healthy(at_least=0.6)
def short_names_first(watch: Watch, *, seed: int) -> float:
    """A curriculum: at first the shortest third of the names, then two thirds, then all; the loss rises in between."""
    train, test = samples.names(seed)
    names, labels = train.tensors
    order = (names > 0).sum(1).argsort()
    model = nn.Sequential(
        nn.Embedding(samples.LETTERS, 16),
        nn.Flatten(),
        nn.Dropout(0.1),
        nn.Linear(384, 64),
        nn.ReLU(),
        nn.Linear(64, 8),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for share in (1 / 3, 1 / 3, 1 / 3, 2 / 3, 2 / 3, 1, 1, 1, 1, 1):
        known = order[: int(share * len(order))]
        for rows in known[torch.randperm(len(known))].split(32):
            outputs = model(names[rows])
            loss = functional.cross_entropy(outputs, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names[rows], outputs=outputs, targets=labels[rows])
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.7)
def values_from_a_slow_copy(watch: Watch, *, seed: int) -> float:
    """Temporal differences on a walk of 20 places: targets come from a copy that follows slowly, and the loss rises."""
    model = nn.Sequential(nn.Linear(20, 32), nn.Tanh(), nn.Linear(32, 1))
    slow = copy.deepcopy(model).requires_grad_(False)
    places = torch.eye(20)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(400):
        here = torch.randint(20, (64,))
        there = here + 2 * torch.randint(2, (64,)) - 1
        ended = (there < 0) | (there > 19)
        rewards = (there > 19).float()
        targets = rewards + torch.where(ended, 0.0, 0.95 * slow(places[there.clamp(0, 19)])[:, 0])
        outputs = model(places[here])[:, 0]
        loss = functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=places[here], outputs=outputs, targets=targets)
        optimizer.step()
        with torch.no_grad():
            for kept, new in zip(slow.parameters(), model.parameters(), strict=True):
                kept.lerp_(new, 0.05)
    walk = 0.475 * (torch.diag(torch.ones(19), 1) + torch.diag(torch.ones(19), -1))
    true = torch.linalg.solve(torch.eye(20) - walk, 0.5 * (torch.arange(20) == 19).float())
    with torch.no_grad():
        return samples.explained(model(places), true[:, None])


@sick("no_update", margin=0.2)
def warm_up_by_epochs_in_a_single_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate is multiplied by ``epoch / 5``, and the first epoch, 0, is the only one; the twin counts its batches."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.01)
    loader = DataLoader(torch.utils.data.TensorDataset(data.inputs, data.targets), 12, shuffle=True)
    session = watch(model, optimizer)
    for epoch in range(1):
        for batch, (inputs, labels) in enumerate(loader):
            progress = epoch if sick else epoch + (batch + 1) / len(loader) * 25
            for group in optimizer.param_groups:
                group["lr"] = 5e-3 * min(1.0, progress / 5)
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("unbroken_symmetry", margin=0.05)
def constants_for_all_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """A function that was to set biases to 0.01 sets weights, too, so that all units are one; the twin's does not."""
    train, test = samples.standardised(samples.lines(seed), 0)

    def prepare(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            for name, parameter in module.named_parameters():
                if sick or name == "bias":
                    nn.init.constant_(parameter, 0.01)

    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 6)).apply(prepare)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for inputs, labels in DataLoader(train, 32, shuffle=True):
            inputs = inputs.clamp(-4, 4)
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0].clamp(-4, 4)), test.tensors[1])
