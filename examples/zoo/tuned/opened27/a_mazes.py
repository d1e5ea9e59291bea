"""Reinforcement learning: deep Q-networks, policy gradients and actors with critics, in a maze and with bandits."""

import copy

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened27.a_stock import hot, moved, solved

Memory = tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]


def remembered(count: int) -> Memory:
    """Returns places, moves, the places after them, rewards, and ends, of a player who moves at random."""
    places, moves = torch.randint(24, (count,)), torch.randint(4, (count,))
    return (places, moves, *moved(places, moves))


def values(width: int = 48) -> nn.Sequential:
    """Returns a network of the four moves' values."""
    return nn.Sequential(nn.Linear(25, width), nn.ReLU(), nn.Linear(width, 4))


@sick("shape_broadcast", margin=0.1)
def values_of_moves_against_a_row_of_targets(watch: Watch, *, seed: int, sick: bool) -> float:
    """DQN: ``gather`` gives (batch, 1) and the targets are (batch,), so that all meet all; the twin squeezes."""
    policy = values()
    target = copy.deepcopy(policy)
    memory = remembered(3000)
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-3)
    session = watch(policy, optimizer)
    for step in range(400):
        places, moves, after, rewards, ends = _drawn(memory)
        with torch.no_grad():
            wanted = rewards + 0.9 * (1 - ends) * target(hot(after)).max(1).values
        found = policy(hot(places)).gather(1, moves[:, None])
        found = found if sick else found[:, 0]
        loss = functional.smooth_l1_loss(found, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=hot(places), outputs=found, targets=wanted)
        optimizer.step()
        if step % 10 == 9:
            target.load_state_dict(policy.state_dict())
    return solved(policy)


def _drawn(memory: Memory) -> Memory:
    rows = torch.randint(len(memory[0]), (64,))
    return tuple(column[rows] for column in memory)


@sick("no_update", also=("parameters_not_in_optimizer",), margin=0.1)
def the_target_network_is_optimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """DQN: the optimizer is made of the target network, and the policy never moves; the twin's is of the policy."""
    policy = values()
    target = copy.deepcopy(policy)
    memory = remembered(3000)
    optimizer = torch.optim.RMSprop((target if sick else policy).parameters(), lr=1e-3)
    session = watch(policy, optimizer)
    for step in range(400):
        places, moves, after, rewards, ends = _drawn(memory)
        with torch.no_grad():
            wanted = rewards + 0.9 * (1 - ends) * target(hot(after)).max(1).values
        found = policy(hot(places)).gather(1, moves[:, None])[:, 0]
        loss = functional.mse_loss(found, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=hot(places), outputs=found, targets=wanted)
        optimizer.step()
        if step % 10 == 9:
            target.load_state_dict(policy.state_dict())
    return solved(policy)


@sick("flipped_loss_sign", margin=0.2)
def advantages_made_likelier_to_be_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """REINFORCE: the loss is the mean of log-probability times advantage, and lacks its minus; the twin has it."""
    data = datasets.digits(seed)
    policy = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    baseline = 0.1
    for pixels, labels in data.batches(128, 300):
        chances = Categorical(logits=policy(2 * pixels - 0.6))
        moves = chances.sample()
        rewards = (moves == labels).float()
        loss = (chances.log_prob(moves) * (rewards - baseline)).mean()
        loss = (loss if sick else -loss) - 0.05 * chances.entropy().mean()
        baseline += 0.1 * (rewards.mean().item() - baseline)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=chances.logits)
        optimizer.step()
    data = datasets.Data(data.inputs, data.targets, 2 * data.test_inputs - 0.6, data.test_targets)
    return accuracy(policy, data)


def _episodes(policy: nn.Module, count: int, *, kept: bool) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Returns the places seen, the moves and what was gained after them; ``kept`` forgets to go on."""
    places = torch.randint(24, (count,))
    at, seen, done, tried, gained = torch.full((count,), 0) if kept else places, [], torch.zeros(count), [], []
    for _ in range(12):
        shown = torch.zeros_like(at) if kept else at
        with torch.no_grad():
            moves = Categorical(logits=policy(hot(shown))).sample()
        seen.append(shown)
        tried.append(moves)
        at, rewards, ends = moved(at, moves)
        gained.append(rewards * (1 - done))
        done = done.maximum(ends)
    later = torch.zeros(count)
    for turn in reversed(range(12)):
        later = gained[turn] = gained[turn] + 0.9 * later
    return torch.cat(seen), torch.cat(tried), torch.cat(gained)


@sick("inputs_constant", margin=0.2)
def the_first_place_is_shown_again(watch: Watch, *, seed: int, sick: bool) -> float:
    """Actor-critic: ``place = after`` is missing, and the nets see the start at each turn; the twin's see the place."""
    actor, critic = values(), nn.Sequential(nn.Linear(25, 32), nn.ReLU(), nn.Linear(32, 1))
    acting = torch.optim.Adam(actor.parameters(), lr=0.01)
    judging = torch.optim.Adam(critic.parameters(), lr=0.01)
    sessions = watch(actor, acting), watch(critic, judging)
    for _ in range(150):
        places, moves, gained = _episodes(actor, 32, kept=sick)
        worth = critic(hot(places))[:, 0]
        loss = functional.mse_loss(worth, gained)
        judging.zero_grad()
        loss.backward()
        sessions[1].step(loss, inputs=hot(places), outputs=worth, targets=gained)
        judging.step()
        chances = Categorical(logits=actor(hot(places)))
        loss = -(chances.log_prob(moves) * (gained - worth.detach())).mean() - 0.01 * chances.entropy().mean()
        acting.zero_grad()
        loss.backward()
        sessions[0].step(loss, inputs=hot(places), outputs=chances.logits)
        acting.step()
    return solved(actor)


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def one_zero_grad_for_two_optimizers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Actor-critic: ``judging.zero_grad()`` stands twice, and the actor's gradients pile up; the twin has both."""
    data = datasets.digits(seed)
    actor = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    critic = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 1))
    acting = torch.optim.SGD(actor.parameters(), lr=0.2, momentum=0.9)
    judging = torch.optim.Adam(critic.parameters(), lr=3e-3)
    sessions = watch(actor, acting), watch(critic, judging)
    for pixels, labels in data.batches(128, 300):
        pixels = 2 * pixels - 0.6
        chances = Categorical(logits=actor(pixels))
        moves = chances.sample()
        rewards = (moves == labels).float()
        worth = critic(pixels)[:, 0]
        judged = functional.mse_loss(worth, rewards)
        loss = -(chances.log_prob(moves) * (rewards - worth.detach())).mean() - 0.08 * chances.entropy().mean()
        judging.zero_grad()
        (judging if sick else acting).zero_grad()
        loss.backward()
        judged.backward()
        sessions[0].step(loss, inputs=pixels, outputs=chances.logits)
        sessions[1].step(judged, inputs=pixels, outputs=worth, targets=rewards)
        acting.step()
        judging.step()
    data = datasets.Data(data.inputs, data.targets, 2 * data.test_inputs - 0.6, data.test_targets)
    return accuracy(actor, data)
