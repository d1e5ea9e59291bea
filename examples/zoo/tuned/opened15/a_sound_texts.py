"""Sound trainings on text, with parts that are hidden, replaced, sampled or never touched."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy


@healthy(at_least=0.35)
def masked_characters(watch: Watch, *, seed: int) -> float:
    """A sixth of the characters is hidden, and the loss is of these alone: most targets are ignored."""
    data = datasets.text(seed, length=16, count=2000)
    hidden = datasets.CHARACTERS
    embed, head = nn.Embedding(hidden + 1, 48), nn.Linear(96, hidden)
    rnn = nn.GRU(48, 48, batch_first=True, bidirectional=True)
    model = nn.ModuleList([embed, rnn, head])
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    for codes, _ in data.batches(32, 220):
        chosen = torch.rand(codes.shape) < 0.16
        logits = head(rnn(embed(codes.masked_fill(chosen, hidden)))[0]).flatten(0, 1)
        targets = codes.masked_fill(~chosen, -100).flatten()
        loss = functional.cross_entropy(logits, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=targets)
        optimizer.step()
    with torch.no_grad():
        codes = data.test_inputs.clone()
        codes[:, 8] = hidden
        found = head(rnn(embed(codes))[0])[:, 8].argmax(1)
    return (found == data.test_inputs[:, 8]).float().mean().item()


@healthy(at_least=0.6)
def neighbours_of_letters(watch: Watch, *, seed: int) -> float:
    """Skip-gram with negative samples and sparse gradients: only the rows of drawn letters move in a step."""
    data = datasets.text(seed, length=30)
    firsts, nexts = data.inputs.flatten(), data.targets.flatten()
    inner = nn.Embedding(datasets.CHARACTERS, 16, sparse=True)
    outer = nn.Embedding(datasets.CHARACTERS, 16, sparse=True)
    nn.init.zeros_(outer.weight)
    model = nn.ModuleList([inner, outer])
    optimizer = torch.optim.SparseAdam(list(model.parameters()), lr=0.03)
    session = watch(model, optimizer)
    for _ in range(400):
        rows = torch.randint(len(firsts), (256,))
        others = nexts[torch.randint(len(nexts), (256, 3))]
        words = inner(firsts[rows])
        right = (words * outer(nexts[rows])).sum(1)
        wrong = (words[:, None] * outer(others)).sum(2)
        loss = functional.softplus(-right).mean() + functional.softplus(wrong).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=firsts[rows])
        optimizer.step()
    with torch.no_grad():
        asked, true = inner(data.test_inputs.flatten()), data.test_targets.flatten()
        false = true[torch.randperm(len(true))]
        won = (asked * outer(true)).sum(1) > (asked * outer(false)).sum(1)
    return won[true != false].float().mean().item()


@healthy(at_least=0.4)
def less_and_less_help_from_the_teacher(watch: Watch, *, seed: int) -> float:
    """Scheduled sampling: ever more inputs are the model's own guesses, and the loss rises though it learns."""
    data = datasets.text(seed, length=16, count=2500)
    embed, cell = nn.Embedding(datasets.CHARACTERS, 40), nn.GRUCell(40, 64)
    head = nn.Linear(64, datasets.CHARACTERS)
    model = nn.ModuleList([embed, cell, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for step, (codes, following) in enumerate(data.batches(48, 200)):
        own = 0.4 * step / 200
        state, given, found = None, codes[:, 0], []
        for place in range(codes.shape[1]):
            state = cell(embed(given), state)
            found.append(head(state))
            guess = found[-1].detach().argmax(1)
            given = torch.where(torch.rand(len(guess)) < own, guess, following[:, place])
        logits = torch.stack(found, 1).flatten(0, 1)
        loss = functional.cross_entropy(logits, following.flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        session.step(loss, inputs=codes, outputs=logits, targets=following.flatten())
        optimizer.step()
    with torch.no_grad():
        state, right = None, []
        for place in range(16):
            state = cell(embed(data.test_inputs[:, place]), state)
            right.append(head(state).argmax(1) == data.test_targets[:, place])
    return torch.stack(right).float().mean().item()


class _Reversed(torch.autograd.Function):
    """The identity, whose gradient is turned and weighed."""

    @staticmethod
    def forward(context: torch.autograd.function.FunctionCtx, values: torch.Tensor) -> torch.Tensor:
        return values.view_as(values)

    @staticmethod
    def backward(context: torch.autograd.function.FunctionCtx, *slopes: torch.Tensor) -> torch.Tensor:
        return -0.1 * slopes[0]


@healthy(at_least=0.7)
def an_adversary_that_must_not_tell_the_length(watch: Watch, *, seed: int) -> float:
    """A reversed gradient keeps from the features how long a name is: a second loss is to rise, and does."""
    train, test = samples.names(seed)
    body = nn.Sequential(nn.Embedding(samples.LETTERS, 24), nn.Flatten(), nn.Linear(24 * 24, 64), nn.ReLU())
    head, adversary = nn.Linear(64, 8), nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 1))
    model = nn.ModuleDict({"body": body, "head": head, "adversary": adversary})
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(16):
        for names, labels in DataLoader(train, batch_size=48, shuffle=True):
            features = body(names)
            logits = head(features)
            long = ((names > 0).sum(1) > 14).float()
            told = adversary(_Reversed.apply(features)).squeeze(1)
            loss = functional.cross_entropy(logits, labels)
            loss = loss + 0.5 * functional.binary_cross_entropy_with_logits(told, long)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(head(body(test.tensors[0])), test.tensors[1])
