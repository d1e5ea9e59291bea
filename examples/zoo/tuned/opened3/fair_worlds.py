"""Sound trainings by reward: small worlds, noisy returns, losses that may rise."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, healthy

from . import material
from .material import descend


class Corridor:
    """Many walkers on seven places: right ends at +1, left at +0.1, and each step costs a little."""

    def __init__(self, count: int, random: torch.Generator) -> None:
        self.random, self.place = random, torch.full((count,), 2)

    def seen(self) -> Tensor:
        """Returns the places, one-hot."""
        return F.one_hot(self.place, 7).float()

    def step(self, right: Tensor) -> tuple[Tensor, Tensor]:
        """Moves all walkers; returns their rewards, and 1 for those that have arrived and start anew."""
        moved = self.place + torch.where(right > 0, 1, -1)
        reward = torch.where(moved == 6, 1.0, torch.where(moved == 0, 0.1, -0.02))
        done = (moved == 6) | (moved == 0)
        start = torch.randint(1, 6, moved.shape, generator=self.random)
        self.place = torch.where(done, start, moved)
        return reward, done.float()


def _played(policy: nn.Module) -> float:
    """Returns the share of the places at which the policy goes right."""
    with torch.no_grad():
        return (policy(torch.eye(7)[1:6])[:, :2].argmax(1) == 1).float().mean().item()


@healthy(at_least=0.8)
def reinforce_with_a_baseline(watch: Watch, *, seed: int) -> float:
    """Returns of twelve steps, less their mean: the loss is noise around zero throughout, and the policy learns."""
    random = material.drawn(seed)
    world, policy = Corridor(32, random), material.mlp(7, 24, 2, act=nn.Tanh)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    session = watch(policy, optimizer)
    for _ in range(120):
        logs, rewards, ends = [], [], []
        for _ in range(12):
            chances = policy(world.seen()).log_softmax(1)
            action = torch.multinomial(chances.detach().exp(), 1, generator=random)
            reward, done = world.step(action[:, 0])
            logs.append(chances.gather(1, action)[:, 0])
            rewards.append(reward)
            ends.append(done)
        gain, gains = torch.zeros(32), []
        for reward, done in zip(reversed(rewards), reversed(ends), strict=True):
            gain = reward + 0.95 * gain * (1 - done)
            gains.append(gain)
        total = torch.stack(gains[::-1])
        descend(session, optimizer, -(torch.stack(logs) * (total - total.mean())).mean())
    return _played(policy)


@healthy(at_least=0.8)
def q_values_with_a_slow_target(watch: Watch, *, seed: int) -> float:
    """Q-learning from a memory of moves with an averaged target: what is asked moves as values spread backwards."""
    random = material.drawn(seed)
    world, net, target = Corridor(16, random), material.mlp(7, 32, 2), material.mlp(7, 32, 2)
    target.load_state_dict(net.state_dict())
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session, memory = watch(net, optimizer), []
    for _ in range(400):
        with torch.no_grad():
            seen, wild = world.seen(), torch.rand(16, generator=random) < 0.4
            action = torch.where(wild, torch.randint(2, (16,), generator=random), net(seen).argmax(1))
            reward, done = world.step(action)
            memory.append((seen, action, reward, done, world.seen()))
            s, a, r, d, s2 = (torch.cat(part) for part in zip(*memory[-60:], strict=True))
            rows = torch.randint(len(s), (48,), generator=random)
            best = target(s2[rows]).gather(1, net(s2[rows]).argmax(1, keepdim=True))[:, 0]
            asked = r[rows] + 0.95 * (1 - d[rows]) * best
        out = net(s[rows]).gather(1, a[rows, None])[:, 0]
        descend(session, optimizer, F.smooth_l1_loss(out, asked), inputs=s[rows], outputs=out, targets=asked)
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), net.parameters(), strict=True):
                slow.lerp_(fast, 0.03)
    return _played(net)


@healthy(at_least=0.8)
def near_policies_with_clipped_ratios(watch: Watch, *, seed: int) -> float:
    """PPO: four passes over each roll-out, ratios clipped at a fifth, a value head and an entropy that is paid for."""
    random = material.drawn(seed)
    world, net = Corridor(48, random), material.mlp(7, 32, 3, act=nn.Tanh)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for _ in range(40):
        rolled = []
        for _ in range(8):
            with torch.no_grad():
                seen, out = world.seen(), net(world.seen())
                action = torch.multinomial(out[:, :2].softmax(1), 1, generator=random)
                reward, done = world.step(action[:, 0])
                ahead = reward + 0.95 * (1 - done) * net(world.seen())[:, 2]
                rolled.append(
                    (seen, action, out[:, :2].log_softmax(1).gather(1, action)[:, 0], ahead, ahead - out[:, 2])
                )
        seen, action, old, ahead, gain = (torch.cat(part) for part in zip(*rolled, strict=True))
        gain = (gain - gain.mean()) / (gain.std() + 1e-6)
        for rows in torch.randperm(len(seen), generator=random).split(96):
            out = net(seen[rows])
            chances = out[:, :2].log_softmax(1)
            ratio = (chances.gather(1, action[rows])[:, 0] - old[rows]).exp()
            won = torch.minimum(ratio * gain[rows], ratio.clamp(0.8, 1.2) * gain[rows]).mean()
            entropy = -(chances.exp() * chances).sum(1).mean()
            loss = F.mse_loss(out[:, 2], ahead[rows]) - won - 0.01 * entropy
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            session.step(loss, inputs=seen[rows], outputs=out)
            optimizer.step()
    return _played(net)


@healthy(at_least=0.7)
def arms_of_a_bandit_with_contexts(watch: Watch, *, seed: int) -> float:
    """One noisy reward of the arm that was pulled, nothing of the others. Quality: share of best arms."""
    random = material.drawn(seed)
    rule = torch.randn(6, 4, generator=random)
    net = material.mlp(6, 24, 4)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for _ in range(400):
        x = torch.randn(48, 6, generator=random)
        out = net(x)
        wild = torch.rand(48, generator=random) < 0.3
        arm = torch.where(wild, torch.randint(4, (48,), generator=random), out.argmax(1))[:, None]
        reward = (x @ rule).gather(1, arm) + torch.randn(48, 1, generator=random)
        said = out.gather(1, arm)
        descend(session, optimizer, F.mse_loss(said, reward), inputs=x, outputs=said, targets=reward)
    x = torch.randn(500, 6, generator=random)
    with torch.no_grad():
        return material.hit_rate(net(x), (x @ rule).argmax(1))


@healthy(at_least=0.8)
def an_expert_imitated_from_its_moves(watch: Watch, *, seed: int) -> float:
    """Behaviour cloning with a Gaussian policy: mean and spread are learnt, and the loss passes below zero."""
    data = material.curve(seed, count=1000)
    net = material.mlp(4, 48, 2, act=nn.Tanh)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, optimizer)
    for x, y in data.batches(48, 400):
        out = net(x)
        loss = F.gaussian_nll_loss(out[:, :1], y, F.softplus(out[:, 1:]) + 1e-3)
        descend(session, optimizer, loss, inputs=x, outputs=out, targets=y)
    with torch.no_grad():
        return material.fit_of(net(data.test_inputs)[:, :1], data.test_targets)
