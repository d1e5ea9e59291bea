"""Agents: choices that are rewarded, and values that are bootstrapped."""

import copy
import random

import torch
from torch import Tensor, nn
from torch.distributions import Categorical

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened6.likeness import digit_rows


def policy() -> nn.Sequential:
    return nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))


def rewarded(net: nn.Module, seed: int) -> float:
    *_, rows, labels = digit_rows(seed)
    with torch.no_grad():
        return float((net(rows).argmax(1) == labels).float().mean())


@sick("flipped_loss_sign")
def reward_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy gradient without its minus: what was rewarded becomes rarer."""
    rows, labels, *_ = digit_rows(seed)
    net = policy()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for _ in range(200):
        seen = torch.randint(len(rows), (128,))
        choice = Categorical(logits=net(rows[seen]))
        action = choice.sample()
        reward = (action == labels[seen]).float()
        gain = (choice.log_prob(action) * (reward - reward.mean())).mean()
        loss = gain if sick else -gain
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    return rewarded(net, seed)


class Corridor:
    """Sixteen fields in a row; the reward waits at the right end, and each walk starts anywhere."""

    size = 16

    def code(self, places: list[int]) -> Tensor:
        return nn.functional.one_hot(torch.tensor(places), self.size).float()

    def walk(self, start: int, right: int) -> tuple[int, float, float]:
        place = max(0, min(self.size - 1, start + (1 if right else -1)))
        done = float(place == self.size - 1)
        return place, done, done


def _moves(world: Corridor, source: random.Random, count: int) -> list[tuple[int, int, int, float, float]]:
    moves = []
    for _ in range(count):
        place, right = source.randrange(world.size - 1), source.randrange(2)
        moves.append((place, right, *world.walk(place, right)))
    return moves


def _q_learning(watch: Watch, seed: int, step: object) -> float:
    """Learns values of moves, whose targets come from a copy that lags; returns how well they are known."""
    world, source = Corridor(), random.Random(seed)
    net = nn.Sequential(nn.Linear(world.size, 32), nn.ReLU(), nn.Linear(32, 2))
    lagging = copy.deepcopy(net)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for number in range(200):
        if number % 8 == 0:
            lagging.load_state_dict(net.state_dict())
        moves = _moves(world, source, 32)
        before, action, after, reward, done = map(list, zip(*moves, strict=True))
        with torch.no_grad():
            ahead = lagging(world.code(after)).max(1).values
        target = torch.tensor(reward) + 0.9 * ahead * (1 - torch.tensor(done))
        value = net(world.code(before)).gather(1, torch.tensor(action)[:, None])[:, 0]
        loss = nn.functional.smooth_l1_loss(value, target)
        step(session, optimizer, loss, value, target)  # type: ignore[operator]
    with torch.no_grad():
        found = net(world.code(list(range(world.size - 1)))).max(1).values
    true = 0.9 ** torch.arange(world.size - 2, -1, -1)
    return max(-1.0, 1 - float((found - true).square().mean() / true.var()))


@sick("no_update")
def zeroed_after_backward(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands between ``backward`` and ``step``, in SGD's sense of order."""

    def step(session: object, optimizer: torch.optim.Optimizer, loss: Tensor, value: Tensor, target: Tensor) -> None:
        if not sick:
            optimizer.zero_grad()
        loss.backward()
        session.step(loss, outputs=value, targets=target)  # type: ignore[attr-defined]
        if sick:
            optimizer.zero_grad()
        optimizer.step()

    return _q_learning(watch, seed, step)


@healthy(at_least=0.5)
def values_with_a_lagging_copy(watch: Watch, *, seed: int) -> float:
    """Q-learning with a target network: targets move, and the loss rises with them."""

    def step(session: object, optimizer: torch.optim.Optimizer, loss: Tensor, value: Tensor, target: Tensor) -> None:
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, outputs=value, targets=target)  # type: ignore[attr-defined]
        optimizer.step()

    return _q_learning(watch, seed, step)


class ActorCritic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 32), nn.Tanh())
        self.actor, self.critic = nn.Linear(32, 10), nn.Linear(32, 1)

    def forward(self, rows: Tensor) -> tuple[Categorical, Tensor]:
        body = self.body(rows)
        return Categorical(logits=self.actor(body)), self.critic(body)


@sick("shape_broadcast")
def advantages_of_everybody(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rewards are a row and the critic's values a column: each advantage is taken against all values."""
    rows, labels, *_ = digit_rows(seed)
    net = ActorCritic()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    easy = (labels % 2 == 0).float()
    for _ in range(200):
        seen = torch.randint(len(rows), (96,))
        choice, value = net(rows[seen])
        action = choice.sample()
        reward = (action == labels[seen]).float() + 4 * easy[seen]
        worth = value if sick else value.squeeze(1)
        advantage = reward - worth
        loss = -(choice.log_prob(action) * advantage.detach()).mean() + 0.5 * advantage.pow(2).mean()
        loss = loss - 0.003 * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[seen])
        optimizer.step()
    *_, test_rows, test_labels = digit_rows(seed)
    with torch.no_grad():
        choice, _ = net(test_rows)
    return float((choice.probs.argmax(1) == test_labels).float().mean())


@healthy(at_least=0.6)
def rewarded_choices(watch: Watch, *, seed: int) -> float:
    """A policy gradient with a running baseline and a bonus for entropy: its loss says nothing, and rises."""
    rows, labels, *_ = digit_rows(seed)
    net, baseline = policy(), 0.1
    optimizer = torch.optim.Adam(net.parameters(), lr=1.5e-2)
    session = watch(net, optimizer)
    for _ in range(220):
        seen = torch.randint(len(rows), (128,))
        choice = Categorical(logits=net(rows[seen]))
        action = choice.sample()
        reward = (action == labels[seen]).float()
        loss = -(choice.log_prob(action) * (reward - baseline)).mean() - 0.01 * choice.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * reward.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    return rewarded(net, seed)
