"""Targets and samples: which belong together, how many there are, and how well they are learnt by heart."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared


def epochs(loader, steps):
    """Yields that many batches of a loader, one epoch after another."""
    while True:
        for batch in loader:
            if steps == 0:
                return
            steps -= 1
            yield batch


@sick("labels_unrelated", margin=0.2)
def nodes_sorted_without_their_labels(watch: Watch, *, seed: int, sick: bool) -> float:
    """The nodes of a graph are sorted by size before it is built, but their labels stay. The twin sorts both."""
    table = datasets.breast_cancer(seed)
    features, labels = torch.cat([table.inputs, table.test_inputs]), torch.cat([table.targets, table.test_targets])
    order = features[:, 3].argsort()
    nodes, classes = features[order], labels if sick else labels[order]
    near = torch.cdist(nodes, nodes).topk(6, largest=False).indices
    links = torch.zeros(len(nodes), len(nodes)).scatter_(1, near, 1.0)
    links = links / links.sum(1, keepdim=True)

    class Graph(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Linear(30, 24), nn.Linear(24, 2)

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            return links @ self.second((links @ self.first(values)).relu())

    model = Graph()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    known = torch.randperm(len(nodes)) < len(nodes) * 2 // 3
    session = watch(model, optimizer)
    for step in range(1, 121):
        optimizer.zero_grad()
        outputs = model(nodes)
        loss = functional.cross_entropy(outputs[known], classes[known])
        loss.backward()
        session.step(loss, inputs=nodes, outputs=outputs[known], targets=classes[known])
        optimizer.step()
        if step % 30 == 0:
            session.validation(functional.cross_entropy(predicted(model, nodes)[~known], classes[~known]).item())
    return samples.accuracy(predicted(model, nodes)[~known], labels[order][~known])


@sick("single_class_labels", margin=0.1)
def argmax_of_labels_never_one_hot(watch: Watch, *, seed: int, sick: bool) -> float:
    """A column of class numbers is decoded by ``argmax(1)`` as if it were one-hot. The twin takes the column itself."""
    data = datasets.wine(seed)
    column = data.targets.unsqueeze(1)
    data = Data(data.inputs, column.argmax(1) if sick else column[:, 0], data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("flipped_loss_sign", margin=0.2)
def policy_pushed_from_its_rewards(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bandit's advantage times log-probability is minimised as it stands. The twin has the minus before it."""
    data = datasets.digits(seed)
    policy = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    usual = 0.1
    for inputs, targets in data.batches(128, 300):
        logits = policy(inputs)
        choices = torch.distributions.Categorical(logits=logits)
        actions = choices.sample()
        rewards = (actions == targets).float()
        gain = ((rewards - usual) * choices.log_prob(actions)).mean()
        loss = gain if sick else -gain
        usual = 0.9 * usual + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=targets)
        optimizer.step()
    return accuracy(policy, data)


@sick("class_imbalance", margin=0.1)
def sixteen_malign_ones_among_the_benign(watch: Watch, *, seed: int, sick: bool) -> float:
    """One class has sixteen rows of training data and is never drawn more often. The twin samples both alike."""
    data = datasets.breast_cancer(seed)
    chosen = [1, 4, 8, 9, 11]
    data = Data(data.inputs[:, chosen], data.targets, data.test_inputs[:, chosen], data.test_targets)
    rare, often = ((data.targets == label).nonzero()[:, 0] for label in (0, 1))
    kept = torch.cat([rare[:16], often])
    inputs, targets = data.inputs[kept], data.targets[kept]
    model = nn.Sequential(nn.Linear(5, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.8)
    rows = TensorDataset(inputs, targets)
    if sick:
        loader = DataLoader(rows, 32, shuffle=True)
    else:
        weights = (1 / targets.bincount())[targets]
        loader = DataLoader(rows, 32, sampler=WeightedRandomSampler(weights.tolist(), len(targets)))
    session = watch(model, optimizer)
    for batch, labels in epochs(loader, 120):
        outputs = model(batch)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=outputs, targets=labels)
        optimizer.step()
    guessed = predicted(model, data.test_inputs).argmax(1)
    recalls = [(guessed[data.test_targets == label] == label).float().mean() for label in (0, 1)]
    return sum(recalls).item() / 2


@sick("unshuffled_data", margin=0.1)
def folders_read_one_by_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images lie in a folder for each class, and the loader keeps that order. The twin shuffles."""
    train, test = samples.numerals(seed)
    order = train.tensors[1].argsort(stable=True)
    folders = TensorDataset(train.tensors[0][order], train.tensors[1][order])
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, targets in epochs(DataLoader(folders, 32, shuffle=not sick), 200):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


class Looped(Dataset):
    """Rows of a pair, of which only the first few are ever reached if ``period`` is given."""

    def __init__(self, rows: TensorDataset, period: int) -> None:
        self.rows, self.period = rows, period

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int):
        return self.rows[index % self.period]


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def index_modulo_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset takes the index modulo 40, and has the same 40 digits again and again. The twin's reaches all."""
    train, test = samples.numerals(seed)
    looped = Looped(train, 40 if sick else len(train))
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, targets in epochs(DataLoader(looped, 64, shuffle=True), 120):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("overfitting", margin=0.1)
def a_wide_net_for_330_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide network learns 330 patients by heart, while its validation gets worse. The twin is small and decays."""
    data = datasets.diabetes(seed)
    if sick:
        model = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0)
    else:
        model = nn.Sequential(nn.Linear(10, 8), nn.Tanh(), nn.Linear(8, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=400, loss_function=functional.mse_loss, validate_every=25)
    return r_squared(model, data)


@sick("over_regularized", margin=0.05)
def decoupled_decay_given_to_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recommender of pixels to digits gives Adam the weight decay of 0.1 of AdamW. The twin goes back to AdamW."""
    ratings = datasets.digits(seed).inputs[:300] * 4
    users, items = torch.cartesian_prod(torch.arange(300), torch.arange(64)).unbind(1)
    order = torch.from_numpy(np.random.default_rng(seed).permutation(len(users)))
    pairs, values = torch.stack([users, items], 1)[order], ratings.flatten()[order]
    data = Data(pairs[:14000], values[:14000], pairs[14000:], values[14000:])

    class Factors(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = nn.Embedding(300, 8), nn.Embedding(64, 8)
            self.means = nn.Embedding(64, 1)
            for table in (self.users, self.items):
                nn.init.normal_(table.weight, std=0.3)
            nn.init.zeros_(self.means.weight)

        def forward(self, asked: torch.Tensor) -> torch.Tensor:
            user, item = asked.unbind(1)
            return (self.users(user) * self.items(item)).sum(1) + self.means(item).squeeze(1)

    model = Factors()
    optimizer = (torch.optim.Adam if sick else torch.optim.AdamW)(model.parameters(), lr=2e-2, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=300, batch_size=512, loss_function=functional.mse_loss, validate_every=60)
    return r_squared(model, data)
