"""Sound trainings with odd gradients or losses: adversaries, samplers of codes, adapters, experts and policies."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened44.b_joints import Blurry
from examples.zoo.tuned.opened44.b_shelf import figures, flat_figures, hits, scripts, small_convolutions, sources


@healthy(at_least=0.5)
def a_forger_and_a_judge_of_digits(watch: Watch, *, seed: int) -> float:
    """A GAN: the judge's and the forger's losses go up and down; what is watched is the forger."""
    data = flat_figures(seed)
    forger = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))
    judge = nn.Sequential(nn.Linear(64, 64), nn.LeakyReLU(0.2), nn.Linear(64, 1))
    forging = torch.optim.Adam(forger.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judging = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.999))
    session = watch(forger, forging)
    for pixels, _ in data.batches(64, 400):
        noise = torch.randn(len(pixels), 16)
        forged = forger(noise)
        judging.zero_grad()
        doubts = functional.softplus(-judge(pixels)).mean() + functional.softplus(judge(forged.detach())).mean()
        doubts.backward()
        judging.step()
        forging.zero_grad()
        loss = functional.softplus(-judge(forged)).mean()
        loss.backward()
        session.step(loss, inputs=noise, outputs=forged)
        forging.step()
    made = predicted(forger, torch.randn(500, 16))
    return samples.explained(made.mean(0, keepdim=True).T, data.test_inputs.mean(0, keepdim=True).T)


@healthy(at_least=0.4)
def codes_drawn_from_a_bell(watch: Watch, *, seed: int) -> float:
    """A VAE whose heads begin at 0, and with them its KL term, which then grows."""
    data = flat_figures(seed)
    model = Blurry()
    nn.init.zeros_(model.heads.weight)
    nn.init.zeros_(model.heads.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 300)):
        outputs, mean, log_variance = model(pixels)
        divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        loss = (outputs - pixels).square().sum(1).mean() + min(1.0, step / 100) * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[0], data.test_inputs)


class Adapted(nn.Module):
    """A frozen layer, and a product of two narrow matrices beside it of which the second begins at 0."""

    def __init__(self, layer: nn.Linear, rank: int = 8) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.layer(rows) + 2 * self.up(self.down(rows))


@healthy(at_least=0.8)
def low_rank_adapters_for_turned_digits(watch: Watch, *, seed: int) -> float:
    """LoRA: a network for digits is adapted to digits on their side; matrices get no gradient at first."""
    upright = flat_figures(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    before = torch.optim.Adam(model.parameters(), lr=3e-3)
    for pixels, labels in upright.batches(64, 120):
        before.zero_grad()
        functional.cross_entropy(model(pixels), labels).backward()
        before.step()
    drawn = figures(seed)
    turned, test_turned = (images.rot90(1, (2, 3)).flatten(1) for images in (drawn.inputs, drawn.test_inputs))
    data = Data(turned, drawn.targets, test_turned, drawn.test_targets)
    adapted = nn.Sequential(*(Adapted(part) if isinstance(part, nn.Linear) else part for part in model))
    optimizer = torch.optim.AdamW((one for one in adapted.parameters() if one.requires_grad), lr=3e-3)
    fit(watch, adapted, optimizer, data, steps=250, batch_size=64)
    return accuracy(adapted, data)


class Routed(nn.Module):
    """Each line goes to the one of ten experts that its router likes best, so that some may get none."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(96, 10)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(96, 16), nn.ReLU(), nn.Linear(16, 6)) for _ in range(10))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        shares, chosen = self.router(rows).softmax(1).max(1)
        outputs = rows.new_zeros(len(rows), 6)
        for index, expert in enumerate(self.experts):
            sent = (chosen == index).nonzero().squeeze(1)
            if len(sent):
                outputs = outputs.index_add(0, sent, shares[sent, None] * expert(rows[sent]))
        return outputs


@healthy(at_least=0.5)
def experts_that_wait_for_a_line(watch: Watch, *, seed: int) -> float:
    """A switch of experts in small batches: in most steps a few of them get nothing and have no gradient."""
    data = sources(seed)
    model = Routed()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, weight_decay=1e-4)
    fit(watch, model, optimizer, data, steps=250, batch_size=24)
    return accuracy(model, data)


