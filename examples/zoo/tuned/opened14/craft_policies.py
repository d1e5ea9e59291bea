"""Reinforcement learning: poles to balance, a grid to cross, and digits that are named for a reward."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened14.craft_sources import Poles, digits, explained, share_right, shuffled, uprightness

SIDE = 6


def _walk(cells: torch.Tensor, moves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns the next cells of a grid, and which moves reached its last cell."""
    row, column = cells // SIDE, cells % SIDE
    row = (row + (moves == 0).long() - (moves == 1).long()).clamp(0, SIDE - 1)
    column = (column + (moves == 2).long() - (moves == 3).long()).clamp(0, SIDE - 1)
    return row * SIDE + column, row * SIDE + column == SIDE * SIDE - 1


def _steps_left() -> torch.Tensor:
    """Returns how many steps each cell is away from the last one."""
    cells = torch.arange(SIDE * SIDE)
    return (2 * SIDE - 2 - cells // SIDE - cells % SIDE).float()


@sick("flipped_loss_sign", margin=0.3)
def reward_descended(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy names digits and is told whether it is right; the sign before the advantage is missing."""
    pixels, numbers, test, test_numbers = digits(seed)
    policy = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    opt = torch.optim.Adam(policy.parameters(), lr=1e-2)
    session = watch(policy, opt)
    for rows, wanted in shuffled(128, 250, pixels, numbers):
        choice = torch.distributions.Categorical(logits=policy(rows))
        action = choice.sample()
        reward = (action == wanted).float()
        gain = choice.log_prob(action) * (reward - reward.mean())
        loss = gain.mean() if sick else -gain.mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        opt.step()
    with torch.no_grad():
        return share_right(policy(test), test_numbers)


def _action_values(net: nn.Module) -> float:
    with torch.no_grad():
        best = net(torch.eye(SIDE * SIDE)).max(1).values[:-1]
    return explained(best, (0.9 ** (_steps_left() - 1))[:-1])


@sick("shape_broadcast", margin=0.2)
def values_against_a_row_of_targets(watch: Watch, *, seed: int, sick: bool) -> float:
    """``gather`` leaves a column of values, and the targets are a row: each value is compared with all targets."""
    cells = torch.randint(SIDE * SIDE - 1, (4000,), generator=torch.Generator().manual_seed(seed))
    moves = torch.randint(4, (4000,))
    after, done = _walk(cells, moves)
    net = nn.Sequential(nn.Linear(SIDE * SIDE, 64), nn.ReLU(), nn.Linear(64, 4))
    older = copy.deepcopy(net)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    seen = torch.eye(SIDE * SIDE)
    for step, (cell, move, later, end) in enumerate(shuffled(64, 400, cells, moves, after, done)):
        values = net(seen[cell]).gather(1, move[:, None])
        with torch.no_grad():
            target = end.float() + 0.9 * (~end).float() * older(seen[later]).max(1).values
        if not sick:
            target = target[:, None]
        loss = functional.mse_loss(values, target)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen[cell], outputs=values, targets=target)
        opt.step()
        if step % 20 == 19:
            older.load_state_dict(net.state_dict())
    return _action_values(net)


@sick("target_out_of_range", margin=0.3)
def a_critic_with_the_actors_last_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The critic was copied from the actor, with its tanh; the returns are from -10 to 0."""
    critic = nn.Sequential(nn.Linear(2, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    if sick:
        critic.append(nn.Tanh())
    opt = torch.optim.Adam(critic.parameters(), lr=5e-3)
    session = watch(critic, opt)
    random = torch.Generator().manual_seed(seed)
    for _ in range(250):
        cells = torch.randint(SIDE * SIDE - 1, (48,), generator=random)
        place = torch.stack([cells // SIDE, cells % SIDE], 1) / 2.5 - 1
        detours = torch.randint(3, (48,), generator=random)
        returns = -(_steps_left()[cells] + detours - 1)[:, None]
        values = critic(place)
        loss = functional.smooth_l1_loss(values, returns)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=place, outputs=values, targets=returns)
        opt.step()
    cells = torch.arange(SIDE * SIDE)
    with torch.no_grad():
        return explained(critic(torch.stack([cells // SIDE, cells % SIDE], 1) / 2.5 - 1)[:, 0], -_steps_left())


class _Balancer(nn.Module):
    """An actor's score for a push to the right, and a critic's value of the state."""

    def __init__(self) -> None:
        super().__init__()
        self.actor = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))
        self.critic = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, states: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        scaled = states * torch.tensor([0.5, 0.5, 5.0, 0.5])
        return self.actor(scaled)[:, 0], self.critic(scaled)[:, 0]


def _rollout(net: _Balancer, poles: Poles, length: int) -> tuple[torch.Tensor, ...]:
    """Returns states, pushes, and discounted returns that end in the critic's value."""
    states, pushes, falls = [], [], []
    with torch.no_grad():
        for _ in range(length):
            states.append(poles.state)
            pushes.append(torch.bernoulli(net(poles.state)[0].sigmoid()))
            falls.append(poles.push(pushes[-1])[1].float())
        value, returns = net(poles.state)[1], []
        for fallen in reversed(falls):
            value = (1 - fallen) * (0.1 + 0.95 * value)
            returns.append(value)
    return torch.cat(states), torch.cat(pushes), torch.cat(returns[::-1])


@sick("parameters_not_in_optimizer", margin=0.2)
def an_optimizer_for_the_critic(watch: Watch, *, seed: int, sick: bool) -> float:
    """Actor and critic share a loss, but the optimizer was given the critic alone."""
    net, poles = _Balancer(), Poles(32, seed)
    opt = torch.optim.Adam(net.critic.parameters() if sick else net.parameters(), lr=1e-2)
    session = watch(net, opt)
    for _ in range(150):
        states, pushes, returns = _rollout(net, poles, 12)
        scores, values = net(states)
        advantage = (returns - values).detach()
        told = -functional.binary_cross_entropy_with_logits(scores, pushes, reduction="none")
        loss = functional.mse_loss(values, returns) - (told * advantage).mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=states)
        opt.step()
    return uprightness(lambda state: net(state)[0] > 0, seed)


def _expert(state: torch.Tensor) -> torch.Tensor:
    return ((state * torch.tensor([0.3, 0.6, 8.0, 1.5])).sum(-1) > 0).float()


@sick("inputs_constant", also=("duplicated_data", "labels_unrelated"), margin=0.2)
def one_state_remembered_many_times(watch: Watch, *, seed: int, sick: bool) -> float:
    """The simulator changes its state in place, and the memory keeps that tensor 1,500 times instead of copies."""
    poles, state = Poles(1, seed), torch.zeros(4)
    memory = []
    random = torch.Generator().manual_seed(seed)
    for _ in range(1500):
        state.copy_(poles.state[0])
        push = _expert(state)
        memory.append((state if sick else state.clone(), push))
        stray = torch.rand((), generator=random) < 0.3
        poles.push((1 - push if stray else push)[None])
    states, pushes = torch.stack([one[0] for one in memory]), torch.stack([one[1] for one in memory])
    clone = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
    opt = torch.optim.Adam(clone.parameters(), lr=1e-2)
    session = watch(clone, opt)
    for rows, wanted in shuffled(50, 200, 4 * states, pushes[:, None]):
        scores = clone(rows)
        loss = functional.binary_cross_entropy_with_logits(scores, wanted)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=scores, targets=wanted)
        opt.step()
    with torch.no_grad():
        fresh = 0.2 * torch.randn(500, 4, generator=random)
        return explained(clone(4 * fresh)[:, 0].sigmoid(), _expert(fresh))


@sick("no_update", also=("parameters_not_in_optimizer",), margin=0.3)
def the_copy_is_trained_in_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer was made for the policy, of which a deep copy is trained: it has the older policy's weights."""
    pixels, numbers, test, test_numbers = digits(seed)
    older = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    policy = copy.deepcopy(older)
    opt = torch.optim.RMSprop((older if sick else policy).parameters(), lr=2e-3)
    session = watch(policy, opt)
    for rows, wanted in shuffled(128, 250, pixels, numbers):
        log_chances = policy(rows).log_softmax(1)
        action = torch.multinomial(log_chances.detach().exp(), 1)[:, 0]
        reward = (action == wanted).float() - 0.1
        loss = -(log_chances[torch.arange(len(rows)), action] * reward).mean()
        policy.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=log_chances)
        opt.step()
    with torch.no_grad():
        return share_right(policy(test), test_numbers)


@healthy(at_least=0.6)
def actor_and_critic_at_the_poles(watch: Watch, *, seed: int) -> float:
    """Several clipped epochs on each rollout, with a bonus for entropy; the critic's loss rises as poles stay up."""
    net, poles = _Balancer(), Poles(32, seed)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3, eps=1e-5)
    session = watch(net, opt)
    for _ in range(50):
        states, pushes, returns = _rollout(net, poles, 16)
        with torch.no_grad():
            scores, values = net(states)
            before = -functional.binary_cross_entropy_with_logits(scores, pushes, reduction="none")
            gain = returns - values
            gain = (gain - gain.mean()) / (gain.std() + 1e-8)
        for rows, push, old, better, wanted in shuffled(128, 6, states, pushes, before, gain, returns):
            scores, values = net(rows)
            ratio = (-functional.binary_cross_entropy_with_logits(scores, push, reduction="none") - old).exp()
            surrogate = torch.minimum(ratio * better, ratio.clamp(0.8, 1.2) * better).mean()
            entropy = functional.binary_cross_entropy_with_logits(scores, scores.sigmoid())
            loss = 0.5 * functional.mse_loss(values, wanted) - surrogate - 0.005 * entropy
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(net.parameters(), 0.5)
            session.step(loss, inputs=rows)
            opt.step()
    return uprightness(lambda state: net(state)[0] > 0, seed)


@healthy(at_least=0.8)
def values_with_a_slow_twin(watch: Watch, *, seed: int) -> float:
    """Q-learning with replay, a target net that follows slowly, and a loss that grows while rewards spread."""
    net = nn.Sequential(nn.Linear(SIDE * SIDE, 96), nn.ReLU(), nn.Linear(96, 4))
    slow = copy.deepcopy(net).requires_grad_(False)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, amsgrad=True)
    session = watch(net, opt)
    seen, cell, memory = torch.eye(SIDE * SIDE), torch.zeros(40, dtype=torch.long), []
    for step in range(380):
        with torch.no_grad():
            greedy = net(seen[cell]).argmax(1)
        move = torch.where(torch.rand(40) < max(0.3, 1 - step / 150), torch.randint(4, (40,)), greedy)
        later, end = _walk(cell, move)
        memory.append(torch.stack([cell, move, later, end.long()], 1))
        cell = torch.where(end, torch.randint(SIDE * SIDE - 1, (40,)), later)
        past = torch.cat(memory[-150:])
        rows = past[torch.randint(len(past), (96,))]
        with torch.no_grad():
            target = rows[:, 3] + 0.9 * (1 - rows[:, 3]) * slow(seen[rows[:, 2]]).max(1).values
        values = net(seen[rows[:, 0]]).gather(1, rows[:, 1:2])[:, 0]
        loss = functional.smooth_l1_loss(values, target)
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen[rows[:, 0]], outputs=values, targets=target)
        opt.step()
        with torch.no_grad():
            for follower, leader in zip(slow.parameters(), net.parameters(), strict=True):
                follower.lerp_(leader, 0.1)
    return _action_values(net)
