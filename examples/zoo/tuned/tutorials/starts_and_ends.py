"""How well-known trainings begin, with what is small on purpose, and how they look at what they have learnt."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy


@healthy(at_least=0.85)
def softmax_regression(watch: Watch, *, seed: int) -> float:
    """Dive into Deep Learning: a single layer whose weights start with a deviation of 0.01."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    nn.init.normal_(net[1].weight, std=0.01)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    session = watch(net, optimizer)
    criterion = nn.CrossEntropyLoss(reduction="none")
    for inputs, labels in data.batches(64, 250):
        outputs = net(inputs)
        loss = criterion(outputs, labels)
        optimizer.zero_grad()
        loss.mean().backward()
        session.step(loss.mean(), inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(net, data)


class _Point:
    """A point on a line that a force drives; the reward is less the farther it is from zero, and the faster."""

    def __init__(self) -> None:
        self.state = torch.tensor([torch.rand(()).item() * 2 - 1, 0.0])

    def step(self, force: torch.Tensor) -> float:
        place, speed = self.state
        speed = 0.9 * speed + 0.3 * force.clamp(-1, 1).item()
        self.state = torch.stack([(place + 0.3 * speed).clamp(-2, 2), speed])
        return -(place**2 + 0.1 * speed**2).item()


def _net(inputs: int) -> nn.Sequential:
    """A net whose last layer starts between -0.003 and 0.003, as in the paper."""
    net = nn.Sequential(nn.Linear(inputs, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
    for parameter in net[-1].parameters():
        nn.init.uniform_(parameter, -3e-3, 3e-3)
    return net


@healthy(at_least=0.5)
def deterministic_policy_gradients(watch: Watch, *, seed: int) -> float:
    """DDPG: actor and critic with last layers near zero, targets that follow slowly, and a memory of steps."""
    actor, critic, slow_actor, slow_critic = _net(2), _net(3), _net(2), _net(3)
    slow_actor.load_state_dict(actor.state_dict())
    slow_critic.load_state_dict(critic.state_dict())
    of_actor = torch.optim.Adam(actor.parameters(), lr=1e-3)
    of_critic = torch.optim.Adam(critic.parameters(), lr=2e-3)
    acting, judging = watch(actor, of_actor), watch(critic, of_critic)
    memory, totals, point = [], [0.0], _Point()
    for step in range(420):
        before = point.state
        with torch.no_grad():
            force = torch.tanh(actor(before[None]))[0] + 0.2 * torch.randn(1)
        reward = point.step(force)
        totals[-1] += reward
        memory.append(torch.cat([before, force, torch.tensor([reward]), point.state]))
        if step % 30 == 29:
            totals.append(0.0)
            point = _Point()
        if step < 64:
            continue
        states, forces, rewards, following = torch.stack(memory)[torch.randint(step, (64,))].split([2, 1, 1, 2], 1)
        with torch.no_grad():
            aims = rewards + 0.95 * slow_critic(torch.cat([following, torch.tanh(slow_actor(following))], 1))
        loss = functional.mse_loss(critic(torch.cat([states, forces], 1)), aims)
        of_critic.zero_grad()
        loss.backward()
        judging.step(loss)
        of_critic.step()
        loss = -critic(torch.cat([states, torch.tanh(actor(states))], 1)).mean()
        of_actor.zero_grad()
        loss.backward()
        acting.step(loss)
        of_actor.step()
        with torch.no_grad():
            for net, slow in ((actor, slow_actor), (critic, slow_critic)):
                for ours, theirs in zip(net.parameters(), slow.parameters(), strict=True):
                    theirs.mul_(0.98).add_(ours, alpha=0.02)
    return 1 + sum(totals[-4:-1]) / 3 / 10


@healthy(at_least=0.2)
def embeddings_near_zero(watch: Watch, *, seed: int) -> float:
    """RWKV: embeddings of 0.0001 with a layer norm behind them, whose first gradients are the larger for it."""
    data = datasets.text(seed, length=24, count=1000)
    embed, norm = nn.Embedding(datasets.CHARACTERS, 48), nn.LayerNorm(48)
    nn.init.uniform_(embed.weight, -1e-4, 1e-4)
    mix, head = nn.GRU(48, 48, batch_first=True), nn.Linear(48, datasets.CHARACTERS, bias=False)
    model = nn.ModuleList([embed, norm, mix, nn.LayerNorm(48), head])

    def scores(codes: torch.Tensor) -> torch.Tensor:
        hidden = norm(embed(codes))
        return head(model[3](hidden + mix(hidden)[0]))

    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3, betas=(0.9, 0.99))
    session = watch(model, optimizer)
    for codes, following in data.batches(16, 150):
        loss = functional.cross_entropy(scores(codes).view(-1, datasets.CHARACTERS), following.reshape(-1))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes)
        optimizer.step()
    with torch.no_grad():
        return (scores(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.25)
def dropout_as_a_sample(watch: Watch, *, seed: int) -> float:
    """Monte Carlo dropout: after each epoch the same rows are predicted ten times, in training mode."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    explained = 0.0
    for _ in range(20):
        for rows in torch.randperm(len(data.inputs)).split(32):
            outputs = model(data.inputs[rows])
            loss = functional.mse_loss(outputs, data.targets[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
        with torch.no_grad():
            mean = torch.stack([model(data.test_inputs) for _ in range(10)]).mean(0)
        explained = 1 - functional.mse_loss(mean, data.test_targets).item() / data.test_targets.var().item()
    return explained
