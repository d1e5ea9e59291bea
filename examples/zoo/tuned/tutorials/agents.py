"""Agents in small worlds, as tutorials of reinforcement learning train them."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy

GOAL = 6
LONGEST = 30


def _walk(act: Callable[[torch.Tensor], int]) -> list[float]:
    """Walks along a corridor of seven places until its end is reached, and returns the rewards of each step."""
    place = 0
    rewards: list[float] = []
    while place != GOAL and len(rewards) < LONGEST:
        place = max(0, place + (1 if act(functional.one_hot(torch.tensor([place]), GOAL + 1).float()) else -1))
        rewards.append(1.0 if place == GOAL else -0.05)
    return rewards


def _returns(rewards: list[float]) -> torch.Tensor:
    """What follows from each step on, discounted, in units of its deviation from the mean."""
    total = 0.0
    found: list[float] = []
    for reward in reversed(rewards):
        total = reward + 0.99 * total
        found.insert(0, total)
    values = torch.tensor(found)
    return (values - values.mean()) / (values.std() + 1e-6)


def _pace(lengths: list[int]) -> float:
    """The shortest way over the mean length of the last ones: 1 is best."""
    return GOAL / (sum(lengths[-20:]) / 20)


@healthy(at_least=0.75)
def reinforce(watch: Watch, *, seed: int) -> float:
    """PyTorch's REINFORCE: the policy is called for each step of an episode, whose losses are summed."""
    model = nn.Sequential(nn.Linear(GOAL + 1, 32), nn.Dropout(0.2), nn.ReLU(), nn.Linear(32, 2), nn.Softmax(1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    lengths = []
    for _ in range(120):
        logarithms: list[torch.Tensor] = []

        def act(place: torch.Tensor, taken: list[torch.Tensor] = logarithms) -> int:
            chances = torch.distributions.Categorical(model(place))
            action = chances.sample()
            taken.append(chances.log_prob(action))
            return int(action)

        rewards = _walk(act)
        loss = torch.cat([-one * value for one, value in zip(logarithms, _returns(rewards), strict=True)]).sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
        lengths.append(len(rewards))
    return _pace(lengths)


class _ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.affine = nn.Linear(GOAL + 1, 64)
        self.action, self.value = nn.Linear(64, 2), nn.Linear(64, 1)

    def forward(self, place: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = functional.relu(self.affine(place))
        return functional.softmax(self.action(hidden), -1), self.value(hidden)


@healthy(at_least=0.75)
def actor_critic(watch: Watch, *, seed: int) -> float:
    """PyTorch's actor and critic: both losses of each step of an episode are summed."""
    model = _ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    lengths = []
    for _ in range(120):
        saved: list[tuple[torch.Tensor, torch.Tensor]] = []

        def act(place: torch.Tensor, taken: list[tuple[torch.Tensor, torch.Tensor]] = saved) -> int:
            shares, value = model(place)
            chances = torch.distributions.Categorical(shares)
            action = chances.sample()
            taken.append((chances.log_prob(action), value))
            return int(action)

        rewards = _walk(act)
        of_policy, of_value = [], []
        for (logarithm, value), reached in zip(saved, _returns(rewards), strict=True):
            of_policy.append(-logarithm * (reached - value.item()))
            of_value.append(functional.smooth_l1_loss(value, reached.view(1, 1)))
        optimizer.zero_grad()
        loss = torch.stack(of_policy).sum() + torch.stack(of_value).sum()
        loss.backward()
        session.step(loss)
        optimizer.step()
        lengths.append(len(rewards))
    return _pace(lengths)


def _expert(state: torch.Tensor) -> torch.Tensor:
    """The force (N, 1) that brings points with a place and a speed (N, 2) to rest at zero."""
    return (-2 * state[:, :1] - 1.5 * state[:, 1:]).clamp(-1, 1)


def _driven(act: Callable[[torch.Tensor], torch.Tensor], count: int) -> torch.Tensor:
    """The states (20 * count, 2) of points that a force moves for 20 steps, each from a place of its own."""
    state = torch.stack([torch.rand(count) * 2 - 1, torch.zeros(count)], 1)
    seen = []
    for _ in range(20):
        seen.append(state)
        speed = 0.9 * state[:, 1:] + 0.3 * act(state).clamp(-1, 1)
        state = torch.cat([(state[:, :1] + 0.3 * speed).clamp(-2, 2), speed], 1)
    return torch.cat(seen)


@healthy(at_least=0.9)
def an_expert_is_asked_again(watch: Watch, *, seed: int) -> float:
    """DAgger: states that the learner comes to are added, and batches are drawn from few rows, with replacement."""
    model = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    states = _driven(_expert, 3)
    for _ in range(6):
        for _ in range(40):
            rows = states[torch.randint(len(states), (64,))]
            outputs = model(rows)
            loss = functional.mse_loss(outputs, _expert(rows))
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=_expert(rows))
            optimizer.step()
        with torch.no_grad():
            states = torch.cat([states, _driven(model, 3)])
    with torch.no_grad():
        states = _driven(model, 50)
        return 1 - functional.mse_loss(model(states), _expert(states)).item() / _expert(states).var().item()
