"""More forecasts of synthetic series: how steps are taken, and how numbers break."""

import copy

import torch
from torch import nn

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened6.waves import AHEAD, PAST, Waves, forecaster, judged, mean_square, skill, train


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def twelve_small_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of twelve small batches are summed where the rate was found for one."""
    waves, model, parts = Waves(seed), forecaster(), 12
    optimizer = torch.optim.SGD(model.parameters(), lr=0.12, momentum=0.9)
    session = watch(model, optimizer)
    for number, (past, ahead) in enumerate(waves.stream(parts * 40, 8), 1):
        guess = model(past)
        loss = mean_square(guess, ahead)
        (loss if sick else loss / parts).backward()
        if number % parts == 0:
            session.step(loss, inputs=past, outputs=guess, targets=ahead)
            optimizer.step()
            optimizer.zero_grad()
    return judged(model, waves)


@sick("schedule_collapsed")
def a_plateau_of_the_wrong_side(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau`` waits for the loss to rise: ``mode="max"``."""
    waves, model = Waves(seed), forecaster()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.5)
    plan = torch.optim.lr_scheduler.ReduceLROnPlateau(
        optimizer, mode="max" if sick else "min", factor=0.1, patience=0 if sick else 4
    )
    session = watch(model, optimizer)
    for number, (past, ahead) in enumerate(waves.stream(160), 1):
        guess = model(past)
        loss = mean_square(guess, ahead)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=ahead)
        optimizer.step()
        if number % 5 == 0:
            with session.validating():
                found = 1 - judged(model, waves)
            session.validation(found)
            plan.step(found)
    return judged(model, waves)


@sick("shape_broadcast")
def quantiles_against_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """The pinball loss takes a column of each quantile and a row of truths; the quality is the median's."""
    waves = Waves(seed)
    levels = (0.1, 0.5, 0.9)
    model = nn.Sequential(nn.Linear(PAST, 32), nn.ReLU(), nn.Linear(32, len(levels)))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for past, ahead in waves.stream(150):
        truth, guess = ahead[:, 0], model(past)
        loss = torch.zeros(())
        for index, level in enumerate(levels):
            column = guess[:, index : index + 1] if sick else guess[:, index]
            error = truth - column
            loss = loss + torch.maximum(level * error, (level - 1) * error).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=truth)
        optimizer.step()
    past, ahead = waves.unseen()
    with torch.no_grad():
        return skill(model(past)[:, 1], ahead[:, 0])


@sick("non_finite_backward")
def the_root_of_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """A distance from the last value, whose root has no derivative where a series stands still."""
    waves, model = Waves(seed), nn.Sequential(nn.Linear(2 * PAST, 32), nn.ReLU(), nn.Linear(32, AHEAD))
    scale = nn.Parameter(torch.ones(PAST))
    optimizer = torch.optim.Adam([*model.parameters(), scale], lr=3e-3)
    session = watch(model, optimizer)

    def features(past: torch.Tensor) -> torch.Tensor:
        moved = scale * (past - past[:, -1:])
        return torch.cat([past, torch.sqrt(moved.square() + (0.0 if sick else 1e-6))], 1)

    for past, ahead in waves.stream(120):
        guess = model(features(past))
        loss = mean_square(guess, ahead)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=ahead)
        optimizer.step()
    past, ahead = waves.unseen()
    with torch.no_grad():
        return skill(model(features(past)), ahead)


@sick("no_update")
def loaded_inside_the_loop(watch: Watch, *, seed: int, sick: bool) -> float:
    """The line that loads the weights to start from stands in the loop over batches."""
    waves, model = Waves(seed), forecaster()
    start = copy.deepcopy(model.state_dict())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    model.load_state_dict(start)
    for past, ahead in waves.stream(160):
        if sick:
            model.load_state_dict(start)
        guess = model(past)
        loss = mean_square(guess, ahead)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=past, outputs=guess, targets=ahead)
        optimizer.step()
    if sick:
        model.load_state_dict(start)
    return judged(model, waves)


class _Cell(nn.Module):
    """A recurrent cell of one's own, with a state that may be taken out of the graph."""

    def __init__(self, *, cut: bool) -> None:
        super().__init__()
        self.into, self.back = nn.Linear(1, 32), nn.Linear(32, 32, bias=False)
        self.read = nn.Linear(32, AHEAD)
        self.cut = cut

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        state = torch.zeros(len(past), 32)
        for value in past.unbind(1):
            state = torch.tanh(self.into(value[:, None]) + self.back(state))
        return self.read(torch.from_numpy(state.detach().numpy()) if self.cut else state)


@sick("detached_parameters")
def by_way_of_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """The last state goes through NumPy on its way to the output."""
    waves, model = Waves(seed), _Cell(cut=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    train(watch, model, optimizer, waves.stream(90), mean_square)
    return judged(model, waves)


class _Blocks(nn.Module):
    """Blocks that each explain what the ones before left, in a list of Python's."""

    def __init__(self, *, listed: bool) -> None:
        super().__init__()
        blocks = [nn.Sequential(nn.Linear(PAST, 24), nn.ReLU(), nn.Linear(24, PAST + AHEAD)) for _ in range(3)]
        self.blocks = blocks if listed else nn.ModuleList(blocks)
        self.last = nn.Linear(AHEAD, AHEAD)

    def forward(self, past: torch.Tensor) -> torch.Tensor:
        ahead = torch.zeros(len(past), AHEAD)
        for block in self.blocks:
            both = block(past)
            past, ahead = past - both[:, :PAST], ahead + both[:, PAST:]
        return self.last(ahead)


@sick("parameters_not_in_optimizer")
def blocks_in_a_plain_list(watch: Watch, *, seed: int, sick: bool) -> float:
    """A residual forecaster keeps its blocks in a list, where ``parameters()`` does not look."""
    waves, model = Waves(seed), _Blocks(listed=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    train(watch, model, optimizer, waves.stream(150), mean_square)
    return judged(model, waves)