@healthy(at_least=0.8)
def a_body_from_another_task_kept_as_it_is(watch: Watch, *, seed: int) -> float:
    """Convolutions that learned the digits below 5 are frozen and in eval mode; a head learns all ten."""
    data = figures(seed)
    body = small_convolutions(width=16)
    before = torch.optim.Adam(body.parameters(), lr=3e-3)
    low = data.targets < 5
    part = Data(data.inputs[low], data.targets[low], data.test_inputs, data.test_targets)
    for images, labels in part.batches(48, 120):
        before.zero_grad()
        functional.cross_entropy(body(images), labels).backward()
        before.step()
    body[-1] = nn.Identity()
    body.requires_grad_(False).eval()
    model = nn.Sequential(body, nn.Linear(512, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.5)
def most_features_at_rest(watch: Watch, *, seed: int) -> float:
    """A sparse autoencoder: 128 ReLU features with a small price on each, of which most are 0 for any digit."""
    data = flat_figures(seed)
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 250):
        features = encoder(pixels)
        outputs = decoder(features)
        loss = functional.mse_loss(outputs, pixels) + 2e-3 * features.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@healthy(at_least=0.7)
def guesses_and_what_they_should_earn(watch: Watch, *, seed: int) -> float:
    """An actor guesses classes of digits, a critic guesses its reward; the loss of both wanders while rewards grow."""
    data = flat_figures(seed)
    body = nn.Sequential(nn.Linear(64, 64), nn.Tanh())
    actor, critic = nn.Linear(64, 10), nn.Linear(64, 1)
    model = nn.ModuleDict({"body": body, "actor": actor, "critic": critic})
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(128, 350):
        features = body(pixels)
        policy = torch.distributions.Categorical(logits=actor(features))
        guesses = policy.sample()
        rewards, expected = (guesses == labels).float(), critic(features).squeeze(1)
        advantages = (rewards - expected).detach()
        loss = -(policy.log_prob(guesses) * advantages).mean() + 0.5 * functional.mse_loss(expected, rewards)
        loss = loss - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=pixels)
        optimizer.step()
    return hits(predicted(nn.Sequential(body, actor), data.test_inputs), data.test_targets)


@healthy(at_least=0.5)
def a_slow_copy_as_a_target(watch: Watch, *, seed: int) -> float:
    """BYOL: one network predicts what a slow copy of it makes of another view; a nearest neighbour judges."""
    data = flat_figures(seed)
    online = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), nn.ReLU(), nn.Linear(96, 32))
    slow = copy.deepcopy(online).requires_grad_(False)
    guess = nn.Sequential(nn.Linear(32, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Linear(64, 32))
    model = nn.Sequential(online, guess)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(96, 200):
        one, other = (pixels * (torch.rand_like(pixels) > 0.2) + 0.2 * torch.randn_like(pixels) for _ in range(2))
        near = functional.cosine_similarity(model(one), slow(other)).mean()
        loss = 2 - near - functional.cosine_similarity(model(other), slow(one)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=one)
        optimizer.step()
        with torch.no_grad():
            for old, new in zip(slow.parameters(), online.parameters(), strict=True):
                old.lerp_(new, 0.02)
    known, asked = (functional.normalize(predicted(online, part), dim=1) for part in (data.inputs, data.test_inputs))
    return (data.targets[(asked @ known.T).argmax(1)] == data.test_targets).float().mean().item()


@healthy(at_least=0.5)
def names_of_all_lengths(watch: Watch, *, seed: int) -> float:
    """Most codes of short names are padding, whose vector stays 0 and has no gradient."""
    data = scripts(seed)
    model = nn.Sequential(nn.Embedding(samples.LETTERS, 24, padding_idx=0), nn.Flatten(), nn.Linear(576, 64), nn.ReLU())
    model.extend([nn.Dropout(0.3), nn.Linear(64, 8)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)
