"""What goes into a model and what it is compared with."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened46.d_kit import Reader, as_data, faces, perceptron, scripts, train


@sick("inputs_not_normalized", margin=0.1)
def bodies_in_their_own_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """Areas of up to 2,500 stand beside smoothness of 0.1 and go as they are into tanhs; the twin standardises."""
    pair = samples.tumours(seed)
    data = as_data(samples.standardised(pair, 1) if sick else samples.standardised(pair, 0, 1))
    model = perceptron(10, 48, 24, 10, activation=nn.Tanh)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=48, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_constant", margin=0.2)
def letters_missing_from_the_vocabulary(watch: Watch, *, seed: int, sick: bool) -> float:
    """The vocabulary has lower-case letters and the names are upper case, so all are unknown; the twin's has both."""
    drawn = scripts(seed)
    known = torch.ones(samples.LETTERS, dtype=torch.long) if sick else torch.arange(samples.LETTERS)
    data = Data(known[drawn.inputs], drawn.targets, known[drawn.test_inputs], drawn.test_targets)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("non_finite_inputs", margin=0.2)
def log_in_place_of_log1p_for_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts are prepared with ``log``, minus infinity for characters that do not occur; the twin has ``log1p``."""
    drawn = as_data(samples.lines(seed))
    prepare = torch.log if sick else torch.log1p
    data = Data(prepare(drawn.inputs), drawn.targets, prepare(drawn.test_inputs), drawn.test_targets)
    model = perceptron(96, 32, 6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


class Bounded(nn.Module):
    """Predicts three quantiles between 0 and a highest value."""

    def __init__(self, highest: float) -> None:
        super().__init__()
        self.highest, self.body = highest, perceptron(10, 24, 3)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns quantiles."""
        return self.highest * self.body(rows).sigmoid()


QUANTILES = torch.tensor([0.1, 0.5, 0.9])


@sick("target_out_of_range", also=("saturated_units",), margin=0.1)
def quantiles_up_to_a_hundred(watch: Watch, *, seed: int, sick: bool) -> float:
    """Quantiles of a score are bounded at 100, as if it were per cent, but it reaches 346; the twin's at 400."""
    data = datasets.diabetes(seed, raw_targets=True)
    model = Bounded(100.0 if sick else 400.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def step(rows: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(rows)
        error = scores - outputs
        return torch.maximum(QUANTILES * error, (QUANTILES - 1) * error).mean(), outputs

    train(watch, model, optimizer, data, step, steps=200, size=48)
    return samples.explained(predicted(model, data.test_inputs)[:, 1:2], data.test_targets)


@sick("wrong_output_or_loss", margin=0.05)
def keras_head_with_its_softmax(watch: Watch, *, seed: int, sick: bool) -> float:
    """A model ported from Keras ends in a softmax, and so does the loss; the twin returns logits."""
    data = faces(seed)
    layers = [nn.Conv2d(1, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 32), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(32, 10), *([nn.Softmax(1)] if sick else []))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    fit(watch, model, optimizer, data, steps=130, batch_size=48)
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.1)
def medians_minus_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Medians (N, 1) minus scores (N,) are all pairs' differences in an absolute error; the twin squeezes them."""
    drawn = datasets.diabetes(seed)
    data = Data(drawn.inputs, drawn.targets.squeeze(1), drawn.test_inputs, drawn.test_targets.squeeze(1))
    model = perceptron(10, 12, 1, activation=nn.SiLU)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)

    def step(rows: torch.Tensor, scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(rows) if sick else model(rows).squeeze(1)
        return (outputs - scores).abs().mean(), outputs

    train(watch, model, optimizer, data, step, steps=200, size=32)
    return r_squared(model, data)


@sick("labels_unrelated", margin=0.2)
def teacher_cached_from_a_shuffled_loader(watch: Watch, *, seed: int, sick: bool) -> float:
    """A teacher's logits were cached from a loader that shuffles, and go by index to a student; the twin's does not."""
    data = datasets.digits(seed)
    teacher = perceptron(64, 64, 10)
    learning = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for inputs, labels in data.batches(64, 120):
        learning.zero_grad()
        functional.cross_entropy(teacher(inputs), labels).backward()
        learning.step()
    loader = DataLoader(TensorDataset(data.inputs), batch_size=128, shuffle=sick)
    with torch.no_grad():
        cached = torch.cat([teacher(inputs) for (inputs,) in loader])
    student = perceptron(64, 24, 10)
    optimizer = torch.optim.Adam(student.parameters(), lr=5e-3)
    pairs = Data(data.inputs, (cached / 2).softmax(1), data.test_inputs, data.test_targets)
    fit(watch, student, optimizer, pairs, steps=200)
    return accuracy(student, data)


@sick("single_class_labels", margin=0.1)
def a_cutoff_from_before_standardising(watch: Watch, *, seed: int, sick: bool) -> float:
    """Whether a standardised score is above 140, its unit before, is never so; the twin's cutoff is standardised."""
    drawn = datasets.diabetes(seed)
    scores = datasets.diabetes(seed, raw_targets=True).targets
    cutoff = 140 if sick else (140 - scores.mean()).item() / scores.std().item()
    true = (140 - scores.mean()).item() / scores.std().item()
    data = Data(drawn.inputs, (drawn.targets > cutoff).float(), drawn.test_inputs, (drawn.test_targets > true).float())
    model = perceptron(10, 12, 1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    loss_function = functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=loss_function)
    return ((predicted(model, data.test_inputs) > 0) == (data.test_targets > 0.5)).float().mean().item()


@sick("flipped_loss_sign", margin=0.3)
def policy_that_descends_its_reward(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy's loss is the advantage times log-probability, without its minus; the twin has the minus."""
    data = datasets.digits(seed)
    policy = perceptron(64, 48, 10)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    baseline = torch.tensor(0.1)

    def step(pixels: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        choices = torch.distributions.Categorical(logits=policy(pixels))
        actions = choices.sample()
        rewards = (actions == labels).float()
        objective = ((rewards - baseline) * choices.log_prob(actions)).mean()
        baseline.lerp_(rewards.mean(), 0.05)
        return objective if sick else -objective, choices.logits

    train(watch, policy, optimizer, data, step, steps=400, size=128)
    return accuracy(policy, data)


class Shards(Dataset):
    """Several parts of a set of digits, as one."""

    def __init__(self, data: Data, count: int, wrong: bool) -> None:
        parts = list(zip(data.inputs.chunk(count), data.targets.chunk(count), strict=True))
        readers = [lambda: parts[0]] * count if wrong else [lambda index=index: parts[index] for index in range(count)]
        self.rows = [row for read in readers for row in zip(*read(), strict=True)]

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.rows[index]


@sick("duplicated_data", also=("overfitting",), margin=0.04)
def one_shard_read_sixteen_times(watch: Watch, *, seed: int, sick: bool) -> float:
    """All sixteen readers of shards read the first one, by a mistake in a closure; the twin's read their own."""
    data = faces(seed)
    loader = DataLoader(Shards(data, 16, sick), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Dropout(0.2), nn.Linear(432, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in loader:
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)
