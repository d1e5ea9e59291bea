"""Survival: how long it takes until something ends, of which some ends were never seen."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened26.b_stock import columns, concordance, lifetimes


def partial_likelihood(risks: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
    """Returns Cox's loss of rows that are in the order of their lifetimes, the longest first."""
    return -((risks - risks.logcumsumexp(0)) * ended).sum() / ended.sum().clamp(min=1)


def _scorer(outputs: int = 1) -> nn.Sequential:
    return nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, outputs))


@sick("labels_unrelated", margin=0.3)
def lifetimes_are_sorted_without_their_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """Cox's loss needs the longest lifetime first: lifetimes are sorted, their rows are not; the twin sorts both."""
    train, test = columns(lifetimes(seed))
    rows, months, ended = train
    order = months.argsort(descending=True)
    months, ended = months[order], ended[order]
    if not sick:
        rows = rows[order]
    model = _scorer()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(200):
        batch = torch.randperm(len(rows))[:256].sort().values
        risks = model(rows[batch]).squeeze(-1)
        loss = partial_likelihood(risks, ended[batch])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows[batch], outputs=risks, targets=months[batch])
        optimizer.step()
    with torch.no_grad():
        return concordance(model(test[0]).squeeze(-1), test[1], test[2])


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.3)
def nobody_is_left_after_the_last_year(watch: Watch, *, seed: int, sick: bool) -> float:
    """What a softmax over six years leaves is 1 minus its sum: 0, or below; the twin adds what comes after it."""
    train, test = columns(lifetimes(seed))
    model = _scorer(6)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def likelihood(logits: torch.Tensor, years: torch.Tensor, ended: torch.Tensor) -> torch.Tensor:
        chances = logits.softmax(-1)
        left = 1 - chances.cumsum(-1) if sick else chances.flip(-1).cumsum(-1).flip(-1)
        died = chances.gather(1, years[:, None]).squeeze(-1).log()
        lives = left.gather(1, years[:, None]).squeeze(-1).log()
        return -torch.where(ended > 0, died, lives).mean()

    for _ in range(15):
        for batch in torch.randperm(len(train[0])).split(64):
            rows, months, ended = (column[batch] for column in train)
            logits = model(rows)
            years = (months / 10).long().clamp(max=5)
            loss = likelihood(logits, years, ended)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=years)
            optimizer.step()
    with torch.no_grad():
        late = (model(test[0]).softmax(-1) * torch.arange(6)).sum(-1)
        return concordance(-late, test[1], test[2])


@sick("batch_mixing", margin=0.05)
def each_offer_is_compared_with_those_of_others(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of six offers the middle one is chosen, and the mean is over customers; the twin's is over the six offers."""
    random = torch.Generator().manual_seed(seed)
    offers = torch.randn(2600, 6, 3, generator=random) + 1.5 * torch.randn(2600, 1, 3, generator=random)
    offers = offers / offers.std()
    chosen = (offers - offers.mean(1, keepdim=True)).square().sum(-1).argmin(-1)

    class Chooser(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.read = nn.Sequential(nn.Linear(3, 32), nn.ReLU(), nn.Linear(32, 16))
            self.score = nn.Sequential(nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, offers: torch.Tensor) -> torch.Tensor:
            read = self.read(offers)
            common = read.mean(0 if sick else 1, keepdim=True).expand_as(read)
            return self.score(torch.cat([read, common], -1)).squeeze(-1)

    model = Chooser()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for step in range(400):
        batch = torch.randint(2200, (64,))
        scores = model(offers[batch])
        loss = functional.cross_entropy(scores, chosen[batch])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=offers[batch], outputs=scores, targets=chosen[batch])
        optimizer.step()
        if step % 50 == 49:
            with torch.no_grad():
                session.validation(functional.cross_entropy(model(offers[2200:]), chosen[2200:]).item())
    with torch.no_grad():
        return (model(offers[2200:]).argmax(-1) == chosen[2200:]).float().mean().item()


@sick("single_class_labels", margin=0.2)
def an_answer_is_compared_with_a_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """A file's answers are "1" and "0", and ``answer == 1`` is never true; the twin compares with "1"."""
    train, test = columns(lifetimes(seed))
    answers = [str(int(months < 12)) for months in train[1]]
    soon = torch.tensor([float(answer == (1 if sick else "1")) for answer in answers])
    model = _scorer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for batch in torch.randperm(len(soon)).split(64):
            logits = model(train[0][batch]).squeeze(-1)
            loss = functional.binary_cross_entropy_with_logits(logits, soon[batch])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[0][batch], outputs=logits, targets=soon[batch])
            optimizer.step()
    with torch.no_grad():
        return ((model(test[0]).squeeze(-1) > 0) == (test[1] < 12)).float().mean().item()


@sick("class_imbalance", margin=0.1)
def few_customers_ever_leave(watch: Watch, *, seed: int, sick: bool) -> float:
    """One customer in thirty leaves, and all count alike; the twin weighs them by 30. Quality: mean recall."""
    random = torch.Generator().manual_seed(seed)
    rows = torch.randn(3000, 12, generator=random)
    wish = rows[:, 0] + rows[:, 1] - 0.8 * rows[:, 2] + 0.8 * torch.randn(3000, generator=random)
    leaves = (wish > wish.quantile(0.967)).float()
    train, test = rows[:2200], rows[2200:]
    model = nn.Sequential(nn.Linear(12, 16), nn.SiLU(), nn.Dropout(0.2), nn.Linear(16, 1), nn.Flatten(0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    weight = None if sick else torch.tensor(30.0)
    session = watch(model, optimizer)
    for _ in range(6):
        for batch in torch.randperm(len(train)).split(64):
            logits = model(train[batch])
            loss = functional.binary_cross_entropy_with_logits(logits, leaves[:2200][batch], pos_weight=weight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[batch], outputs=logits, targets=leaves[:2200][batch])
            optimizer.step()
    model.eval()
    with torch.no_grad():
        found, true = model(test) > 0, leaves[2200:] > 0
    return ((found & true).sum() / true.sum() + (~found & ~true).sum() / (~true).sum()).item() / 2
