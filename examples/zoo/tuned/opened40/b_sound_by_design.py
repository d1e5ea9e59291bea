"""Sound trainings whose models or losses look odd."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data, text
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened40.b_likeness import digits, embedder, nearest, noisy
from examples.zoo.tuned.opened40.b_makers_of_pictures import Variational
from examples.zoo.tuned.opened40.b_provisions import paired, spelt
from examples.zoo.tuned.opened40.b_spoken_code import Attending, Writer, spell, write


@healthy(at_least=0.6)
def a_variational_autoencoder_whose_divergence_grows(watch: Watch, *, seed: int) -> float:
    """The codes' divergence is weighed from 0 to its full weight over 150 steps."""
    data = digits(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 300)):
        outputs, divergence = model.both(pixels)
        loss = functional.mse_loss(outputs, pixels) + 0.005 * min(1, step / 150) * divergence.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@healthy(at_least=0.8)
def two_views_against_all_others(watch: Watch, *, seed: int) -> float:
    """SimCLR's loss, with noise for views and a temperature of 0.2, without labels."""
    data = digits(seed)
    model = embedder()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(64, 200):
        views = torch.cat([noisy(rows), noisy(rows)])
        embedded = functional.normalize(model(views), dim=1)
        logits = (embedded @ embedded.T / 0.2).masked_fill(torch.eye(len(views), dtype=torch.bool), -1e9)
        partners = torch.arange(len(views)).roll(len(rows))
        loss = functional.cross_entropy(logits, partners)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=views, outputs=logits, targets=partners)
        optimizer.step()
    return nearest(model, data)


@healthy(at_least=0.85)
def a_low_rank_update_of_a_frozen_layer(watch: Watch, *, seed: int) -> float:
    """LoRA: a pretrained layer is frozen, and the product of two thin ones, of which one is 0, is added to it."""
    data = digits(seed)
    base = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 2))
    earlier = torch.optim.Adam(base.parameters(), lr=2e-3)
    for rows, labels in data.batches(64, 80):
        earlier.zero_grad()
        functional.cross_entropy(base(rows), labels % 2).backward()
        earlier.step()

    class Adapted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.frozen = base[0].requires_grad_(False)
            self.down, self.up = nn.Linear(64, 6, bias=False), nn.Linear(6, 48, bias=False)
            nn.init.zeros_(self.up.weight)
            self.head = nn.Linear(48, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head((self.frozen(rows) + self.up(self.down(rows))).relu())

    model = Adapted()
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=4e-3)
    fit(watch, model, optimizer, data, steps=250)
    return accuracy(model, data)


@healthy(at_least=0.85)
def experts_of_whom_two_answer(watch: Watch, *, seed: int) -> float:
    """A gate picks two of six experts for each row, and the others get no gradient of it."""
    data = digits(seed)

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(64, 6)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 10)) for _ in range(6)
            )

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            values, chosen = self.gate(rows).topk(2, 1)
            answers = torch.stack([expert(rows) for expert in self.experts], 1)
            picked = answers.gather(1, chosen[..., None].expand(-1, -1, 10))
            return (values.softmax(1)[..., None] * picked).sum(1)

    model = Experts()
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=220)
    return accuracy(model, data)


@healthy(at_least=0.35)
def a_writer_on_one_cycle(watch: Watch, *, seed: int) -> float:
    """A causal transformer warms up and then follows half a cosine."""
    model = Writer(depth=2)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=6e-3, total_steps=160, pct_start=0.15)
    return write(watch, model, optimizer, text(seed, length=16), steps=160, scheduler=scheduler)


@healthy(at_least=0.5)
def padded_names_under_attention(watch: Watch, *, seed: int) -> float:
    """Most of a name's 24 places may be padding, which attention hides."""
    return spell(watch, Attending(), spelt(seed), steps=160)


@healthy(at_least=0.6)
def counts_of_which_most_are_nought(watch: Watch, *, seed: int) -> float:
    """Rows of shares of characters, nearly all of them 0, are classified by one layer."""
    data = paired(samples.lines(seed))
    shares = [part / part.sum(1, keepdim=True) ** 0.5 for part in (data.inputs, data.test_inputs)]
    sparse = Data(shares[0], data.targets, shares[1], data.test_targets)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 6))
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=4e-3), sparse, steps=220)
    return accuracy(model, sparse)


@healthy(at_least=0.25)
def scores_standardised_inside(watch: Watch, *, seed: int) -> float:
    """Targets from 25 to 346 are left as they are, and the model scales its own output to them."""
    data = datasets.diabetes(seed, raw_targets=True)
    mean, std = data.targets.mean(), data.targets.std()

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(10, 1)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return mean + std * self.linear(rows)

    model = Scaled()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=64, loss_function=functional.l1_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)
