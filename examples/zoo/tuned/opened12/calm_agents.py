"""Sound trainings of agents."""

import copy

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy

LENGTH = 8


@healthy(at_least=0.85)
def digits_named_for_a_reward(watch: Watch, *, seed: int) -> float:
    """REINFORCE with a critic of its own as baseline, in a world of one step; the policy's loss hovers about zero."""
    data = datasets.digits(seed)
    policy = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    critic = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1), nn.Flatten(0))
    policy_optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    critic_optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)
    policy_session, critic_session = watch(policy, policy_optimizer), watch(critic, critic_optimizer)
    for pixels, labels in data.batches(128, 300):
        choice = Categorical(logits=policy(pixels))
        action = choice.sample()
        reward = (action == labels).float()
        value = critic(pixels)
        policy_loss = -(choice.log_prob(action) * (reward - value.detach())).mean() - 0.01 * choice.entropy().mean()
        policy_optimizer.zero_grad()
        policy_loss.backward()
        policy_session.step(policy_loss)
        policy_optimizer.step()
        critic_loss = functional.mse_loss(value, reward)
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_session.step(critic_loss, inputs=pixels, outputs=value, targets=reward)
        critic_optimizer.step()
    return accuracy(policy, data)


@healthy(at_least=0.85)
def clipped_ratios_over_four_passes(watch: Watch, *, seed: int) -> float:
    """PPO in a world of one step: each collection is used in four passes over shuffled quarters."""
    data = datasets.digits(seed)
    model = nn.ModuleDict({"body": nn.Linear(64, 64), "actor": nn.Linear(64, 10), "critic": nn.Linear(64, 1)})
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, eps=1e-5)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(256, 24):
        with torch.no_grad():
            hidden = model["body"](pixels).tanh()
            choice = Categorical(logits=model["actor"](hidden))
            actions = choice.sample()
            logs, rewards = choice.log_prob(actions), (actions == labels).float()
            advantages = rewards - model["critic"](hidden).squeeze(1)
        for _ in range(4):
            for rows in torch.randperm(len(pixels)).chunk(4):
                hidden = model["body"](pixels[rows]).tanh()
                choice = Categorical(logits=model["actor"](hidden))
                ratio = (choice.log_prob(actions[rows]) - logs[rows]).exp()
                gain = advantages[rows]
                gain = (gain - gain.mean()) / (gain.std() + 1e-8)
                actor_loss = -torch.min(ratio * gain, ratio.clamp(0.8, 1.2) * gain).mean()
                critic_loss = functional.mse_loss(model["critic"](hidden).squeeze(1), rewards[rows])
                loss = actor_loss + 0.5 * critic_loss - 0.01 * choice.entropy().mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
                session.step(loss)
                optimizer.step()
    with torch.no_grad():
        named = model["actor"](model["body"](data.test_inputs).tanh()).argmax(1)
    return (named == data.test_targets).float().mean().item()


@healthy(at_least=0.9)
def values_along_a_corridor(watch: Watch, *, seed: int) -> float:
    """DQN with a memory and a soft target on a corridor; quality: how often it walks to the better end."""
    model = nn.Sequential(nn.Linear(LENGTH, 32), nn.ReLU(), nn.Linear(32, 2))
    target = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    random = torch.Generator().manual_seed(seed)
    places = torch.randint(LENGTH, (3000,), generator=random)
    moves = torch.randint(2, (3000,), generator=random)
    then = (places + 2 * moves - 1).clamp(0, LENGTH - 1)
    ended = then == LENGTH - 1
    rewards = ended.float()
    seen = torch.eye(LENGTH)
    session = watch(model, optimizer)
    for _ in range(300):
        rows = torch.randint(3000, (64,))
        with torch.no_grad():
            wanted = rewards[rows] + 0.9 * target(seen[then[rows]]).amax(1) * ~ended[rows]
        values = model(seen[places[rows]]).gather(1, moves[rows, None]).squeeze(1)
        loss = functional.smooth_l1_loss(values, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen[places[rows]], outputs=values, targets=wanted)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
    with torch.no_grad():
        return model(seen[:-1]).argmax(1).float().mean().item()
