"""Recurrent nets over rows of pixels, lines of a photograph, and letters of names."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


def _lines(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """Sixteen brightnesses in a row of a photograph (N, 16), and the next one (N,), standardised."""
    rows = datasets.patches(seed, size=17, count=600).view(-1, 17, 17)[:, ::8].reshape(-1, 17)
    rows = (rows - rows.mean()) / rows.std()
    return samples.split(seed, rows[:, :16].contiguous(), rows[:, 16].contiguous())


class Forecaster(nn.Module):
    """Reads a series and says its next value (B, 1)."""

    def __init__(self, hidden: int = 16) -> None:
        super().__init__()
        self.rnn = nn.GRU(1, hidden, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, series: torch.Tensor) -> torch.Tensor:
        _, last = self.rnn(series.unsqueeze(-1))
        return self.out(last[0])


@sick("shape_broadcast", margin=0.3)
def next_value_of_a_series(watch: Watch, *, seed: int, sick: bool) -> float:
    """Predictions (B, 1) are compared with targets (B,): smooth-L1 sees all pairs and learns the mean."""
    train, test = _lines(seed)
    model = Forecaster()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=3, gamma=0.5)
    criterion = nn.SmoothL1Loss()
    session = watch(model, optimizer)
    for _ in range(6):
        for series, following in DataLoader(train, batch_size=48, shuffle=True):
            target = following if sick else following.unsqueeze(1)
            optimizer.zero_grad()
            prediction = model(series)
            loss = criterion(prediction, target)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=series, outputs=prediction, targets=target)
            optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        series, following = test.tensors
        return samples.explained(model(series), following[:, None])


class RowReader(nn.Module):
    """Reads a digit row by row; without ``batch_first`` the LSTM takes the digits of a batch for a series."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.lstm = nn.LSTM(8, 48, num_layers=2, batch_first=batch_first)
        self.classify = nn.Linear(48, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        states, _ = self.lstm(rows)
        return self.classify(states[:, -1])


@sick("batch_mixing", margin=0.1)
def rows_read_without_batch_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """``batch_first=True`` was forgotten, and as shapes fit, states run from one digit to the next."""
    train, test = samples.numerals(seed)
    model = RowReader(batch_first=not sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        model.train()
        for images, labels in DataLoader(train, batch_size=64, shuffle=True, drop_last=True):
            rows = images.squeeze(1)
            logits = model(rows)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
        model.eval()
        with torch.no_grad(), session.validating():
            logits = model(test.tensors[0].squeeze(1))
            reached = samples.accuracy(logits, test.tensors[1])
            session.validation(functional.cross_entropy(logits, test.tensors[1]).item(), metrics={"accuracy": reached})
    return reached


class NameReader(nn.Module):
    """Says the script of a letter from its name."""

    def __init__(self, *, old_style: bool) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 6, padding_idx=0)
        self.rnn = nn.GRU(6, 16, batch_first=True, bidirectional=True)
        self.hidden = nn.Linear(32, 16)
        self.out = nn.Linear(16, len(samples.SCRIPTS))
        self.old_style = old_style

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.rnn(self.letters(codes))
        summary = states.max(1).values
        if self.old_style:
            summary = summary.data
        return self.out(torch.relu(self.hidden(summary)))


@sick("detached_parameters", margin=0.05)
def states_taken_by_their_data(watch: Watch, *, seed: int, sick: bool) -> float:
    """``.data`` of a tutorial of old days cuts the recurrent part off: only the last layers learn."""
    train, test = samples.names(seed, length=16)
    model = NameReader(old_style=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    for _ in range(8):
        for codes, labels in loader:
            model.zero_grad()
            scores = model(codes)
            loss = nn.functional.cross_entropy(scores, labels)
            loss.backward()
            session.step(loss, inputs=codes, outputs=scores, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


class PixelReader(nn.Module):
    """A plain recurrent net with ReLU that reads a digit pixel by pixel pair."""

    def __init__(self, *, gain: float) -> None:
        super().__init__()
        self.rnn = nn.RNN(4, 40, nonlinearity="relu", batch_first=True)
        self.out = nn.Linear(40, 10)
        nn.init.orthogonal_(self.rnn.weight_hh_l0, gain=gain)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        _, last = self.rnn(images.view(len(images), 16, 4))
        return self.out(last[0])


@sick("exploding_gradients", also=("poor_initialization",), margin=0.1)
def orthogonal_times_three(watch: Watch, *, seed: int, sick: bool) -> float:
    """Recurrent weights are orthogonal by three, "for ReLU": states and gradients grow with each of sixteen steps."""
    train, test = samples.numerals(seed)
    model = PixelReader(gain=3.0 if sick else 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("clipping_ineffective", also=("exploding_gradients",), margin=0.06)
def clipped_before_backward(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped where they have just been zeroed, so that a recurrent net with a rough start runs wild."""
    train, test = samples.numerals(seed)
    model = PixelReader(gain=1.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad(set_to_none=False)
            if sick:
                nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
            loss.backward()
            if not sick:
                nn.utils.clip_grad_norm_(model.parameters(), max_norm=0.5)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])
