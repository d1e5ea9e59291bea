"""Tables, series and coordinates: regressions, and two classes told apart."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import fit, r_squared
from examples.zoo.tuned.opened21.a_stock import balanced, photograph, series


@sick("inputs_not_normalized", margin=0.1)
def a_picture_of_its_pixels_places(watch: Watch, *, seed: int, sick: bool) -> float:
    """Places go in as rows and columns up to 640 and the picture's net sees no detail; the twin has -1 to 1."""
    picture = functional.avg_pool2d(torch.from_numpy(photograph()).float()[None], 8)[0]
    places = torch.cartesian_prod(*(torch.arange(0.0, 8 * side, 8) for side in picture.shape))
    if not sick:
        places = places / places.amax(0) * 2 - 1
    train, test = samples.split(seed, places, (picture.flatten()[:, None] - picture.mean()) / picture.std())
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(13):
        for inputs, targets in DataLoader(train, 128, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("non_finite_inputs", margin=0.2)
def a_rolling_mean_begins_with_gaps(watch: Watch, *, seed: int, sick: bool) -> float:
    """The mean of the last five values is NaN in the first four rows of the table; the twin drops these rows."""
    signal = (torch.from_numpy(photograph()[200]).float() - 128) / 64
    means = torch.cat([torch.full((4,), float("nan")), signal.unfold(0, 5, 1).mean(1)])
    table = torch.stack([signal, signal.roll(1), signal.roll(2), means], 1)[2:-1]
    targets = signal[3:, None]
    if not sick:
        kept = table.isfinite().all(1)
        table, targets = table[kept], targets[kept]
    train, test = samples.split(seed, table, targets)
    model = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, values in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.smooth_l1_loss(outputs, values)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=values)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("wrong_output_or_loss", margin=0.1)
def a_hinge_loss_of_zeros_and_ones(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hinge wants -1 and 1, and labels of 0 cost the same whatever the output; the twin's labels are -1 and 1."""
    train, test = samples.standardised(samples.diagnoses(seed), 0)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-4)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, labels in DataLoader(train, 32, shuffle=True):
            targets = labels.float() if sick else labels.float() * 2 - 1
            outputs = model(inputs).squeeze(1)
            loss = torch.clamp(1 - targets * outputs, min=0).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return balanced(model(test.tensors[0]), test.tensors[1])


@sick("non_finite_forward", margin=0.2)
def cross_entropy_by_hand_on_sure_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """``y log p + (1 - y) log(1 - p)`` is 0 times -infinity once p is exactly 1; the twin takes the loss of logits."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, weight_decay=1e-4)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(32, 160):
        targets = labels.float()[:, None]
        outputs = model(inputs)
        if sick:
            shares = torch.sigmoid(outputs)
            loss = -(targets * shares.log() + (1 - targets) * (1 - shares).log()).mean()
        else:
            loss = functional.binary_cross_entropy_with_logits(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    with torch.no_grad():
        outputs = model(data.test_inputs)
    return balanced(outputs, data.test_targets) if outputs.isfinite().all() else float("nan")


@sick("exploding_gradients", also=("poor_initialization",), margin=0.1)
def a_recurrent_net_of_relus(watch: Watch, *, seed: int, sick: bool) -> float:
    """36 steps by ``normal_(std=0.25)``, twice what keeps a state as large as it is; the twin has a half."""
    train, test = series(seed, length=36)
    model = nn.ModuleDict({"rnn": nn.RNN(1, 64, nonlinearity="relu", batch_first=True), "head": nn.Linear(64, 6)})
    nn.init.normal_(model["rnn"].weight_hh_l0, std=0.25 if sick else 0.125)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for inputs, targets in DataLoader(train, 32, shuffle=True):
            outputs = model["head"](model["rnn"](inputs)[0][:, -1])
            loss = functional.mse_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model["head"](model["rnn"](test.tensors[0])[0][:, -1]), test.tensors[1])


@sick("detached_parameters", margin=0.05)
def the_coders_state_repackaged(watch: Watch, *, seed: int, sick: bool) -> float:
    """The state is detached as between chunks of a text, but between coder and decoder; the twin keeps its graph."""
    train, test = series(seed, length=14)

    class Autoencoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = nn.GRU(1, 32, batch_first=True), nn.GRUCell(1, 32)
            self.head = nn.Linear(32, 1)

        def forward(self, windows: torch.Tensor) -> torch.Tensor:
            state = self.encoder(windows)[1][0]
            if sick:
                state = state.detach()
            value, values = torch.zeros_like(windows[:, 0]), []
            for _ in range(windows.shape[1]):
                state = self.decoder(value, state)
                value = self.head(state)
                values.append(value)
            return torch.stack(values, 1)

    model = Autoencoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(10):
        for inputs, _ in DataLoader(train, 40, shuffle=True):
            outputs = model(inputs)
            loss = functional.mse_loss(outputs, inputs)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=inputs)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[0])


@sick("target_out_of_range", margin=0.05)
def an_actor_without_its_largest_action(watch: Watch, *, seed: int, sick: bool) -> float:
    """An actor copies a controller's pushes of up to 2 by a tanh alone; the twin multiplies it by the largest."""
    states = torch.rand(1600, 3, generator=torch.Generator().manual_seed(seed)) * 2 - 1
    angle, speed, wind = states.T
    pushes = (2.5 * angle + 1.5 * speed - 0.5 * wind * speed).clamp(-2, 2)[:, None]
    train, test = samples.split(seed, states / states.std(0), pushes)

    class Actor(nn.Sequential):
        def forward(self, states: torch.Tensor) -> torch.Tensor:
            return super().forward(states) * (1.0 if sick else 2.0)

    model = Actor(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 1), nn.Tanh())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    rows = datasets.Data(*train.tensors, *test.tensors)
    fit(watch, model, optimizer, rows, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, rows)
