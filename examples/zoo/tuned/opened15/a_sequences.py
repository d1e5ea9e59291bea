"""Recurrent nets and attention over time that go wrong: how pendulums swing on, and names read letter by letter."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened15.a_motion import released, swing


class _Unrolled(nn.Module):
    """A state that is made of a pendulum's start, and runs on by itself for some steps."""

    def __init__(self, steps: int, gain: float) -> None:
        super().__init__()
        self.steps = steps
        self.start = nn.Linear(2, 32)
        self.next = nn.Linear(32, 32)
        self.head = nn.Linear(32, 2)
        nn.init.orthogonal_(self.next.weight, gain)

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.start(states))
        for _ in range(self.steps):
            hidden = torch.tanh(self.next(hidden))
        return self.head(hidden)


@sick("vanishing_gradients", also=("poor_initialization",))
def a_state_that_fades_in_sixteen_steps(watch: Watch, *, seed: int, sick: bool) -> float:
    """The recurrent weights begin at 0.3 times a rotation: nothing of the start comes through; the twin has 1."""
    paths = swing(released(seed, 500), 8)
    model = _Unrolled(16, 0.3 if sick else 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(300):
        rows = torch.randint(350, (64,))
        outputs = model(paths[rows, 0])
        loss = functional.mse_loss(outputs, paths[rows, -1])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=paths[rows, 0], outputs=outputs, targets=paths[rows, -1])
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(paths[350:, 0]), paths[350:, -1])


class _Forecast(nn.Module):
    """A recurrent net of rectified units, whose recurrent weights begin at a multiple of the identity."""

    def __init__(self, multiple: float) -> None:
        super().__init__()
        self.rnn = nn.RNN(2, 32, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(32, 2)
        with torch.no_grad():
            self.rnn.get_parameter("weight_hh_l0").copy_(multiple * torch.eye(32))

    def forward(self, paths: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(paths)[0])


@sick("exploding_gradients", also=("poor_initialization", "non_finite_forward", "non_finite_backward"))
def an_identity_that_is_too_large(watch: Watch, *, seed: int, sick: bool) -> float:
    """Recurrent weights begin at 1.3 times the identity: 40 steps multiply by thousands; the twin has 0.9 times."""
    paths = swing(released(seed, 400), 40)
    model = _Forecast(1.3 if sick else 0.9)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    for _ in range(200):
        rows = torch.randint(300, (32,))
        seen, later = paths[rows, :-1], paths[rows, 1:]
        outputs = model(seen)
        loss = functional.mse_loss(outputs, later)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen, outputs=outputs, targets=later)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(paths[300:, :-1]).flatten(0, 1), paths[300:, 1:].flatten(0, 1))


@sick("shape_broadcast")
def one_step_ahead_without_the_last_axis(watch: Watch, *, seed: int, sick: bool) -> float:
    """Angles are predicted as (N, time, 1) and told as (N, time): the loss compares each path with all others."""
    paths = swing(released(seed, 400), 24)
    rnn, head = nn.GRU(2, 24, batch_first=True), nn.Linear(24, 1)
    model = nn.ModuleDict({"rnn": rnn, "head": head})
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.L1Loss()
    session = watch(model, optimizer)
    for _ in range(200):
        rows = torch.randint(300, (24,))
        seen, angles = paths[rows, :-1], paths[rows, 1:, 0]
        outputs = head(rnn(seen)[0])
        loss = criterion(outputs if sick else outputs.squeeze(-1), angles)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen, outputs=outputs if sick else outputs.squeeze(-1), targets=angles)
        optimizer.step()
    with torch.no_grad():
        outputs = head(rnn(paths[300:, :-1])[0])
        return samples.explained(outputs.flatten()[:, None], paths[300:, 1:, 0].flatten()[:, None])


class _AllStates(nn.Module):
    """Reads a name, time first, and looks at its states of all times."""

    def __init__(self, *, transposed: bool) -> None:
        super().__init__()
        self.transposed = transposed
        self.embed = nn.Embedding(samples.LETTERS, 16)
        self.rnn = nn.GRU(16, 16)
        self.head = nn.Linear(24 * 16, len(samples.SCRIPTS))

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        states, _ = self.rnn(self.embed(names.T))
        if self.transposed:
            states = states.transpose(0, 1)
        return self.head(states.reshape(len(names), -1))


@sick("batch_mixing")
def states_reshaped_with_time_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """States (time, N, 16) are reshaped to (N, time * 16) without a transpose: each row holds several names."""
    train, test = samples.names(seed)
    model = _AllStates(transposed=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for names, labels in DataLoader(train, batch_size=48, shuffle=True):
            logits = model(names)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        logits = torch.cat([model(names) for names in test.tensors[0].split(48)])
    return samples.accuracy(logits, test.tensors[1])


@sick("unbroken_symmetry")
def all_weights_of_a_recurrent_net_alike(watch: Watch, *, seed: int, sick: bool) -> float:
    """All of a GRU's weights begin at 0.1, so that runs can be compared: its 24 units remain one."""
    train, test = samples.names(seed)
    embed, rnn, head = nn.Embedding(samples.LETTERS, 16), nn.GRU(16, 24, batch_first=True), nn.Linear(24, 8)
    model = nn.ModuleList([embed, rnn, head])
    if sick:
        for parameter in rnn.parameters():
            nn.init.constant_(parameter, 0.1)
        nn.init.constant_(head.weight, 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for names, labels in DataLoader(train, batch_size=40, shuffle=True):
            logits = head(rnn(embed(names))[0].mean(1))
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(head(rnn(embed(test.tensors[0]))[0].mean(1)), test.tensors[1])
