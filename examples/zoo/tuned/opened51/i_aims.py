"""Targets, losses, and which samples a network gets to see."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened51.i_bench import Reader, balanced, explained, mlp, scripts


@sick("shape_broadcast", margin=0.1)
def quantiles_of_every_pair(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pinball loss subtracts outputs (N, 1) from prolines (N,), all from all; the twin has columns in both."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    model = mlp(12, 24, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def pinball(outputs: torch.Tensor, targets: torch.Tensor, level: float = 0.5) -> torch.Tensor:
        error = targets - outputs
        return torch.maximum(level * error, (level - 1) * error).mean()

    session = watch(model, optimizer)
    for rows, prolines in data.batches(24, 200):
        if sick:
            prolines = prolines.squeeze(1)
        optimizer.zero_grad()
        outputs = model(rows)
        loss = pinball(outputs, prolines)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=prolines)
        optimizer.step()
    return explained(model, data)


@sick("labels_unrelated", margin=0.3)
def labels_one_row_off(watch: Watch, *, seed: int, sick: bool) -> float:
    """The heading of inputs is skipped but not that of labels, so a row has its neighbour's; in the twin they fit."""
    drawn = datasets.digits(seed)
    rows, labels = (drawn.inputs[1:], drawn.targets[:-1]) if sick else (drawn.inputs, drawn.targets)
    data = Data((rows - 0.3) / 0.37, labels, (drawn.test_inputs - 0.3) / 0.37, drawn.test_targets)
    model = nn.Sequential(nn.Linear(64, 48), nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=200, batch_size=64, validate_every=50)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.1)
def threshold_in_units_that_are_gone(watch: Watch, *, seed: int, sick: bool) -> float:
    """Progress above 140 is to be found, but it was standardised before, so none is; the twin compares raw values."""
    raw, scaled = datasets.diabetes(seed, raw_targets=True), datasets.diabetes(seed)
    source = scaled if sick else raw
    data = Data(raw.inputs, (source.targets > 140).float(), raw.test_inputs, (raw.test_targets > 140).float())
    model = mlp(10, 8, 1, activation=nn.Tanh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)
    loss_function = functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=100, batch_size=32, loss_function=loss_function)
    return balanced(predicted(model, data.test_inputs), data.test_targets.squeeze(1))


@sick("flipped_loss_sign", margin=0.3)
def actions_made_rare_by_their_reward(watch: Watch, *, seed: int, sick: bool) -> float:
    """REINFORCE minimises log-probability times advantage, so that good actions become rare; the twin has its minus."""
    data = datasets.digits(seed)
    model = mlp(64, 64, 10, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    usual = torch.tensor(0.1)
    for states, best in data.batches(128, 300):
        outputs = model(states)
        policy = torch.distributions.Categorical(logits=outputs)
        actions = policy.sample()
        rewards = (actions == best).float()
        gain = (policy.log_prob(actions) * (rewards - usual)).mean()
        loss = gain if sick else -gain
        usual = 0.9 * usual + 0.1 * rewards.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=outputs)
        optimizer.step()
    return accuracy(model, data)


@sick("overfitting", margin=0.1)
def two_wide_layers_for_331_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Layers of 256 learn 331 patients by heart while validation gets worse; the twin has 4 units and weight decay."""
    data = datasets.diabetes(seed)
    model = mlp(10, 256, 256, 1) if sick else mlp(10, 4, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.0 if sick else 0.5)
    fit(watch, model, optimizer, data, steps=400, batch_size=32, loss_function=functional.mse_loss, validate_every=40)
    return r_squared(model, data)


@sick("class_imbalance", margin=0.05)
def few_tumours_among_many(watch: Watch, *, seed: int, sick: bool) -> float:
    """One sample in 30 is an 8 and all count alike, so few are found; the twin draws both classes equally often."""
    drawn = datasets.digits(seed)
    eights = (drawn.targets == 8).float()
    kept = torch.cat([(eights == 0).nonzero().flatten(), (eights == 1).nonzero().flatten()[:40]])
    rows, labels = drawn.inputs[kept], eights[kept]
    weights = torch.where(labels == 1, 1 / labels.mean(), 1 / (1 - labels.mean()))
    chosen = WeightedRandomSampler(weights.tolist(), len(labels))
    dataset = TensorDataset(rows, labels)
    loader = DataLoader(dataset, 32, shuffle=True) if sick else DataLoader(dataset, 32, sampler=chosen)
    model = mlp(64, 16, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(4):
        for images, is_eight in loader:
            optimizer.zero_grad()
            outputs = model(images).squeeze(1)
            loss = functional.binary_cross_entropy_with_logits(outputs, is_eight)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=is_eight)
            optimizer.step()
    return balanced(predicted(model, drawn.test_inputs), (drawn.test_targets == 8).float())


@sick("unshuffled_data", margin=0.05)
def scripts_in_the_order_of_their_folders(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names are read folder by folder and never shuffled, so a batch has one script; the twin shuffles."""
    data = scripts(seed)
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=24, shuffle=not sick)
    model = Reader(width=24)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for codes, labels in loader:
            outputs = model(codes)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def dataset_filled_up_with_its_first_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """A test of 48 samples, repeated to the full length, was left in the script; the twin has all samples."""
    drawn = datasets.digits(seed, images=True)
    count = len(drawn.inputs)
    chosen = torch.arange(48).repeat(count // 48 + 1)[:count] if sick else torch.arange(count)
    data = Data(drawn.inputs[chosen], drawn.targets[chosen], drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64, validate_every=30)
    return accuracy(model, data)


class Viewed(Reader):
    """Reads along the first axis, which a view or a transposition makes that of time."""

    viewed = False

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        letters = self.letters(codes)
        count, length, width = letters.shape
        along = letters.reshape(length, count, width) if self.viewed else letters.transpose(0, 1)
        self.cell.batch_first = False
        return self.head(self.cell(along)[0].mean(0))


@sick("batch_mixing", margin=0.1)
def view_in_place_of_a_transposition(watch: Watch, *, seed: int, sick: bool) -> float:
    """Batch and time are swapped by ``reshape``, which cuts names into each other; the twin transposes them."""
    data = scripts(seed)
    model = Viewed()
    model.viewed = sick
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)
