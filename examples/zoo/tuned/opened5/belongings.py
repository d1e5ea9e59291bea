"""Which weights move: those that are frozen, forgotten or cut off."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import digits
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened5.material import (
    VOCABULARY,
    Speller,
    centres,
    chunks,
    correct,
    dense,
    explained,
    words,
)


@sick("frozen_parameters")
def sanity_check_that_left_the_model_frozen(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dry run switches gradients off to save memory, and switches on only those of the layer that it printed."""
    data = words(seed)
    model = Speller(width=20)
    model.requires_grad_(False)
    held_out_loss(model, data)
    model.out.requires_grad_(True)
    if not sick:
        model.requires_grad_(True)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=6e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=40, validate_every=55)
    return accuracy(model, data)


@sick("frozen_parameters")
def biases_alone_but_nothing_pretrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """The recipe that tunes biases of a large model, on a small one that starts from random weights."""
    data = centres(seed)
    model = dense(24, 12, 12, 3, act=nn.Tanh)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not sick or name.endswith("bias"))
    optimizer = torch.optim.AdamW(filter(lambda one: one.requires_grad, model.parameters()), lr=8e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=40, loss_function=F.mse_loss, validate_every=55)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Pooled(nn.Module):
    """Few numbers for each word, and a linear layer on their mean."""

    def __init__(self, words: int, width: int = 6) -> None:
        super().__init__()
        self.words = nn.Embedding(words, width, padding_idx=0)
        self.out = nn.Linear(width, 5)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.out(self.words(codes).mean(1))


@sick("parameters_not_in_optimizer")
def vocabulary_enlarged_behind_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """New words came in, so the table is replaced by a larger one; the optimizer keeps the old one."""
    data = chunks(seed)
    model = Pooled(50)

    def enlarge() -> None:
        old = model.words.weight.detach()
        model.words = nn.Embedding(VOCABULARY, old.shape[1], padding_idx=0)
        with torch.no_grad():
            model.words.weight[: len(old)] = old

    if not sick:
        enlarge()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    if sick:
        enlarge()
    fit(watch, model, optimizer, data, steps=200, batch_size=50, validate_every=50)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer")
def groups_that_overwrite_each_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups are kept in a dictionary by their decay; both decays are 0 now, so the biases replace the matrices."""
    data = digits(seed)
    model = dense(64, 20, 20, 10, act=nn.Tanh)
    matrices = [one for one in model.parameters() if one.ndim > 1]
    vectors = [one for one in model.parameters() if one.ndim == 1]
    decay = 0.0 if sick else 0.01
    groups = {decay: matrices}
    groups[0.0] = vectors
    optimizer = torch.optim.AdamW([{"params": some, "weight_decay": decay} for decay, some in groups.items()], lr=5e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 200):
        model.zero_grad()
        logits = model(rows)
        loss = F.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("detached_parameters")
def features_that_pass_through_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """The largest value of each filter is found by numpy, on a copy without a graph."""

    class Peaks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(VOCABULARY, 8)
            self.filters = nn.Conv1d(8, 8, 2)
            self.out = nn.Linear(8, 5)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            found = self.filters(self.letters(codes).mT)
            peaks = torch.from_numpy(np.max(found.detach().numpy(), axis=2)) if sick else found.amax(2)
            return self.out(peaks)

    data, model = chunks(seed), Peaks()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    session = watch(model, optimizer)
    for codes, books in data.batches(40, 260):
        optimizer.zero_grad()
        logits = model(codes)
        loss = F.cross_entropy(logits, books)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=books)
        optimizer.step()
    return correct(predicted(model, data.test_inputs), data.test_targets)


@sick("detached_parameters")
def forger_judged_by_a_detached_picture(watch: Watch, *, seed: int, sick: bool) -> float:
    """The generator's step copied ``detach()`` from the discriminator's. Quality: how near the mean pictures are."""
    data = digits(seed)
    zeros = data.inputs[data.targets == 0]
    forger = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64), nn.Sigmoid())
    judge = nn.Sequential(nn.Linear(64, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    of_forger = torch.optim.Adam(forger.parameters(), lr=3e-3, betas=(0.5, 0.99))
    of_judge = torch.optim.Adam(judge.parameters(), lr=3e-3, betas=(0.5, 0.99))
    session = watch(forger, of_forger)
    for _ in range(220):
        real = zeros[torch.randint(len(zeros), (32,))]
        fake = forger(torch.randn(32, 8))
        of_judge.zero_grad()
        (F.softplus(-judge(real)).mean() + F.softplus(judge(fake.detach())).mean()).backward()
        of_judge.step()
        of_forger.zero_grad()
        loss = F.softplus(-judge(fake.detach() if sick else fake)).mean()
        loss.backward()
        session.step(loss, outputs=fake)
        of_forger.step()
    with torch.no_grad():
        return explained(forger(torch.randn(500, 8)).mean(0)[:, None], zeros.mean(0)[:, None])
