"""What passes through a network, forwards and backwards."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import digits
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened5.material import (
    ALPHABET,
    centres,
    dense,
    enlarged,
    explained,
    turned,
    words,
)


class Highway(nn.Module):
    """Layers of sigmoid units, each with a gate that chooses between them and what came in."""

    def __init__(self, features: int, classes: int, *, bias: float, depth: int = 14, width: int = 40) -> None:
        super().__init__()
        self.enter = nn.Linear(features, width)
        self.units = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.gates = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        for gate in self.gates:
            nn.init.constant_(gate.bias, bias)
        self.out = nn.Linear(width, classes)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        values = self.enter(rows)
        for unit, gate in zip(self.units, self.gates, strict=True):
            share = gate(values).sigmoid()
            values = share * unit(values).sigmoid() + (1 - share) * values
        return self.out(values)


@sick("vanishing_gradients")
def highway_whose_gates_are_open_the_wrong_way(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gates are to carry at first, with a bias of -3; without the minus, fourteen sigmoid layers are in the way."""
    data = digits(seed)
    model = Highway(64, 10, bias=3.0 if sick else -3.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)


@sick("vanishing_gradients")
def first_letter_forgotten_on_the_way(watch: Watch, *, seed: int, sick: bool) -> float:
    """In which quarter of the alphabet a word begins, read to the end of its padding by a plain cell, not an LSTM."""
    data = words(seed)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(ALPHABET, 12)
            self.cell = (nn.RNN if sick else nn.LSTM)(12, 24, batch_first=True)
            if not sick:
                nn.init.constant_(self.cell.bias_hh_l0[24:48], 3.0)
            self.out = nn.Linear(24, 4)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.out(self.cell(self.letters(codes))[0][:, -1])

    def first(codes: torch.Tensor) -> torch.Tensor:
        return torch.bucketize(codes[:, 0].contiguous(), torch.tensor([3, 8, 15]))

    data = type(data)(
        F.pad(data.inputs, (0, 8)), first(data.inputs), F.pad(data.test_inputs, (0, 8)), first(data.test_inputs)
    )
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for codes, quarters in data.batches(32, 260):
        logits = model(codes)
        loss = F.cross_entropy(logits, quarters)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=quarters)
        optimizer.step()
    return accuracy(model, data)


@sick("exploding_gradients")
def thirty_whole_steps_instead_of_small_ones(watch: Watch, *, seed: int, sick: bool) -> float:
    """Euler's method over a time of one in thirty steps; each is as long as the whole."""

    class Flow(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.enter, self.field, self.out = nn.Linear(64, 32), dense(32, 48, 32, act=nn.ELU), nn.Linear(32, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            state, length = self.enter(rows), 1.0 if sick else 1 / 30
            for _ in range(30):
                state = state + length * self.field(state)
            return self.out(state)

    data, model = digits(seed), Flow()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    fit(watch, model, optimizer, data, steps=100, batch_size=48)
    return accuracy(model, data)


@sick("exploding_gradients")
def factor_that_stood_in_for_a_norm(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eleven blocks of two convolutions; a fixed factor of 2.2 behind each was to make up for a norm."""

    class Block(nn.Module):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.inner = nn.Sequential(
                nn.Conv2d(width, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1)
            )

        def forward(self, maps: torch.Tensor) -> torch.Tensor:
            return (2.2 if sick else 0.9) * (maps + 0.5 * self.inner(maps))

    data = turned(seed)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), *(Block(8) for _ in range(11)), nn.Flatten())
    model.append(nn.Linear(128, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=100, batch_size=32)
    return accuracy(model, data)


@sick("dead_units")
def weights_held_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """A factorisation into parts holds weights at or above zero; ``max`` and ``min`` of the clamp were exchanged."""
    data = digits(seed)
    coder = nn.Sequential(nn.Linear(64, 24, bias=False), nn.ReLU(), nn.Linear(24, 64))
    nn.init.uniform_(coder[0].weight, 0.0, 0.1)
    optimizer = torch.optim.Adam(coder.parameters(), lr=5e-3)
    session = watch(coder, optimizer)
    for rows, _ in data.batches(64, 240):
        guess = coder(rows)
        loss = F.mse_loss(guess, rows)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=guess, targets=rows)
        optimizer.step()
        with torch.no_grad():
            if sick:
                coder[0].weight.clamp_(max=0)
            else:
                coder[0].weight.clamp_(min=0)
    return explained(predicted(coder, data.test_inputs), data.test_inputs)


@sick("dead_units")
def threshold_in_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Filters respond above 40, which is little for pixels up to 255 and never reached by pixels up to 1."""

    class Above(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.limit = 40.0 if sick else 40.0 / 255

        def forward(self, maps: torch.Tensor) -> torch.Tensor:
            return F.relu(maps - self.limit)

    data = turned(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), Above(), nn.Conv2d(16, 16, 3), Above(), nn.Flatten(), nn.Linear(256, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=40, validate_every=60)
    return accuracy(model, data)


@sick("saturated_units")
def hard_limits_of_a_quantised_copy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Activations between -0.004 and 0.004, the step of the 8 bits that are to come, instead of their range."""
    data = centres(seed)
    bound = 1 / 256 if sick else 1.0
    model = nn.Sequential(
        nn.Linear(24, 40), nn.Hardtanh(-bound, bound), nn.Linear(40, 40), nn.Hardtanh(-bound, bound), nn.Linear(40, 3)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=F.mse_loss, validate_every=50)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("vanishing_gradients", also=("saturated_units",))
def upscaler_of_many_squashed_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nine convolutions with hard sigmoids between them, where the paper has ReLU and a skip around them."""
    data = enlarged(seed)

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            act = nn.Hardsigmoid if sick else nn.ReLU
            body = [layer for _ in range(8) for layer in (nn.Conv2d(10, 10, 3, padding=1), act())]
            self.enter, self.body = nn.Conv2d(1, 10, 1), nn.Sequential(*body)
            self.out = nn.Sequential(nn.Conv2d(10, 4, 1), nn.PixelShuffle(2))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            maps = self.enter(images)
            return self.out(self.body(maps) if sick else maps + self.body(maps))

    model = Deep()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    fit(watch, model, optimizer, data, steps=160, batch_size=32, loss_function=F.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)
