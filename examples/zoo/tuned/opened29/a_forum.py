"""What is asked in PyTorch's forum, and what TrainCheck collected: silent mistakes of loops and of their data."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, IterableDataset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened29.a_stock import advance, drawn, judged


@sick("shape_broadcast", margin=0.1)
def pinball_of_a_column_and_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hand-written pinball loss subtracts a column (N, 1) from targets (N,); the twin squeezes it. Quality: R²."""
    (rows, truth), (test, test_truth) = (part.tensors for part in samples.standardised(samples.proline(seed), 0, 1))
    truth, test_truth = truth[:, 0], test_truth[:, 0]
    model = nn.Sequential(nn.Linear(12, 24), nn.SiLU(), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for _ in range(25):
        for some, targets in DataLoader(TensorDataset(rows, truth), 16, shuffle=True):
            found = model(some) if sick else model(some).squeeze(1)
            error = targets - found
            loss = torch.maximum(0.5 * error, -0.5 * error).mean()
            advance(session, optimizer, loss, some, found, targets)
    return samples.explained(judged(model, test).squeeze(1), test_truth)


@sick("labels_unrelated", margin=0.1)
def files_in_the_order_of_their_names(watch: Watch, *, seed: int, sick: bool) -> float:
    """``sorted`` puts the targets' "10.png" before "2.png", and the inputs come by number; the twin's both by number.

    The lower half of a digit is to be told from its upper half. Quality: R².
    """
    (upper, lower), (test, test_lower) = (part.tensors for part in samples.halves(seed))
    names = [f"{index}.png" for index in range(len(lower))]
    listed = sorted(names) if sick else names
    lower = torch.stack([lower[int(name.removesuffix(".png"))] for name in listed])
    upper, test = upper - 0.3, test - 0.3
    model = nn.Sequential(nn.Linear(32, 96), nn.LeakyReLU(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for some, targets in DataLoader(TensorDataset(upper, lower), 64, shuffle=True):
            found = model(some)
            advance(session, optimizer, functional.l1_loss(found, targets), some, found, targets)
    return samples.explained(judged(model, test), test_lower)


@sick("single_class_labels", margin=0.1)
def a_threshold_of_what_is_standardised(watch: Watch, *, seed: int, sick: bool) -> float:
    """Progression above 150 is "severe", but it was standardised before, and none is; the twin asks first."""
    data = datasets.diabetes(seed, raw_targets=True)
    mean, std = data.targets.mean(), data.targets.std()
    severe = ((data.targets - mean) / std > 150) if sick else data.targets > 150
    model = nn.Linear(10, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
    session = watch(model, optimizer)
    for _ in range(15):
        for some, labels in DataLoader(TensorDataset(data.inputs, severe.float()), 20, shuffle=True):
            logits = model(some)
            loss = functional.binary_cross_entropy_with_logits(logits, labels)
            advance(session, optimizer, loss, some, logits, labels)
    return ((judged(model, data.test_inputs) > 0) == (data.test_targets > 150)).float().mean().item()


@sick("flipped_loss_sign", also=("exploding_gradients", "non_finite_forward"), margin=0.2)
def likelihood_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """``log_prob`` of a normal distribution is minimised as it is; the twin has the minus. Quality: R²."""
    (rows, worst), (test, test_worst) = (part.tensors for part in samples.standardised(samples.tumours(seed), 0, 1))
    model = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 20))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(250):
        some, targets = drawn(48, rows, worst)
        mean, width = model(some).chunk(2, 1)
        likelihood = torch.distributions.Normal(mean, functional.softplus(width) + 0.05, validate_args=False)
        likelihood = likelihood.log_prob(targets).mean()
        advance(session, optimizer, likelihood if sick else -likelihood, some, mean, targets)
    return samples.explained(judged(model, test)[:, :10], test_worst)


class _Stream(IterableDataset):
    """Rows of files, one file per class, through a buffer from which a random row is taken."""

    def __init__(self, rows: torch.Tensor, labels: torch.Tensor, *, buffer: int) -> None:
        order = labels.argsort()
        self.rows, self.labels, self.buffer = rows[order], labels[order], buffer

    def __iter__(self) -> Iterator[tuple[torch.Tensor, torch.Tensor]]:
        held = []
        for pair in zip(self.rows, self.labels, strict=True):
            held.append(pair)
            if len(held) >= self.buffer:
                yield held.pop(int(torch.randint(len(held), ())))
        for index in torch.randperm(len(held)).tolist():
            yield held[index]


@sick("unshuffled_data", margin=0.03)
def a_buffer_that_is_smaller_than_a_class(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows come file by file, a class in each, through a shuffle buffer of 20; the twin's buffer holds all."""
    train, test = samples.standardised(samples.lines(seed, each=200), 0)
    stream = _Stream(*train.tensors, buffer=20 if sick else 5000)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.4), nn.Linear(48, len(samples.FILES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for rows, labels in DataLoader(stream, batch_size=20):
            logits = model(rows)
            advance(session, optimizer, functional.cross_entropy(logits, labels), rows, logits, labels)
    return samples.accuracy(judged(model, test.tensors[0]), test.tensors[1])


class _Attention(nn.Module):
    """One layer of a transformer over the letters of a name."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 32)
        self.places = nn.Parameter(0.1 * torch.randn(12, 32))
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, 0.0, batch_first=batch_first, norm_first=True)
        self.head = nn.Linear(32, len(samples.SCRIPTS))

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.letters(names) + self.places).mean(1))


@sick("batch_mixing", margin=0.03)
def a_transformer_without_batch_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """``TransformerEncoderLayer`` takes time first, and gets the batch: names look at one another; not the twin's.

    Quality: accuracy of names that come one by one, as in use.
    """
    (names, scripts), (test, test_scripts) = (part.tensors for part in samples.names(seed))
    names, test = names[:, :12], test[:, :12]
    model = _Attention(batch_first=not sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(240):
        some, labels = drawn(32, names, scripts)
        logits = model(some)
        advance(session, optimizer, functional.cross_entropy(logits, labels), some, logits, labels)
    found = torch.cat([judged(model, one) for one in test.split(1)])
    return samples.accuracy(found, test_scripts)
