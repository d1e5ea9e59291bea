"""Sound trainings without a table of answers: agents, equations, tasks of tasks, fixed points."""

import math

import torch
from torch import nn
from torch.func import functional_call
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit

SIDE = 5


class Field:
    """Many walkers on a field of five by five, who get 1 at its last corner and pay 0.02 for each step."""

    def __init__(self, walkers: int) -> None:
        self.place = torch.randint(SIDE, (walkers, 2))

    def seen(self) -> torch.Tensor:
        """Returns where the walkers are, as a one-hot vector (N, 25)."""
        return functional.one_hot(self.place[:, 0] * SIDE + self.place[:, 1], SIDE * SIDE).float()

    def go(self, moves: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Takes moves (N,) and returns rewards and who has arrived; those who have begin anew."""
        steps = torch.tensor([[0, 1], [0, -1], [1, 0], [-1, 0]])
        self.place = (self.place + steps[moves]).clamp(0, SIDE - 1)
        arrived = (self.place == SIDE - 1).all(1)
        self.place[arrived] = torch.randint(SIDE - 1, (int(arrived.sum()), 2))
        return arrived.float() - 0.02, arrived


def _right_moves(preferred: torch.Tensor) -> float:
    """Returns at how many of the 24 places the preferred move (25,) brings a walker nearer to the corner."""
    rows, columns = torch.arange(25) // SIDE, torch.arange(25) % SIDE
    right = ((preferred == 0) & (columns < SIDE - 1)) | ((preferred == 2) & (rows < SIDE - 1))
    return right[:24].float().mean().item()


@healthy(at_least=0.7)
def actor_and_critic_on_a_field(watch: Watch, *, seed: int) -> float:
    """An actor and a critic share a layer; an entropy bonus keeps the actor curious, and the loss wanders."""
    model = nn.ModuleDict({"body": nn.Linear(25, 32), "actor": nn.Linear(32, 4), "critic": nn.Linear(32, 1)})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    field = Field(32)
    session = watch(model, optimizer)
    for _ in range(100):
        logs, values, rewards, ends, entropy = [], [], [], [], torch.zeros(())
        for _ in range(5):
            hidden = model["body"](field.seen()).tanh()
            policy = torch.distributions.Categorical(logits=model["actor"](hidden))
            moves = policy.sample()
            reward, arrived = field.go(moves)
            logs.append(policy.log_prob(moves))
            values.append(model["critic"](hidden).squeeze(1))
            rewards.append(reward)
            ends.append(arrived)
            entropy = entropy + policy.entropy().mean() / 5
        with torch.no_grad():
            total = model["critic"](model["body"](field.seen()).tanh()).squeeze(1)
        loss = -0.02 * entropy
        for log, value, reward, end in zip(*(reversed(kept) for kept in (logs, values, rewards, ends)), strict=True):
            total = reward + 0.9 * total * ~end
            loss = loss - ((total - value.detach()) * log).mean() / 5 + 0.5 * (total - value).square().mean() / 5
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss)
        optimizer.step()
    with torch.no_grad():
        return _right_moves(model["actor"](model["body"](torch.eye(25)).tanh()).argmax(1))


@healthy(at_least=0.7)
def values_of_moves_with_a_target_net(watch: Watch, *, seed: int) -> float:
    """Q-learning from a memory of walks, with a target net that is renewed now and then: the loss jumps each time."""
    torch.manual_seed(seed)
    model, target = (nn.Sequential(nn.Linear(25, 32), nn.ReLU(), nn.Linear(32, 4)) for _ in range(2))
    target.load_state_dict(model.state_dict())
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    field, memory = Field(64), []
    for _ in range(30):
        seen, moves = field.seen(), torch.randint(4, (64,))
        rewards, arrived = field.go(moves)
        memory.append((seen, moves, rewards, field.seen(), arrived))
    seen, moves, rewards, then, arrived = (torch.cat(column) for column in zip(*memory, strict=True))
    session = watch(model, optimizer)
    for step in range(350):
        rows = torch.randint(len(seen), (96,))
        with torch.no_grad():
            wanted = rewards[rows] + 0.9 * target(then[rows]).max(1).values * ~arrived[rows]
        values = model(seen[rows]).gather(1, moves[rows, None]).squeeze(1)
        loss = functional.smooth_l1_loss(values, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=seen[rows], outputs=values, targets=wanted)
        optimizer.step()
        if step % 25 == 24:
            target.load_state_dict(model.state_dict())
    with torch.no_grad():
        return _right_moves(model(torch.eye(25)).argmax(1))


@healthy(at_least=0.9)
def equation_of_a_swing(watch: Watch, *, seed: int) -> float:
    """A net learns u'' = -4 u from the equation alone, and two values at the start; there is no data."""
    torch.manual_seed(100 + seed)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    decay = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.99)
    session = watch(model, optimizer)

    def solution(times: torch.Tensor) -> torch.Tensor:
        return 1 + times.square() * model(times)

    for _ in range(300):
        times = (2 * torch.rand(48, 1)).requires_grad_()
        height = solution(times)
        (speed,) = torch.autograd.grad(height.sum(), times, create_graph=True)
        (force,) = torch.autograd.grad(speed.sum(), times, create_graph=True)
        loss = (force + 4 * height).square().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=times, outputs=height)
        optimizer.step()
        decay.step()
    times = torch.linspace(0, 2, 100)[:, None]
    with torch.no_grad():
        return 1 - (solution(times) - torch.cos(2 * times)).abs().max().item()


@healthy(at_least=0.5)
def one_step_from_a_shared_start(watch: Watch, *, seed: int) -> float:
    """MAML on sine waves: the loss after an inner step is what the outer step lowers. Quality: the share explained."""
    model = nn.Sequential(nn.Linear(1, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def adapted_loss(*, create_graph: bool) -> tuple[torch.Tensor, torch.Tensor]:
        height, shift = 1 + torch.rand(()), math.pi * torch.rand(())
        places = 6 * torch.rand(30, 1) - 3
        wave = height * torch.sin(places + shift)
        weights = dict(model.named_parameters())
        for _ in range(2):
            loss = functional.mse_loss(functional_call(model, weights, (places[:15],)), wave[:15])
            slopes = torch.autograd.grad(loss, list(weights.values()), create_graph=create_graph)
            weights = {
                name: weight - 0.05 * slope for (name, weight), slope in zip(weights.items(), slopes, strict=True)
            }
        return functional.mse_loss(functional_call(model, weights, (places[15:],)), wave[15:]), wave.var()

    session = watch(model, optimizer)
    for _ in range(100):
        loss = torch.stack([adapted_loss(create_graph=True)[0] for _ in range(2)]).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    errors, spreads = zip(*(adapted_loss(create_graph=False) for _ in range(40)), strict=True)
    return 1 - (sum(errors) / sum(spreads)).item()


class FixedPoint(nn.Module):
    """One layer that is used again until its state hardly changes; only the last use has a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.inward = nn.Linear(64, 32)
        self.again = nn.Linear(32, 32, bias=False)
        nn.init.orthogonal_(self.again.weight, gain=0.6)
        self.out = nn.Linear(32, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        pushed = self.inward(pixels)
        with torch.no_grad():
            state = torch.zeros_like(pushed)
            for _ in range(8):
                state = torch.tanh(pushed + self.again(state))
        return self.out(torch.tanh(pushed + self.again(state)))


@healthy(at_least=0.85)
def state_that_comes_to_rest(watch: Watch, *, seed: int) -> float:
    """A model of a fixed point, most of whose forward pass runs without gradients, as is meant."""
    data = datasets.digits(seed)
    model = FixedPoint()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)
