"""Labels and losses: several at once, in another order, summed, or of angles."""

import torch
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.samples import Pair


def _several(seed: int) -> Pair:
    """Ten scaled measurements of a tumour, and which of ten others, its worst ones, are above their median."""
    train, test = samples.standardised(samples.tumours(seed), 0)
    median = train.tensors[1].median(0).values
    return tuple(TensorDataset(part.tensors[0], (part.tensors[1] > median).float()) for part in (train, test))


def _right(outputs: torch.Tensor, marks: torch.Tensor) -> float:
    return ((outputs > 0) == (marks > 0.5)).float().mean().item()


@sick("wrong_output_or_loss", margin=0.05)
def a_softmax_among_labels_that_go_together(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softmax shares 1 among ten labels of which half are true, below a binary loss; the twin has sigmoids."""
    train, test = _several(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 10))
    last = nn.Softmax(1) if sick else nn.Sigmoid()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for inputs, marks in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = last(model(inputs))
            loss = functional.binary_cross_entropy(outputs, marks)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=marks)
            optimizer.step()
    with torch.no_grad():
        return _right(last(model(test.tensors[0])) - 0.5, test.tensors[1])


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def ten_labels_and_all_rows_summed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` over 64 rows of ten labels, at a rate that was tuned for a mean; the twin has the mean."""
    train, test = _several(seed)
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    criterion = nn.BCEWithLogitsLoss(reduction="sum" if sick else "mean")
    session = watch(model, optimizer)
    for _ in range(20):
        for inputs, marks in DataLoader(train, 64, shuffle=True, drop_last=True):
            outputs = model(inputs)
            loss = criterion(outputs, marks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=marks)
            optimizer.step()
    with torch.no_grad():
        return _right(model(test.tensors[0]), test.tensors[1])


@sick("labels_unrelated", margin=0.2)
def rows_and_targets_split_apart(watch: Watch, *, seed: int, sick: bool) -> float:
    """``train_test_split`` is called for the rows, and again for the targets; the twin calls it once for both."""
    values, others = (part.tensors for part in samples.standardised(samples.proline(seed), 0, 1))
    rows, proline = (torch.cat(pair).numpy() for pair in zip(values, others, strict=True))
    x_train, x_test, y_train, y_test = train_test_split(rows, proline, random_state=seed)
    if sick:
        y_train, _ = train_test_split(proline, random_state=seed + 1)
    train = TensorDataset(torch.from_numpy(x_train), torch.from_numpy(y_train))
    model = nn.Sequential(nn.Linear(12, 12), nn.Tanh(), nn.Linear(12, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(20):
        for inputs, targets in DataLoader(train, 16, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(torch.from_numpy(x_test)), torch.from_numpy(y_test))


@sick("inputs_constant", margin=0.3)
def padded_in_front_and_cut_behind(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names are padded in front to 64 places, and the first 24 are kept: only padding; the twin keeps the last 24."""
    train, test = samples.names(seed)

    def prepared(names: torch.Tensor) -> torch.Tensor:
        rows = [torch.cat([torch.zeros(64 - int((name > 0).sum())).long(), name[name > 0]]) for name in names]
        padded = torch.stack(rows)
        return padded[:, :24] if sick else padded[:, -24:]

    model = nn.ModuleDict(
        {
            "letters": nn.Embedding(samples.LETTERS, 16),
            "gru": nn.GRU(16, 32, batch_first=True),
            "head": nn.Linear(32, 8),
        }
    )

    def scores(names: torch.Tensor) -> torch.Tensor:
        return model["head"](model["gru"](model["letters"](names))[0].amax(1))

    letters, others = prepared(train.tensors[0]), prepared(test.tensors[0])
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for rows in torch.randperm(len(letters)).split(32):
            outputs = scores(letters[rows])
            loss = functional.cross_entropy(outputs, train.tensors[1][rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=letters[rows], outputs=outputs, targets=train.tensors[1][rows])
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(scores(others), test.tensors[1])


class _PowerMeans(nn.Module):
    """A convolution along the letters of a name, of which each channel's power mean is classified."""

    def __init__(self, floor: float) -> None:
        super().__init__()
        self.letters, self.convolution = nn.Embedding(samples.LETTERS, 16), nn.Conv1d(16, 64, 3)
        self.power, self.head = nn.Parameter(torch.tensor(3.0)), nn.Linear(64, 8)
        self._floor = floor

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        found = torch.relu(self.convolution(self.letters(names).transpose(1, 2))).clamp(min=self._floor)
        return self.head(found.pow(self.power).mean(-1).pow(1 / self.power))


@sick("non_finite_backward", margin=0.3)
def the_root_of_a_silent_channel(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cube root in a power mean is infinitely steep where a channel is silent; the twin's values are above 1e-4."""
    train, test = samples.names(seed)
    model = _PowerMeans(0.0 if sick else 1e-4)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, labels in DataLoader(train, 32, shuffle=True):
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


class _Crossed(nn.Module):
    """A layer by hand: its weights are drawn by ``torch.rand``, or as they should be."""

    def __init__(self, inputs: int, outputs: int, drawn: bool) -> None:
        super().__init__()
        weight = torch.rand(inputs, outputs) if drawn else torch.randn(inputs, outputs) * (2 / inputs) ** 0.5
        self.weight, self.bias = nn.Parameter(weight), nn.Parameter(torch.zeros(outputs))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return rows @ self.weight + self.bias


@sick("poor_initialization", margin=0.03)
def weights_by_torch_rand(watch: Watch, *, seed: int, sick: bool) -> float:
    """Layers by hand draw from 0 to 1, so that logits are thousands; the twin's are normal and scaled by the width."""
    train, test = samples.lines(seed)
    layers = [_Crossed(96, 64, sick), nn.ReLU(), _Crossed(64, 64, sick), nn.ReLU(), _Crossed(64, 6, sick)]
    model = nn.Sequential(*layers)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for counts, labels in DataLoader(train, 32, shuffle=True):
            inputs = (counts + 1).log() - 0.5
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model((test.tensors[0] + 1).log() - 0.5), test.tensors[1])
