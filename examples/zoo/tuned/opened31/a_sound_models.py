"""Sound trainings of models that look odd: idle gradients, idle experts, zeros, shared weights."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened31.a_parts import centred, explained, loader, of


@healthy(at_least=0.5)
def a_vae_of_digits(watch: Watch, *, seed: int) -> float:
    """A VAE whose divergence is weighed up from 0 in the first steps."""
    data = datasets.digits(seed)

    class Coder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encode = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
            self.decode = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 64))

        def forward(self, images: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
            mean, log_variance = self.encode(images).chunk(2, -1)
            code = mean + torch.randn_like(mean) * (log_variance / 2).exp() if self.training else mean
            return self.decode(code).sigmoid(), mean, log_variance

    model = Coder()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for step, (images, _) in enumerate(data.batches(64, 300)):
        outputs, mean, log_variance = model(images)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(-1).mean()
        rebuilt = functional.binary_cross_entropy(outputs, images, reduction="none").sum(-1).mean()
        loss = rebuilt + min(1.0, step / 100) * 0.5 * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[0], data.test_inputs)


class _Adapted(nn.Module):
    """A frozen layer with an addition of rank four, whose second factor starts at zero."""

    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.down = nn.Parameter(torch.randn(base.in_features, 4) / base.in_features**0.5)
        self.up = nn.Parameter(torch.zeros(4, base.out_features))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.base(rows) + 2 * rows @ self.down @ self.up


@healthy(at_least=0.85)
def lora_for_digits_turned_around(watch: Watch, *, seed: int) -> float:
    """A net that knows upright digits is adapted to digits that lie on their side, by LoRA in each layer."""
    data = centred(datasets.digits(seed, images=True))
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in data.batches(64, 150):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels).backward()
        optimizer.step()
    for index in (1, 3, 5):
        model[index] = _Adapted(model[index])
    turned = Data(data.inputs.mT.flip(-1), data.targets, data.test_inputs.mT.flip(-1), data.test_targets)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=5e-3, weight_decay=0.0)
    fit(watch, model, optimizer, turned, steps=300, validate_every=60)
    return accuracy(model, turned)


@healthy(at_least=0.9)
def experts_of_which_some_rest(watch: Watch, *, seed: int) -> float:
    """Each digit goes to the best of six experts, so that some get none in a batch, with a term for balance."""
    data = centred(datasets.digits(seed))

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(64, 6)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in range(6)
            )
            self.balance = torch.zeros(())

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            chances = self.gate(rows).softmax(-1)
            chosen = chances.argmax(-1)
            shares = functional.one_hot(chosen, 6).float().mean(0)
            self.balance = 6 * (shares * chances.mean(0)).sum()
            logits = rows.new_zeros(len(rows), 10)
            for index, expert in enumerate(self.experts):
                mine = (chosen == index).nonzero().squeeze(-1)
                if len(mine):
                    weighed = chances[mine, index, None] * expert(rows[mine])
                    logits = logits.index_add(0, mine, weighed)
            return logits

    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, labels in loader(data, 48):
            optimizer.zero_grad()
            logits = model(rows)
            loss = functional.cross_entropy(logits, labels) + 0.02 * model.balance
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.9)
def a_backbone_frozen_on_purpose(watch: Watch, *, seed: int) -> float:
    """Convolutions that learnt all digits are frozen, in eval mode, and a head learns to tell odd from even."""
    data = of(samples.numerals(seed))
    body = nn.Sequential(nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU())
    body.append(nn.Flatten())
    whole = nn.Sequential(body, nn.Linear(256, 10))
    optimizer = torch.optim.Adam(whole.parameters(), lr=3e-3)
    for images, labels in data.batches(64, 120):
        optimizer.zero_grad()
        functional.cross_entropy(whole(images), labels).backward()
        optimizer.step()
    body.requires_grad_(False).eval()
    model = nn.Sequential(body, nn.Linear(256, 2))
    odd = Data(data.inputs, data.targets % 2, data.test_inputs, data.test_targets % 2)
    optimizer = torch.optim.AdamW(model[1].parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in loader(odd, 48):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return accuracy(model, odd)


@healthy(at_least=0.7)
def a_sparse_code_of_patches(watch: Watch, *, seed: int) -> float:
    """An autoencoder of photographs with a small L1 term on its ReLU codes, of which many are zero."""
    patches = datasets.patches(seed, count=1600)
    patches = patches - patches.mean(1, keepdim=True)
    patches = patches / patches.std()
    data = Data(patches[:1200], patches[:1200], patches[1200:], patches[1200:])
    encoder, decoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU()), nn.Linear(96, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for inputs, _ in data.batches(64, 350):
        codes = encoder(inputs)
        outputs = decoder(codes)
        loss = functional.mse_loss(outputs, inputs) + 1e-2 * codes.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=inputs)
        optimizer.step()
    return explained(model, data)
