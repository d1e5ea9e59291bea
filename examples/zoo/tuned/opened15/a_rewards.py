"""Policies and values that are learned from rewards, in loops that go astray."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened15.a_motion import Carts, discounted, released, spared, swing


@sick("shape_broadcast")
def rewards_in_a_row_and_values_in_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """Temporal differences: rewards (N,) and values (N, 1) add up to (N, N); the twin has rewards (N, 1)."""
    paths = swing(released(seed, 200), 90)
    rewards = torch.cos(paths[:, :, 0])
    value = nn.Sequential(nn.Linear(2, 48), nn.Tanh(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(value.parameters(), lr=5e-3)
    session = watch(value, optimizer)
    for _ in range(350):
        who, when = torch.randint(150, (96,)), torch.randint(40, (96,))
        states, following, reward = paths[who, when], paths[who, when + 1], rewards[who, when]
        if not sick:
            reward = reward[:, None]
        with torch.no_grad():
            aim = reward + 0.9 * value(following)
        values = value(states)
        loss = functional.mse_loss(values, aim)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=values, targets=aim)
        optimizer.step()
    truth = discounted(rewards[150:].T, 0.9)[:40].T
    with torch.no_grad():
        return samples.explained(value(paths[150:, :40]).flatten()[:, None], truth.flatten()[:, None])


def _episodes(actor: nn.Module, count: int = 48, steps: int = 20) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Lets an actor push carts with noise, and returns states, forces and advantages, all times in one row."""
    carts = Carts(count)
    states, forces, rewards = [], [], []
    with torch.no_grad():
        for _ in range(steps):
            states.append(carts.states)
            forces.append(actor(carts.states).squeeze(1) + 0.5 * torch.randn(count))
            rewards.append(carts.push(forces[-1]))
    returns = discounted(torch.stack(rewards), 0.9)
    advantages = (returns - returns.mean(1, keepdim=True)) / (returns.std() + 1e-6)
    return torch.cat(states), torch.cat(forces), advantages.flatten()


@sick("flipped_loss_sign")
def a_policy_gradient_without_its_minus(watch: Watch, *, seed: int, sick: bool) -> float:
    """REINFORCE on carts, as the formula of the gradient stands in the book; but an optimizer goes down."""
    actor = nn.Sequential(nn.Linear(2, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(actor.parameters(), lr=1e-2)
    session = watch(actor, optimizer)
    for _ in range(120):
        states, forces, advantages = _episodes(actor)
        policy = torch.distributions.Normal(actor(states).squeeze(1), 0.5)
        gain = (policy.log_prob(forces) * advantages).mean()
        loss = gain if sick else -gain
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states)
        optimizer.step()
    return spared(lambda states: actor(states).squeeze(1))


@sick("over_regularized")
def a_bonus_for_entropy_that_drowns_the_rewards(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bandit that names digits; its bonus for entropy weighs 5 instead of 0.01, and the policy stays a die."""
    data = datasets.digits(seed)
    policy = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.RMSprop(policy.parameters(), lr=2e-3)
    session, baseline = watch(policy, optimizer), 0.1
    for states, answers in data.batches(128, 350):
        choice = torch.distributions.Categorical(logits=policy(states))
        guesses = choice.sample()
        rewards = (guesses == answers).float()
        gain = ((rewards - baseline) * choice.log_prob(guesses)).mean()
        loss = -gain - (5.0 if sick else 0.01) * choice.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=choice.logits)
        optimizer.step()
        baseline += 0.05 * (rewards.mean().item() - baseline)
    with torch.no_grad():
        paid = policy(data.test_inputs).softmax(1).gather(1, data.test_targets[:, None])
    return paid.mean().item()


@sick("detached_parameters")
def an_actor_cut_off_from_its_critic(watch: Watch, *, seed: int, sick: bool) -> float:
    """The actor's action is detached before the critic judges it, as it rightly is in the critic's own loss."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    states, wanted = train.tensors[0], train.tensors[1][:, :1]
    actor = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    critic = nn.Sequential(nn.Linear(11, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    of_actor = torch.optim.Adam(actor.parameters(), lr=2e-3)
    of_critic = torch.optim.Adam(critic.parameters(), lr=3e-3)
    acting, judging = watch(actor, of_actor), watch(critic, of_critic)
    for _ in range(350):
        rows = torch.randint(len(states), (64,))
        seen = states[rows]
        tried = actor(seen).detach() + torch.randn(64, 1)
        reward = -(tried - wanted[rows]).square()
        judged = critic(torch.cat([seen, tried], 1))
        loss = functional.smooth_l1_loss(judged, reward)
        of_critic.zero_grad()
        loss.backward()
        judging.step(loss, inputs=seen, outputs=judged, targets=reward)
        of_critic.step()
        action = actor(seen)
        loss = -critic(torch.cat([seen, action.detach() if sick else action], 1)).mean()
        of_actor.zero_grad()
        loss.backward()
        acting.step(loss, inputs=seen)
        of_actor.step()
    with torch.no_grad():
        return samples.explained(actor(test.tensors[0]), test.tensors[1][:, :1])


@sick("learning_rate_too_high")
def a_policy_that_jumps_to_one_action(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam with 0.3 drives the policy to one answer for all lines of code within few steps; the twin has 0.005."""
    train, test = samples.lines(seed)
    policy = nn.Sequential(nn.Linear(96, 32), nn.Tanh(), nn.Linear(32, len(samples.FILES)))
    optimizer = torch.optim.Adam(policy.parameters(), lr=0.3 if sick else 5e-3)
    session = watch(policy, optimizer)
    for _ in range(350):
        rows = torch.randint(len(train), (96,))
        states, answers = train.tensors[0][rows].sqrt(), train.tensors[1][rows]
        logits = policy(states)
        choice = torch.distributions.Categorical(logits=logits)
        guesses = choice.sample()
        rewards = (guesses == answers).float()
        loss = -((rewards - rewards.mean()) * choice.log_prob(guesses)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=logits)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(policy(test.tensors[0].sqrt()), test.tensors[1])
