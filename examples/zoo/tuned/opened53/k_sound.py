"""Sound trainings that look odd: rivals, codes, adapters, experts."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened53.k_shared import Spelling, from_pair


@healthy(at_least=0.6)
def flowers_by_a_hinge_of_rivals(watch: Watch, *, seed: int) -> float:
    """A GAN with hinge losses makes flowers' measurements; both losses go up and down and tell little."""
    real = datasets.iris(seed).inputs
    maker = nn.Sequential(nn.Linear(6, 48), nn.LeakyReLU(0.2), nn.Linear(48, 4))
    judge = nn.Sequential(nn.Linear(4, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    makes, judges = (torch.optim.Adam(one.parameters(), lr=3e-3, betas=(0.5, 0.99)) for one in (maker, judge))
    making, judging = watch(maker, makes), watch(judge, judges)
    for _ in range(300):
        true, made = real[torch.randint(len(real), (64,))], maker(torch.randn(64, 6))
        scores, others = judge(true), judge(made.detach())
        loss = (1 - scores).relu().mean() + (1 + others).relu().mean()
        judges.zero_grad()
        loss.backward()
        judging.step(loss, inputs=true, outputs=scores)
        judges.step()
        loss = -judge(made).mean()
        makes.zero_grad()
        loss.backward()
        making.step(loss, outputs=made)
        makes.step()
    found = predicted(maker, torch.randn(1000, 6)).T.corrcoef()
    return 1 - (found - real.T.corrcoef()).abs().mean().item()


@healthy(at_least=0.45)
def a_posterior_that_begins_as_its_prior(watch: Watch, *, seed: int) -> float:
    """A VAE whose posterior's layer begins with zeros has a KL of exactly 0 at first, which rises as it learns."""
    data = datasets.digits(seed)

    class Variational(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.moments = nn.Sequential(nn.Linear(64, 64), nn.SiLU()), nn.Linear(64, 16)
            self.decoder = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64))
            nn.init.zeros_(self.moments.weight)
            nn.init.zeros_(self.moments.bias)

        def forward(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            mean, log_variance = self.moments(self.encoder(rows)).chunk(2, 1)
            noise = torch.randn_like(mean) if self.training else 0.0
            divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
            return self.decoder(mean + (0.5 * log_variance).exp() * noise), divergence

    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(64, 350):
        outputs, divergence = model(rows)
        loss = functional.mse_loss(outputs, rows, reduction="none").sum(1).mean() / (2 * 0.05) + divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rows)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        outputs, _ = model(data.test_inputs)
    return samples.explained(outputs, data.test_inputs)


@healthy(at_least=0.85)
def adapters_of_low_rank_for_other_digits(watch: Watch, *, seed: int) -> float:
    """LoRA adapts a network, trained on five digits, to the others; its B is 0, so A gets no gradient at first."""
    drawn = datasets.digits(seed)
    base = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
    old = nn.Linear(48, 5)
    few = drawn.targets < 5
    before = torch.optim.Adam([*base.parameters(), *old.parameters()], lr=3e-3)
    for _ in range(60):
        before.zero_grad()
        functional.cross_entropy(old(base(drawn.inputs[few])), drawn.targets[few]).backward()
        before.step()

    class Adapted(nn.Module):
        def __init__(self, layer: nn.Linear) -> None:
            super().__init__()
            self.layer = layer.requires_grad_(False)
            self.down = nn.Parameter(torch.randn(6, layer.in_features) / layer.in_features**0.5)
            self.up = nn.Parameter(torch.zeros(layer.out_features, 6))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.layer(rows) + 2 * rows @ self.down.T @ self.up.T

    model = nn.Sequential(*(Adapted(one) if isinstance(one, nn.Linear) else one for one in base), nn.Linear(48, 5))
    many, asked = drawn.targets >= 5, drawn.test_targets >= 5
    data = Data(
        *(drawn.inputs[many], drawn.targets[many] - 5),
        *(drawn.test_inputs[asked], drawn.test_targets[asked] - 5),
    )
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=3e-3, weight_decay=0.0)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.85)
def two_of_eight_experts_for_each(watch: Watch, *, seed: int) -> float:
    """Each digit goes to the two experts that its gate prefers, so some experts get nothing in some steps."""
    data = datasets.digits(seed)

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(64, 8)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, 24)) for _ in range(8)
            )
            self.head = nn.Linear(24, 10)
            self.use = torch.zeros(())

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            scores = self.gate(rows).softmax(1)
            best, chosen = scores.topk(2)
            shares = torch.zeros_like(scores).scatter(1, chosen, best / best.sum(1, keepdim=True))
            self.use = 8 * ((shares > 0).float().mean(0) / 2 * scores.mean(0)).sum()
            mixed = torch.zeros(len(rows), 24)
            for index, expert in enumerate(self.experts):
                taken = torch.nonzero(shares[:, index]).flatten()
                if len(taken):
                    mixed = mixed.index_add(0, taken, shares[taken, index, None] * expert(rows[taken]))
            return self.head(mixed)

    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 250):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels) + 0.01 * model.use
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def a_probe_on_a_learnt_backbone(watch: Watch, *, seed: int) -> float:
    """A denoising autoencoder's encoder is frozen, and a head on it learns the digits."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU())
    decoder = nn.Linear(32, 64)
    before = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=4e-3)
    for rows, _ in data.batches(128, 120):
        before.zero_grad()
        functional.mse_loss(decoder(encoder(rows + 0.1 * torch.randn_like(rows))), rows).backward()
        before.step()
    encoder.requires_grad_(False)
    model = nn.Sequential(encoder, nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=250, batch_size=64)
    return accuracy(model, data)


@healthy(at_least=0.5)
def sparse_codes_of_photographs(watch: Watch, *, seed: int) -> float:
    """An overcomplete ReLU autoencoder of patches pays for its codes, and most of them are 0 for any one patch."""
    drawn = datasets.patches(seed, size=6)
    drawn = (drawn - drawn.mean()) / drawn.std()
    train, test = drawn[500:], drawn[:500]
    model = nn.Sequential(nn.Linear(36, 96), nn.ReLU(), nn.Linear(96, 36))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, _ in Data(train, train, test, test).batches(64, 300):
        codes = model[:2](rows)
        outputs = model[2](codes)
        loss = functional.mse_loss(outputs, rows) + 0.1 * codes.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rows)
        optimizer.step()
    return samples.explained(predicted(model, test), test)


@healthy(at_least=0.75)
def a_bandit_that_explores_less_and_less(watch: Watch, *, seed: int) -> float:
    """A network learns by Q values of actions, chosen at random at first; its loss hardly tells how it does."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(96, 380)):
        values = model(rows)
        explored = torch.rand(len(rows)) < max(0.05, 1 - step / 250)
        actions = torch.where(explored, torch.randint(10, (len(rows),)), values.argmax(1))
        rewards = (actions == labels).float()
        outputs = values.gather(1, actions[:, None]).squeeze(1)
        loss = functional.smooth_l1_loss(outputs, rewards)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rewards)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.3)
def a_head_that_is_its_embedding(watch: Watch, *, seed: int) -> float:
    """A model of source text uses its embedding's weight for its logits as well, so one tensor has two places."""
    data = datasets.text(seed, length=16)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(CHARACTERS, 32)
            nn.init.normal_(self.letters.weight, std=0.1)
            self.cells = nn.GRU(32, 32, batch_first=True)
            self.head = nn.Linear(32, CHARACTERS)
            self.head.weight = self.letters.weight

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.cells(self.letters(rows))[0])

    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)

    def loss(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=220, batch_size=48, loss_function=loss)
    return accuracy(model, data)


@healthy(at_least=0.55)
def padded_names_of_letters(watch: Watch, *, seed: int) -> float:
    """Names are padded with 0, whose embedding stays 0 and gets no gradient, and letters that no name has stay too."""
    data = from_pair(samples.names(seed))
    model = Spelling(8)
    model.letters = nn.Embedding(samples.LETTERS, 12, padding_idx=0)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=48, validate_every=55)
    return accuracy(model, data)
