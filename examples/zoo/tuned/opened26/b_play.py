"""Reinforcement learning: a walk to a goal, and a dose that fits a patient."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened26.b_stock import walk


def quality_net() -> nn.Sequential:
    """Returns a net from a place to the values of three actions."""
    return nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))


def reached(model: nn.Module) -> float:
    """Returns the share of places from which the best action leads to the goal within twelve steps."""
    places = torch.linspace(-1, 1, 101)
    done = torch.zeros(101, dtype=torch.bool)
    for _ in range(12):
        with torch.no_grad():
            actions = model(places[:, None]).argmax(-1)
        after, _, ends = walk(places, actions)
        places, done = torch.where(done, places, after), done | ends
    return done.float().mean().item()


def transitions(count: int) -> tuple[torch.Tensor, ...]:
    """Returns places, actions, next places, rewards and ends of a random walk."""
    places, actions = 2 * torch.rand(count) - 1, torch.randint(3, (count,))
    return places, actions, *walk(places, actions)


@sick("no_update", margin=0.2)
def the_copy_is_copied_into_the_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """The soft update's arguments are swapped: the net goes back to its copy after each step, which never moves."""
    memory = transitions(4000)
    online = quality_net()
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-3)
    session = watch(online, optimizer)

    def follow(follower: nn.Module, leader: nn.Module, share: float) -> None:
        with torch.no_grad():
            for ours, theirs in zip(follower.parameters(), leader.parameters(), strict=True):
                ours.copy_((1 - share) * ours + share * theirs)

    for _ in range(400):
        places, actions, after, rewards, ends = _drawn(memory)
        values = online(places[:, None]).gather(1, actions[:, None]).squeeze(1)
        with torch.no_grad():
            best = target(after[:, None]).max(1).values
            goals = rewards + 0.9 * best * ~ends
        loss = functional.smooth_l1_loss(values, goals)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=places, outputs=values, targets=goals)
        optimizer.step()
        if sick:
            follow(online, target, 0.95)
        else:
            follow(target, online, 0.05)
    return reached(online)


@sick("shape_broadcast", margin=0.1)
def values_of_actions_keep_their_axis(watch: Watch, *, seed: int, sick: bool) -> float:
    """``gather`` leaves values (N, 1), which meet goals (N,) as all pairs; the twin squeezes them."""
    memory = transitions(4000)
    online = quality_net()
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-3)
    session = watch(online, optimizer)
    for step in range(400):
        places, actions, after, rewards, ends = _drawn(memory)
        values = online(places[:, None]).gather(1, actions[:, None])
        if not sick:
            values = values.squeeze(1)
        with torch.no_grad():
            goals = rewards + 0.9 * target(after[:, None]).max(1).values * ~ends
        loss = functional.mse_loss(values, goals)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=places, outputs=values, targets=goals)
        optimizer.step()
        if step % 20 == 19:
            target.load_state_dict(online.state_dict())
    with torch.no_grad():
        return samples.explained(online(torch.linspace(-1, 1, 201)[:, None]), _true_values())


@sick("detached_parameters", margin=0.2)
def the_critic_judges_a_detached_dose(watch: Watch, *, seed: int, sick: bool) -> float:
    """DDPG's actor is judged by ``critic(state, action.detach())``, as in the critic's own step; the twin's is not."""

    class ActorAndCritic(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.actor = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 1))
            self.critic = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

        def judge(self, patients: torch.Tensor, doses: torch.Tensor) -> torch.Tensor:
            return self.critic(torch.cat([patients, doses], 1))

    def needed(patients: torch.Tensor) -> torch.Tensor:
        return patients[:, :1] - 0.5 * patients[:, 1:2] + 0.5 * patients[:, 2:3].abs()

    agent = ActorAndCritic()
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3)
    session = watch(agent, optimizer)
    for _ in range(350):
        patients = torch.randn(64, 4)
        doses = agent.actor(patients)
        tried = (doses + torch.randn(64, 1)).detach()
        rewards = -(tried - needed(patients)).square()
        judged = functional.smooth_l1_loss(agent.judge(patients, tried), rewards)
        agent.critic.requires_grad_(False)
        gain = agent.judge(patients, doses.detach() if sick else doses).mean()
        agent.critic.requires_grad_(True)
        loss = judged - 0.1 * gain
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=patients, outputs=doses)
        optimizer.step()
    patients = torch.randn(1000, 4)
    with torch.no_grad():
        return samples.explained(agent.actor(patients), needed(patients))


@sick("target_out_of_range", also=("saturated_units",), margin=0.1)
def a_critic_made_from_the_actors_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """A critic is built like the actor, with a ``Tanh`` at its end, and returns go down to -20; the twin has none."""
    random = torch.Generator().manual_seed(seed)
    starts = 2 * torch.rand(1500, 3, generator=random) - 1
    places, returns = starts.clone(), torch.zeros(1500)
    for step in range(15):
        returns -= 0.9**step * (places - 0.5).square().sum(1)
        places = 0.95 * places + 0.05 * torch.randn(1500, 3, generator=random)
    last = [nn.Tanh()] if sick else []
    starts = starts / starts.std()
    critic = nn.Sequential(nn.Linear(3, 64), nn.SiLU(), nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 1), *last)
    optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)
    session = watch(critic, optimizer)
    for _ in range(300):
        batch = torch.randint(1100, (64,))
        values = critic(starts[batch]).squeeze(-1)
        loss = functional.mse_loss(values, returns[batch])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=starts[batch], outputs=values, targets=returns[batch])
        optimizer.step()
    with torch.no_grad():
        return samples.explained(critic(starts[1100:]).squeeze(-1), returns[1100:])


def _drawn(memory: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
    batch = torch.randint(len(memory[0]), (64,))
    return tuple(part[batch] for part in memory)


def _true_values() -> torch.Tensor:
    places = torch.linspace(-1, 1, 201)[:, None].expand(-1, 3)
    after, rewards, ends = walk(places, torch.arange(3))
    values = torch.zeros(201, 3)
    for _ in range(60):
        best = values.max(1).values[((after + 1) * 100).round().long()]
        values = rewards + 0.9 * best * ~ends
    return values
