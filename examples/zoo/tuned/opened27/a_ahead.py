"""More series: encoders and decoders, attention, panels in order, and features of moving windows."""

from itertools import pairwise

import torch
from torch import nn
from torch.utils.data import TensorDataset

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened27.a_loads import forecast
from examples.zoo.tuned.opened27.a_stock import signals


class Translator(nn.Module):
    """An encoder of a window and a decoder of the hours ahead, each from its own last forecast."""

    def __init__(self, ahead: int, *, detached: bool) -> None:
        super().__init__()
        self.encoder, self.decoder = nn.GRU(1, 24, batch_first=True), nn.GRUCell(1, 24)
        self.head, self.ahead, self.detached = nn.Linear(24, 1), ahead, detached

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        state = self.encoder(windows)[1][0]
        state = state.detach() if self.detached else state
        last, found = windows[:, -1], []
        for _ in range(self.ahead):
            state = self.decoder(last, state)
            last = self.head(state)
            found.append(last)
        return torch.cat(found, 1)


@sick("detached_parameters", margin=0.04)
def the_encoders_state_is_detached(watch: Watch, *, seed: int, sick: bool) -> float:
    """The state is detached, as between windows, on its way from encoder to decoder; the twin's is handed on."""
    model = Translator(6, detached=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    return forecast(watch, model, optimizer, signals(seed, length=24, ahead=6), epochs=14, clip=5.0)


class Attentive(nn.Module):
    """A transformer's encoder of 24 hours, whose last place goes through a layer."""

    def __init__(self, *, norm_first: bool = True) -> None:
        super().__init__()
        self.entry, self.places = nn.Linear(1, 16), nn.Parameter(0.1 * torch.randn(24, 16))
        block = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True, norm_first=norm_first)
        self.blocks, self.head = nn.TransformerEncoder(block, 1, enable_nested_tensor=False), nn.Linear(16, 1)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.entry(windows) + self.places)[:, -1])


@sick("learning_rate_too_high", also=("missing_warmup", "exploding_gradients"), margin=0.1)
def a_rate_of_descent_for_adamw(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer of series gets 0.3 with AdamW, which was SGD's rate; the twin gets 5e-3."""
    model = Attentive()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.3 if sick else 5e-3)
    return forecast(watch, model, optimizer, signals(seed, length=24), epochs=12)


@sick("unshuffled_data", margin=0.05)
def a_panel_of_shops_one_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Windows of 30 shops lie shop by shop, and ``shuffle=False`` keeps them in order "since it's a time series".

    Each shop has its own level and its own answer to promotions, which the net has to know. The twin shuffles.
    """
    random = torch.Generator().manual_seed(seed)
    shops = torch.arange(30).repeat_interleave(60)
    level, lift = 3 * torch.randn(30, generator=random), torch.randn(30, generator=random)
    promoted = torch.rand(1800, 8, generator=random).round()
    level = level.sort().values
    sold = level[shops] + lift[shops] * promoted[:, -1] + 0.1 * torch.randn(1800, generator=random)
    before = level[shops, None] + lift[shops, None] * promoted[:, :-1] + 0.5 * torch.randn(1800, 7, generator=random)
    inputs = torch.cat([before, promoted], 1)
    rows = torch.rand(1800, generator=random).argsort()
    train, test = rows[:1300].sort().values, rows[1300:]
    model = nn.Sequential(nn.Linear(15, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    pair = tuple(TensorDataset(inputs[part], (sold[part, None] - sold.mean()) / sold.std()) for part in (train, test))
    return forecast(watch, model, optimizer, pair, epochs=6, shuffle=not sick)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def moving_means_without_a_past(watch: Watch, *, seed: int, sick: bool) -> float:
    """Means of the last seven days are NaN on the first six of each series; the twin drops those rows."""
    train, test = signals(seed, count=120, length=36)

    def rows(part: TensorDataset) -> tuple[torch.Tensor, torch.Tensor]:
        values = torch.cat([part.tensors[0][..., 0], part.tensors[1]], 1)
        means = torch.full_like(values, float("nan"))
        means[:, 6:] = values.unfold(1, 7, 1).mean(2)
        lags = [values.roll(lag, 1) for lag in (1, 2)]
        table = torch.stack([values, *lags, means], 2)[:, 2:-1].reshape(-1, 4)
        following = values[:, 3:].reshape(-1, 1)
        known = ~table.isnan().any(1)
        return (table, following) if sick else (table[known], following[known])

    tables, tests = rows(train), rows(test)
    known = ~tests[0].isnan().any(1)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    pair = TensorDataset(*tables), TensorDataset(tests[0][known], tests[1][known])
    return forecast(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), pair, epochs=4)


class Channels(nn.Module):
    """A deep tower of sigmoids over a window, as old texts draw it, or of ReLUs."""

    def __init__(self, unit: type[nn.Module]) -> None:
        super().__init__()
        widths = [24] + [32] * 8
        layers = [nn.Sequential(nn.Linear(old, new), unit()) for old, new in pairwise(widths)]
        self.tower, self.head = nn.Sequential(*layers), nn.Linear(32, 1)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        return self.head(self.tower(windows.flatten(1)))


@sick("vanishing_gradients", also=("learning_rate_too_low",), margin=0.2)
def eight_layers_of_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight layers of sigmoids foretell a load, and the first ones never learn; the twin's are of ReLUs."""
    model = Channels(nn.Sigmoid if sick else nn.ReLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    return forecast(watch, model, optimizer, signals(seed, length=24), epochs=14)
