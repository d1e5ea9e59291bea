"""Sound trainings on rewards and against each other, whose losses look odd."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened15.a_motion import Carts, discounted, spared

FORCES = torch.tensor([-2.0, 0.0, 2.0])


@healthy(at_least=0.3)
def double_q_learning(watch: Watch, *, seed: int) -> float:
    """Q-learning with a copy of the net as its target: the loss rises whenever the copy is renewed."""
    net = nn.Sequential(nn.Linear(2, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 3))
    target = copy.deepcopy(net).requires_grad_(False)
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    session, carts = watch(net, optimizer), Carts(64)
    memory: list[tuple[torch.Tensor, ...]] = []
    for step in range(400):
        if step % 25 == 0:
            carts = Carts(64)
        if step % 40 == 0:
            target.load_state_dict(net.state_dict())
        before = carts.states
        with torch.no_grad():
            actions = torch.where(torch.rand(64) < 0.3, torch.randint(3, (64,)), net(before).argmax(1))
        rewards = carts.push(FORCES[actions])
        memory = [*memory[-99:], (before, actions, rewards, carts.states)]
        states, actions, rewards, following = (
            torch.cat(column) for column in zip(*(memory[i] for i in torch.randint(len(memory), (3,))), strict=True)
        )
        with torch.no_grad():
            best = net(following).argmax(1, keepdim=True)
            aims = rewards + 0.9 * target(following).gather(1, best).squeeze(1)
        values = net(states).gather(1, actions[:, None]).squeeze(1)
        loss = functional.smooth_l1_loss(values, aims)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=values, targets=aims)
        optimizer.step()
    return spared(lambda states: FORCES[net(states).argmax(1)])


class _ActorCritic(nn.Module):
    """A policy over forces with a spread of its own, and a value."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
        self.critic = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
        self.log_spread = nn.Parameter(torch.tensor(-0.5))

    def forward(self, states: torch.Tensor) -> tuple[torch.distributions.Normal, torch.Tensor]:
        mean = self.actor(states).squeeze(1)
        return torch.distributions.Normal(mean, self.log_spread.exp()), self.critic(states).squeeze(1)


@healthy(at_least=0.3)
def proximal_policy_optimization(watch: Watch, *, seed: int) -> float:
    """PPO: each batch of episodes is used four times, and the clipped gain is near zero from the first step on."""
    model = _ActorCritic()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(20):
        carts, states, forces, rewards = Carts(48), [], [], []
        with torch.no_grad():
            for _ in range(25):
                states.append(carts.states)
                forces.append(model(carts.states)[0].sample())
                rewards.append(carts.push(forces[-1]))
            seen, pushed = torch.cat(states), torch.cat(forces)
            policy, values = model(seen)
            before = policy.log_prob(pushed)
            returns = discounted(torch.stack(rewards), 0.9).flatten()
            gains = returns - values
            gains = (gains - gains.mean()) / (gains.std() + 1e-6)
        for _ in range(4):
            for rows in torch.randperm(len(seen)).split(300):
                policy, values = model(seen[rows])
                ratio = (policy.log_prob(pushed[rows]) - before[rows]).exp()
                clipped = ratio.clamp(0.8, 1.2)
                loss = -torch.minimum(ratio * gains[rows], clipped * gains[rows]).mean()
                loss = loss + 0.1 * functional.mse_loss(values, returns[rows]) - 0.001 * policy.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                session.step(loss, inputs=seen[rows])
                optimizer.step()
    return spared(lambda states: model.actor(states).squeeze(1))


@healthy(at_least=0.7)
def wasserstein_critic_with_a_penalty(watch: Watch, *, seed: int) -> float:
    """WGAN-GP: the critic takes two steps for each of the generator's, and both losses may be negative."""
    real = datasets.wine(seed).inputs[:, [6, 9]]
    generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 2))
    critic = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    of_generator = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.0, 0.9))
    of_critic = torch.optim.Adam(critic.parameters(), lr=4e-3, betas=(0.0, 0.9))
    making, judging = watch(generator, of_generator), watch(critic, of_critic)
    for step in range(600):
        true = real[torch.randint(len(real), (128,))]
        made = generator(torch.randn(128, 4))
        if step % 3 == 2:
            loss = -critic(made).mean()
            of_generator.zero_grad()
            loss.backward()
            making.step(loss)
            of_generator.step()
            continue
        made = made.detach()
        between = torch.lerp(true, made, torch.rand(128, 1)).requires_grad_()
        (slope,) = torch.autograd.grad(critic(between).sum(), between, create_graph=True)
        loss = critic(made).mean() - critic(true).mean() + 0.5 * (slope.norm(dim=1) - 1).square().mean()
        of_critic.zero_grad()
        loss.backward()
        judging.step(loss)
        of_critic.step()
    with torch.no_grad():
        made = generator(torch.randn(1000, 4))
    apart = (made.mean(0) - real.mean(0)).abs().max() + (made.std(0) - real.std(0)).abs().max()
    return 1 - apart.item() / 2
