"""Sound trainings that look odd: Q-networks whose loss rises, likelihoods below 0, sparse rows, and restarts."""

import copy

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened27.a_mazes import remembered, values
from examples.zoo.tuned.opened27.a_stock import BOOKS, READERS, hot, moved, solved


@healthy(at_least=0.9)
def two_networks_choose_and_judge(watch: Watch, *, seed: int) -> float:
    """Double DQN with a soft target: the loss is near 0 at first, and rises as the reward spreads in the maze."""
    policy = values(64)
    target = copy.deepcopy(policy).requires_grad_(False)
    memory = remembered(4000)
    optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3, amsgrad=True)
    session = watch(policy, optimizer)
    for rows in torch.randint(4000, (400, 96)):
        places, moves, after, rewards, ends = (column[rows] for column in memory)
        with torch.no_grad():
            best = policy(hot(after)).argmax(1, keepdim=True)
            wanted = rewards + 0.9 * (1 - ends) * target(hot(after)).gather(1, best)[:, 0]
        found = policy(hot(places)).gather(1, moves[:, None])[:, 0]
        loss = functional.smooth_l1_loss(found, wanted)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_value_(policy.parameters(), 100)
        session.step(loss, inputs=hot(places), outputs=found, targets=wanted)
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(target.parameters(), policy.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
    return solved(policy)


class Both(nn.Module):
    """An actor and a critic on one trunk."""

    def __init__(self) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(25, 48), nn.Tanh())
        self.actor, self.critic = nn.Linear(48, 4), nn.Linear(48, 1)

    def forward(self, seen: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        states = self.trunk(seen)
        return self.actor(states), self.critic(states)[:, 0]


@healthy(at_least=0.9)
def proximal_steps_in_a_maze(watch: Watch, *, seed: int) -> float:
    """PPO: four passes over each batch of turns, a clipped ratio, and a loss that goes up and down about 0."""
    model = Both()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    at = torch.randint(24, (96,))
    for _ in range(70):
        turns = []
        with torch.no_grad():
            for _ in range(8):
                chances = Categorical(logits=model(hot(at))[0])
                moves = chances.sample()
                after, rewards, ends = moved(at, moves)
                turns.append((at, moves, chances.log_prob(moves), rewards, ends))
                at = torch.where(ends > 0, torch.randint(24, (96,)), after)
            later, gained = model(hot(at))[1], []
            for _, _, _, rewards, ends in reversed(turns):
                later = rewards + 0.9 * (1 - ends) * later
                gained.append(later)
        seen, moves, before = (torch.cat([turn[column] for turn in turns]) for column in range(3))
        wanted = torch.cat(gained[::-1])
        with torch.no_grad():
            better = wanted - model(hot(seen))[1]
            better = (better - better.mean()) / (better.std() + 1e-8)
        for rows in torch.randperm(len(seen)).split(192):
            logits, worth = model(hot(seen[rows]))
            chances = Categorical(logits=logits)
            ratio = (chances.log_prob(moves[rows]) - before[rows]).exp()
            gain = torch.minimum(ratio * better[rows], ratio.clamp(0.8, 1.2) * better[rows]).mean()
            loss = -gain + 0.5 * functional.mse_loss(worth, wanted[rows]) - 0.01 * chances.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            session.step(loss, inputs=hot(seen[rows]), outputs=logits)
            optimizer.step()
    return solved(nn.Sequential(model.trunk, model.actor))


@healthy(at_least=0.8)
def an_odd_digit_out(watch: Watch, *, seed: int) -> float:
    """An autoencoder with 6 numbers in its middle sees zeros alone. Quality: the AUC of its error for other digits."""
    data = datasets.digits(seed)
    zeros = data.inputs[data.targets == 0]
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 6), nn.Linear(6, 32), nn.ReLU())
    model.append(nn.Sequential(nn.Linear(32, 64), nn.Sigmoid()))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(35):
        for rows in torch.randperm(len(zeros)).split(24):
            outputs = model(zeros[rows])
            loss = functional.mse_loss(outputs, zeros[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=zeros[rows], outputs=outputs, targets=zeros[rows])
            optimizer.step()
    with torch.no_grad():
        error = (model(data.test_inputs) - data.test_inputs).square().mean(1)
    usual, odd = error[data.test_targets == 0], error[data.test_targets != 0]
    return (odd[:, None] > usual[None]).float().mean().item()


class Liking(nn.Module):
    """How much readers like books, from sparse tables of vectors."""

    def __init__(self) -> None:
        super().__init__()
        self.readers, self.books = (nn.Embedding(rows, 12, sparse=True) for rows in (READERS, BOOKS))
        for table in (self.readers, self.books):
            nn.init.normal_(table.weight, std=0.1)

    def forward(self, who: torch.Tensor, what: torch.Tensor) -> torch.Tensor:
        return (self.readers(who) * self.books(what)).sum(1)


@healthy(at_least=0.85)
def liked_before_unliked(watch: Watch, *, seed: int) -> float:
    """BPR: the liked book of a pair is always the first, and most rows have no gradient. Quality: pairs in order."""
    table = datasets.digits(seed).inputs[:READERS]
    random = torch.Generator().manual_seed(seed)
    liked, unliked = ((table > 0.5).float() + 1e-9), ((table < 0.2).float() + 1e-9)
    pairs = [torch.multinomial(books, 40, replacement=True, generator=random).reshape(-1) for books in (liked, unliked)]
    train, test = samples.split(seed, torch.arange(READERS).repeat_interleave(40), *pairs, share=0.8)
    model = Liking()
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.01)
    session = watch(model, optimizer)
    for _ in range(4):
        for who, better, worse in DataLoader(train, 128, shuffle=True):
            lead = model(who, better) - model(who, worse)
            loss = -functional.logsigmoid(lead).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, outputs=lead)
            optimizer.step()
    with torch.no_grad():
        who, better, worse = test.tensors
        return (model(who, better) > model(who, worse)).float().mean().item()
