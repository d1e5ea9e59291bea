"""Policies that many copies of a small world train at once, with the clipped objective of PPO."""

import torch
from torch import nn
from torch.distributions import Categorical, Normal
from torch.nn import functional

from examples.zoo.cases import Watch, healthy

POLES = 8
LONGEST = 200


class _Poles:
    """Carts that keep a pole upright, with the equations of Gymnasium's CartPole; those that fall begin anew."""

    def __init__(self) -> None:
        self.state = self._start()
        self.age = torch.zeros(POLES)
        self.lengths: list[float] = []

    def step(self, actions: torch.Tensor) -> torch.Tensor:
        """Pushes each cart to the left (0) or right (1), and returns which episodes have ended, as 0 and 1."""
        _, speed, angle, turning = self.state.T
        cos, sin = angle.cos(), angle.sin()
        push = (20 * actions - 10 + 0.05 * turning**2 * sin) / 1.1
        turn = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos**2 / 1.1))
        moved = torch.stack([speed, push - 0.05 * turn * cos / 1.1, turning, turn], 1)
        self.state = self.state + 0.02 * moved
        self.age += 1
        ended = (self.state[:, 0].abs() > 2.4) | (self.state[:, 2].abs() > 0.2095) | (self.age >= LONGEST)
        self.lengths += self.age[ended].tolist()
        self.state = torch.where(ended[:, None], self._start(), self.state)
        self.age[ended] = 0
        return ended.float()

    def _start(self) -> torch.Tensor:
        return torch.rand(POLES, 4) * 0.1 - 0.05


def _layer(inputs: int, outputs: int, gain: float = 2**0.5) -> nn.Linear:
    layer = nn.Linear(inputs, outputs)
    nn.init.orthogonal_(layer.weight, gain)
    nn.init.zeros_(layer.bias)
    return layer


class _Agent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.critic = nn.Sequential(_layer(4, 64), nn.Tanh(), _layer(64, 64), nn.Tanh(), _layer(64, 1, 1.0))
        self.actor = nn.Sequential(_layer(4, 64), nn.Tanh(), _layer(64, 64), nn.Tanh(), _layer(64, 2, 0.01))

    def forward(self, states: torch.Tensor) -> tuple[Categorical, torch.Tensor]:
        return Categorical(logits=self.actor(states)), self.critic(states).squeeze(-1)


def _advantages(rewards: torch.Tensor, values: torch.Tensor, goes_on: torch.Tensor, decay: float) -> torch.Tensor:
    """Generalised advantages (T, N); the values (T + 1, N) have those of the last states, too."""
    found, last = torch.zeros_like(rewards), torch.zeros(rewards.shape[1])
    for time in range(len(rewards) - 1, -1, -1):
        error = rewards[time] + decay * values[time + 1] * goes_on[time] - values[time]
        found[time] = last = error + decay * 0.95 * goes_on[time] * last
    return found


def _centred(values: torch.Tensor) -> torch.Tensor:
    return (values - values.mean()) / (values.std() + 1e-8)


@healthy(at_least=0.5)
def a_policy_whose_value_errors_grow(watch: Watch, *, seed: int) -> float:
    """CleanRL's PPO: the loss grows as episodes do, since the errors of the values grow with the rewards in reach."""
    updates = 24
    agent, poles = _Agent(), _Poles()
    optimizer = torch.optim.Adam(agent.parameters(), lr=1.5e-3, eps=1e-5)
    session = watch(agent, optimizer)
    for update in range(updates):
        optimizer.param_groups[0]["lr"] = (1 - update / updates) * 1.5e-3
        seen, taken, logarithms, guesses, ends = [], [], [], [], []
        with torch.no_grad():
            for _ in range(64):
                chances, value = agent(poles.state)
                actions = chances.sample()
                seen.append(poles.state)
                taken.append(actions)
                logarithms.append(chances.log_prob(actions))
                guesses.append(value)
                ends.append(poles.step(actions))
            guesses.append(agent(poles.state)[1])
        values = torch.stack(guesses)
        found = _advantages(torch.ones(64, POLES), values, 1 - torch.stack(ends), 0.99)
        states, actions, old = torch.cat(seen), torch.cat(taken), torch.cat(logarithms)
        gains, guess, aims = found.flatten(), values[:-1].flatten(), (found + values[:-1]).flatten()
        for _ in range(4):
            for rows in torch.randperm(len(states)).split(128):
                chances, value = agent(states[rows])
                ratio = (chances.log_prob(actions[rows]) - old[rows]).exp()
                gain = _centred(gains[rows])
                of_policy = torch.max(-gain * ratio, -gain * ratio.clamp(0.8, 1.2)).mean()
                near = guess[rows] + (value - guess[rows]).clamp(-0.2, 0.2)
                of_value = 0.5 * torch.max((value - aims[rows]) ** 2, (near - aims[rows]) ** 2).mean()
                loss = of_policy - 0.01 * chances.entropy().mean() + 0.5 * of_value
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                session.step(loss)
                optimizer.step()
    return sum(poles.lengths[-20:]) / 20 / LONGEST


