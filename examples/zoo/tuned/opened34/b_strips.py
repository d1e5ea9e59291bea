"""Forecasts of the pixels that follow in a row of a photograph."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import fit
from examples.zoo.tuned.opened34.b_common import explained, strips


class Recurrent(nn.Module):
    """Reads a row pixel by pixel, and says the next ones from its last state."""

    def __init__(
        self, kind: type[nn.Module] = nn.GRU, width: int = 32, *, ahead: int = 4, batch_first: bool = True
    ) -> None:
        super().__init__()
        self.reader = kind(1, width, batch_first=batch_first)
        self.head = nn.Linear(width, ahead)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the pixels that follow (N, ahead)."""
        states, _ = self.reader(rows[..., None])
        return self.head(states[:, -1])


@sick("batch_mixing", margin=0.1)
def an_lstm_whose_batch_comes_second(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's LSTM lacks ``batch_first``, so that it walks from row to row of the batch; the twin has it."""
    rows = strips(seed)
    data = Data(rows.inputs, rows.inputs, rows.test_inputs, rows.test_inputs)
    model = Recurrent(nn.LSTM, ahead=16, batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=64, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("shape_broadcast", margin=0.1)
def one_pixel_ahead_without_its_dimension(watch: Watch, *, seed: int, sick: bool) -> float:
    """Targets (N,) are compared with outputs (N, 1) of a causal convolution; the twin keeps the dimension."""
    drawn = strips(seed, ahead=1)
    model = nn.Sequential(
        nn.Unflatten(1, (1, 16)),
        nn.Conv1d(1, 16, 4, stride=2),
        nn.ReLU(),
        nn.Conv1d(16, 16, 3, stride=2),
        nn.ReLU(),
        nn.Flatten(),
        nn.LazyLinear(1),
    )
    model(drawn.inputs[:2])
    targets = drawn.targets[:, 0] if sick else drawn.targets
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    data = Data(drawn.inputs, targets, drawn.test_inputs, drawn.test_targets)
    fit(watch, model, optimizer, data, steps=300, batch_size=48, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("target_out_of_range", also=("wrong_output_or_loss", "dead_units"), margin=0.1)
def a_relu_below_a_forecast(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each layer has its ReLU, the last one too, and half of the targets are below 0; the twin ends linearly."""
    data = strips(seed)
    sizes = [16, 64, 64, 4]
    layers: list[nn.Module] = []
    for inward, outward in pairwise(sizes):
        layers += [nn.Linear(inward, outward), nn.ReLU()]
    model = nn.Sequential(*(layers if sick else layers[:-1]))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-4)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@sick("exploding_gradients", also=("learning_rate_too_high", "poor_initialization", "non_finite_forward"), margin=0.1)
def steps_in_time_of_one_each(watch: Watch, *, seed: int, sick: bool) -> float:
    """Thirty steps of an equation's solver forget to divide by their number; the twin takes a thirtieth each time."""
    data = strips(seed)

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.slope, self.last = nn.Linear(16, 32), nn.Linear(32, 32), nn.Linear(32, 4)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            state = self.first(rows)
            length = 1 if sick else 1 / 30
            for _ in range(30):
                state = state + length * functional.leaky_relu(self.slope(state), 0.1)
            return self.last(state)

    model = Flow()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("over_regularized", margin=0.05)
def decay_of_adamw_given_to_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam adds a decay of 0.5 to its gradients, where AdamW would have scaled it by the rate; the twin has AdamW."""
    data = strips(seed)
    model = Recurrent()
    kind = torch.optim.Adam if sick else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=3e-3, weight_decay=0.5)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def a_backward_for_each_pixel_ahead(watch: Watch, *, seed: int, sick: bool) -> float:
    """A window of 16 batches calls ``backward`` before a step, undivided; the twin divides each loss by 16."""
    data = strips(seed)
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for count, (rows, following) in enumerate(data.batches(16, 2400), 1):
        outputs = model(rows)
        loss = functional.mse_loss(outputs, following)
        (loss if sick else loss / 16).backward()
        if count % 16 == 0:
            session.step(loss, inputs=rows, outputs=outputs, targets=following)
            optimizer.step()
            optimizer.zero_grad()
    return explained(model, data)
