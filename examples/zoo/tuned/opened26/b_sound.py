"""Sound trainings that look odd: agents, streams of text, rows that are seldom drawn, and losses of whole batches."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened26.b_lifetimes import partial_likelihood
from examples.zoo.tuned.opened26.b_play import quality_net, reached
from examples.zoo.tuned.opened26.b_shelf import Factors
from examples.zoo.tuned.opened26.b_stock import columns, concordance, lifetimes, ratings, walk


@healthy(at_least=0.95)
def an_agent_that_explores_less_and_less(watch: Watch, *, seed: int) -> float:
    """Q-learning from a memory that grows, with a copy renewed every 25 steps: the loss rises with each renewal."""
    online = quality_net()
    target = copy.deepcopy(online)
    optimizer = torch.optim.Adam(online.parameters(), lr=3e-3)
    session = watch(online, optimizer)
    memory: list[tuple[torch.Tensor, ...]] = []
    places = 2 * torch.rand(32) - 1
    for step in range(300):
        with torch.no_grad():
            actions = online(places[:, None]).argmax(-1)
        explores = torch.rand(32) < max(0.2, 1 - step / 150)
        actions = torch.where(explores, torch.randint(3, (32,)), actions)
        after, rewards, ends = walk(places, actions)
        memory.append((places, actions, after, rewards, ends))
        places = torch.where(ends | (torch.rand(32) < 0.05), 2 * torch.rand(32) - 1, after)
        chosen = torch.randint(len(memory), (4,)).tolist()
        before, done, then, gained, ended = (torch.cat(part) for part in zip(*(memory[i] for i in chosen), strict=True))
        values = online(before[:, None]).gather(1, done[:, None]).squeeze(1)
        with torch.no_grad():
            goals = gained + 0.9 * target(then[:, None]).max(1).values * ~ended
        loss = functional.smooth_l1_loss(values, goals)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=before, outputs=values, targets=goals)
        optimizer.step()
        if step % 25 == 24:
            target.load_state_dict(online.state_dict())
    return reached(online)


@healthy(at_least=0.9)
def a_gambler_with_an_entropy_bonus(watch: Watch, *, seed: int) -> float:
    """REINFORCE with a running baseline and a bonus for entropy: the loss is noise around 0, and says nothing."""
    random = torch.Generator().manual_seed(seed)
    best = torch.randn(6, 4, generator=random)
    policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    session = watch(policy, optimizer)
    baseline = 0.0
    for _ in range(400):
        states = torch.randn(128, 6)
        choice = torch.distributions.Categorical(logits=policy(states))
        arms = choice.sample()
        won = ((states @ best).argmax(-1) == arms).float()
        loss = -(choice.log_prob(arms) * (won - baseline)).mean() - 0.01 * choice.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * won.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=choice.logits)
        optimizer.step()
    states = torch.randn(1000, 6)
    with torch.no_grad():
        return (policy(states).argmax(-1) == (states @ best).argmax(-1)).float().mean().item()


@healthy(at_least=0.6)
def lifetimes_in_one_batch_of_all(watch: Watch, *, seed: int) -> float:
    """Cox's loss of all rows at once: each row's loss depends on all who live longer, and no batch is drawn."""
    (rows, months, ended), test = columns(lifetimes(seed))
    order = months.argsort(descending=True)
    model = nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=1e-2)
    session = watch(model, optimizer)
    for _ in range(150):
        risks = model(rows[order]).squeeze(-1)
        loss = partial_likelihood(risks, ended[order])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[order], outputs=risks)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return concordance(model(test[0]).squeeze(-1), test[1], test[2])


@healthy(at_least=0.65)
def rows_that_are_seldom_drawn(watch: Watch, *, seed: int) -> float:
    """Sparse gradients and ``SparseAdam``: in a batch of 32 pairs most users and items are not touched."""
    (users, items, liked), test = columns(ratings(seed, count=8000))
    model = Factors(6, 0.1, sparse=True)
    model.user_bias, model.item_bias = nn.Embedding(120, 1, sparse=True), nn.Embedding(90, 1, sparse=True)
    nn.init.zeros_(model.user_bias.weight)
    nn.init.zeros_(model.item_bias.weight)
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=2e-2)
    session = watch(model, optimizer)
    for _ in range(2):
        for batch in torch.randperm(len(users)).split(32):
            scores = model(users[batch], items[batch])
            loss = functional.mse_loss(scores, liked[batch])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=users[batch], outputs=scores, targets=liked[batch])
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test[0], test[1]), test[2])


@healthy(at_least=0.75)
def the_other_rows_are_what_is_not_liked(watch: Watch, *, seed: int) -> float:
    """A softmax over the batch's own items, with a temperature that is learnt: each row is judged by the others."""
    train, (users, items, liked) = columns(ratings(seed, count=24000))
    clicked = train[2] > 1
    train = [column[clicked] for column in train]

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.users, self.items = nn.Embedding(120, 8), nn.Embedding(90, 8)
            self.scale = nn.Parameter(torch.tensor(1.5))

        def forward(self, users: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
            user, item = (
                functional.normalize(self.users(users), dim=-1),
                functional.normalize(self.items(items), dim=-1),
            )
            return self.scale.exp() * user @ item.T

    model = Towers()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
    session = watch(model, optimizer)
    for _ in range(14):
        for batch in torch.randperm(len(train[0])).split(128):
            scores = model(train[0][batch], train[1][batch])
            own = torch.arange(len(batch))
            loss = functional.cross_entropy(scores, own)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[0][batch], outputs=scores, targets=own)
            optimizer.step()
    users, items = users[liked > 1], items[liked > 1]
    with torch.no_grad():
        others = model(users, torch.randint(90, items.shape)).diagonal()
        return (model(users, items).diagonal() > others).float().mean().item()