class _Gaussian(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.log_std = nn.Parameter(-0.5 * torch.ones(1))
        self.mu_net = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, states: torch.Tensor) -> Normal:
        return Normal(self.mu_net(states), self.log_std.exp())


def _moved(states: torch.Tensor, force: torch.Tensor) -> torch.Tensor:
    """Where points with a place and a speed (N, 2) are after a force (N, 1)."""
    speed = 0.9 * states[:, 1:] + 0.3 * force.clamp(-1, 1)
    return torch.cat([(states[:, :1] + 0.3 * speed).clamp(-2, 2), speed], 1)


def _cost(states: torch.Tensor) -> torch.Tensor:
    return states[:, 0] ** 2 + 0.1 * states[:, 1] ** 2


def _following(rewards: torch.Tensor) -> torch.Tensor:
    """The discounted sum of the rewards (T, N) from each time on."""
    found, total = torch.zeros_like(rewards), torch.zeros(rewards.shape[1])
    for time in range(len(rewards) - 1, -1, -1):
        found[time] = total = rewards[time] + 0.95 * total
    return found


@healthy(at_least=0.5)
def a_policy_that_stops_when_it_diverges(watch: Watch, *, seed: int) -> float:
    """Spinning Up's PPO: advantages have a mean of zero, so that each round's loss begins at zero and falls below."""
    policy = _Gaussian()
    critic = nn.Sequential(nn.Linear(2, 64), nn.Tanh(), nn.Linear(64, 1))
    of_policy, of_critic = (
        torch.optim.Adam(policy.parameters(), lr=1e-3),
        torch.optim.Adam(critic.parameters(), lr=3e-3),
    )
    acting, judging = watch(policy, of_policy), watch(critic, of_critic)
    better = 0.0
    for _ in range(30):
        start = states = torch.stack([torch.rand(64) * 2 - 1, torch.zeros(64)], 1)
        seen, taken, costs = [], [], []
        with torch.no_grad():
            for _ in range(20):
                force = policy(states).sample()
                seen.append(states)
                taken.append(force)
                states = _moved(states, force)
                costs.append(_cost(states))
            rows, forces, cost = torch.cat(seen), torch.cat(taken), torch.stack(costs)
            values = torch.cat([critic(rows).view(20, 64), torch.zeros(1, 64)])
            gain = _centred(_advantages(-cost, values, torch.ones(20, 64), 0.95).flatten())
            old = policy(rows).log_prob(forces).squeeze(-1)
            better = 1 - cost.mean().item() / _cost(start).mean().item()
        aims = _following(-cost).flatten()
        for _ in range(15):
            of_policy.zero_grad()
            new = policy(rows).log_prob(forces).squeeze(-1)
            if (old - new).mean() > 0.03:
                break
            ratio = (new - old).exp()
            loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
            loss.backward()
            acting.step(loss)
            of_policy.step()
        for _ in range(15):
            of_critic.zero_grad()
            error = functional.mse_loss(critic(rows).squeeze(-1), aims)
            error.backward()
            judging.step(error, inputs=rows, targets=aims)
            of_critic.step()
    return better
