"""Small networks of many kinds for random compositions: (N, 6) to (N, 1), with a ``head`` that can be replaced."""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

WIDTH = 6


class Headed(nn.Module):
    """A body, (N, 6) to (N, 6), and a head."""

    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body, self.head = body, nn.Linear(WIDTH, 1)

    def forward(self, inputs):
        return self.head(self.body(inputs))


class Recurrent(nn.Module):
    """Its LSTM returns a tuple."""

    def __init__(self) -> None:
        super().__init__()
        self.cells, self.dropout = nn.LSTM(3, WIDTH, batch_first=True), nn.Dropout(0.2)

    def forward(self, inputs):
        return self.dropout(self.cells(inputs.unflatten(1, (2, 3)))[0][:, -1])


class Transformer(nn.Module):
    """One encoder layer, whose fused path runs in eval mode."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.TransformerEncoderLayer(WIDTH, 2, 8, batch_first=True)

    def forward(self, inputs):
        return self.encoder(inputs[:, None])[:, 0]


class Checkpointed(nn.Module):
    """Runs its layers, with their dropout, a second time in the backward pass."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(WIDTH, WIDTH)
        self.again = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(0.3), nn.ReLU())

    def forward(self, inputs):
        return checkpoint(self.again, self.first(inputs), use_reentrant=False)


class Tied(nn.Module):
    """One weight in two layers, one layer called twice, one never."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.other.weight = self.one.weight
        self.unused = nn.Linear(2, 2)

    def forward(self, inputs):
        return self.other(torch.tanh(self.one(self.one(inputs))))


def _convolutions() -> nn.Module:
    return nn.Sequential(
        nn.Unflatten(1, (1, 2, 3)), nn.Conv2d(1, 4, 2, padding=1), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
        nn.Dropout2d(0.2), nn.Flatten(), nn.LazyLinear(WIDTH),
    )  # fmt: skip


def _half_frozen() -> nn.Module:
    body = nn.Sequential(nn.Linear(WIDTH, 8), nn.BatchNorm1d(8), nn.Linear(8, WIDTH))
    body[0].requires_grad_(False)
    return body


BODIES = {
    "mlp": lambda: nn.Sequential(nn.Linear(WIDTH, 12), nn.BatchNorm1d(12), nn.Dropout(0.3), nn.Linear(12, WIDTH)),
    "convolutions": _convolutions,
    "recurrent": Recurrent,
    "transformer": Transformer,
    "checkpointed": Checkpointed,
    "tied": Tied,
    "half frozen": _half_frozen,
}


def network(kind: str) -> Headed:
    """A network whose lazy layers know their shapes."""
    model = Headed(BODIES[kind]())
    with torch.no_grad():
        model.eval()(torch.zeros(2, WIDTH))
    return model.train()
