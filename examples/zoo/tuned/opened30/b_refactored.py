"""A model that was rewritten, after it worked."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, held_out_loss, r_squared
from examples.zoo.tuned.opened30.b_stock import hums, labelled, rivers


@sick("vanishing_gradients", margin=0.1)
def norms_taken_out_for_an_export(watch: Watch, *, seed: int, sick: bool) -> float:
    """Seven layers of sigmoids learn with their batch norms, which an export could not write; the twin keeps them."""
    data = datasets.digits(seed)
    layers: list[nn.Module] = []
    for before in (64, *[40] * 6):
        layers += [nn.Linear(before, 40), nn.Identity() if sick else nn.BatchNorm1d(40), nn.Sigmoid()]
    model = nn.Sequential(*layers, nn.Linear(40, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    return labelled(watch, model, optimizer, data, data.batches(64, 200))


class _Decays(nn.Module):
    """A linear recurrence of states that decay at learnt speeds, and a head."""

    def __init__(self, *, sign: float, width: int = 32) -> None:
        super().__init__()
        self.speeds = nn.Parameter(torch.linspace(-3.5, -1.0, width))
        self.read = nn.Linear(2, width)
        self.head = nn.Sequential(nn.Linear(width, width), nn.SiLU(), nn.Linear(width, 1))
        self._sign = sign

    def forward(self, rain: torch.Tensor) -> torch.Tensor:
        kept = (self._sign * self.speeds.exp()).exp()
        state = torch.zeros(len(rain), len(kept))
        for day in self.read(rain).unbind(1):
            state = kept * state + (1 - kept) * day
        return self.head(state)


@sick("exploding_gradients", also=("non_finite_forward", "learning_rate_too_high"), margin=0.1)
def a_state_space_without_the_minus_of_its_decay(watch: Watch, *, seed: int, sick: bool) -> float:
    """States are kept by ``exp(exp(a))`` instead of ``exp(-exp(a))``, and grow day by day; the twin has the minus."""
    data = rivers(seed, days=36)
    model = _Decays(sign=1 if sick else -1)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for rain, flow in data.batches(32, 220):
        found = model(rain)
        loss = functional.mse_loss(found, flow)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rain, outputs=found, targets=flow)
        optimizer.step()
    return r_squared(model, data)


class _Highway(nn.Module):
    """Layers that pass on what they are given, unless their gates open."""

    def __init__(self, gate: nn.Module) -> None:
        super().__init__()
        self.into = nn.Linear(48, 40)
        self.layers = nn.ModuleList(nn.Linear(40, 40) for _ in range(3))
        self.gates = nn.ModuleList(nn.Sequential(nn.Linear(40, 40), gate) for _ in range(3))
        self.head = nn.Linear(40, 4)
        for gates in self.gates:
            nn.init.constant_(gates[0].bias, -3.0)

    def forward(self, windows: torch.Tensor) -> torch.Tensor:
        hidden = self.into(windows.flatten(1))
        for layer, gates in zip(self.layers, self.gates, strict=True):
            opened = gates(hidden)
            hidden = opened * functional.relu(layer(hidden)) + (1 - opened) * hidden
        return self.head(hidden)


@sick("dead_units", also=("poor_initialization",), margin=0.05)
def gates_that_were_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """A highway's gates, whose biases are -3 as they should be, became ReLUs and never open; not the twin's."""
    data = hums(seed, count=2400, noise=0.3)
    model = _Highway(nn.ReLU() if sick else nn.Sigmoid())
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    return labelled(watch, model, optimizer, data, data.batches(64, 250))


class _Bag(nn.Module):
    """A bag of the characters in some lines, as a sum of their vectors or a mean."""

    def __init__(self, *, mode: str) -> None:
        super().__init__()
        self.letters = nn.Embedding(97, 48, padding_idx=96)
        self.hidden = nn.Sequential(nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
        self.head = nn.Linear(48, 6)
        self._mode = mode

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        bag = self.letters(texts).sum(1)
        if self._mode == "mean":
            bag = bag / (texts != 96).sum(1, keepdim=True)
        return self.head(self.hidden(bag))


@sick("saturated_units", margin=0.05)
def a_mean_of_letters_became_a_sum(watch: Watch, *, seed: int, sick: bool) -> float:
    """Vectors of 150 letters are added up below a tanh, where their mean was taken before; the twin takes the mean."""

    def spelt(counts: torch.Tensor) -> torch.Tensor:
        rows = [torch.repeat_interleave(torch.arange(96), row.long())[:200] for row in counts]
        return torch.stack([functional.pad(row, (0, 200 - len(row)), value=96) for row in rows])

    (counts, files), (tests, truth) = (part.tensors for part in samples.lines(seed, each=200))
    data = datasets.Data(spelt(counts), files, spelt(tests), truth)
    model = _Bag(mode="sum" if sick else "mean")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return labelled(watch, model, optimizer, data, data.batches(32, 360))


@sick("batch_mixing", margin=0.05)
def letters_shifted_along_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each letter sees the one before by ``roll(1, 0)``, along the batch; the twin pads and shifts the places."""
    data = datasets.text(seed, length=24, count=1600)

    class Shifted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(datasets.CHARACTERS, 40)
            self.layers = nn.Sequential(nn.Linear(80, 96), nn.GELU(), nn.LayerNorm(96), nn.Linear(96, 98))

        def forward(self, texts: torch.Tensor) -> torch.Tensor:
            letters = self.letters(texts)
            before = letters.roll(1, 0) if sick else functional.pad(letters, (0, 0, 1, 0))[:, :-1]
            return self.layers(torch.cat([letters, before], 2))

    model = Shifted()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for texts, following in data.batches(32, 200):
        logits = model(texts)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=texts, outputs=logits, targets=following)
        optimizer.step()
    with torch.no_grad():
        return (model(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("overfitting", margin=0.05)
def a_pipeline_without_its_augmentation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Windows of 150 noisy hums were turned in time at random, which the new pipeline left out; the twin's does it."""
    data = hums(seed, count=1200, noise=1.0)
    data = datasets.Data(data.inputs[:150], data.targets[:150], data.test_inputs, data.test_targets)
    model = nn.Sequential(
        nn.Flatten(), nn.Linear(48, 128), nn.ReLU(), nn.Dropout(0.1), nn.Linear(128, 64), nn.ReLU(), nn.Linear(64, 4)
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (windows, pitches) in enumerate(data.batches(30, 400), 1):
        if not sick:
            turned = [window.roll(int(torch.randint(48, ())), 1) for window in windows]
            windows = torch.stack(turned) + 0.7 * torch.randn_like(windows)
        logits = model(windows)
        loss = functional.cross_entropy(logits, pitches)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=windows, outputs=logits, targets=pitches)
        optimizer.step()
        if step % 25 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)
