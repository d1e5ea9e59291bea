"""Sound trainings that look odd: rates, rewards, mixtures and huge numbers."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened34.b_common import explained, masker, overlap, strips, strokes


@healthy(at_least=0.7)
def rates_that_begin_anew(watch: Watch, *, seed: int) -> float:
    """The rate goes down a cosine and jumps back up, three times."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 80, eta_min=1e-3)
    fit(watch, model, optimizer, data, steps=240, batch_size=32, loss_function=functional.mse_loss, scheduler=scheduler)
    return explained(model, data)


@healthy(at_least=0.6)
def a_rate_is_sought_and_then_used(watch: Watch, *, seed: int) -> float:
    """The rate rises from 0.00001 to 0.1 in sixty steps; then the weights are put back, and 0.03 is used."""
    data = strokes(seed)
    model = masker()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-5, momentum=0.9)
    kept = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
    session = watch(model, optimizer)
    for step, (pictures, masks) in enumerate(data.batches(32, 300)):
        if step == 60:
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
        for group in optimizer.param_groups:
            group["lr"] = 1e-5 * 10 ** (4 * step / 59) if step < 60 else 0.03
        outputs = model(pictures)
        loss = functional.binary_cross_entropy_with_logits(outputs, masks)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=masks)
        optimizer.step()
    return overlap(model, data)


@healthy(at_least=0.25)
def a_warm_transformer_of_characters(watch: Watch, *, seed: int) -> float:
    """A causal transformer warms up for thirty steps and cools down a cosine."""
    data = datasets.text(seed, length=16, count=1200)

    class Former(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.places = nn.Embedding(CHARACTERS, 32), nn.Parameter(0.1 * torch.randn(16, 32))
            layer = nn.TransformerEncoderLayer(32, 2, 64, dropout=0.0, batch_first=True, norm_first=True)
            self.body = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
            self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, CHARACTERS)
            self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(16))

        def forward(self, characters: torch.Tensor) -> torch.Tensor:
            return self.head(self.norm(self.body(self.letters(characters) + self.places, mask=self.mask)))

    model = Former()
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.02, 1.0, total_iters=30)
    cool = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 220, eta_min=3e-4)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, cool], [30])

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=loss_function, scheduler=scheduler)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.45)
def proline_as_it_is_measured(watch: Watch, *, seed: int) -> float:
    """Targets go up to 1680; the model knows their mean and deviation, and the loss is huge."""
    train, test = samples.standardised(samples.proline(seed), 0)
    data = Data(*train.tensors, *test.tensors)
    std, mean = torch.std_mean(data.targets)

    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(12, 16), nn.Tanh(), nn.Linear(16, 1))

        def forward(self, wines: torch.Tensor) -> torch.Tensor:
            return self.body(wines) * std + mean

    model = Scaled()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@healthy(at_least=0.8)
def rewards_less_what_a_critic_expects(watch: Watch, *, seed: int) -> float:
    """An actor guesses digits, is told right or wrong alone, and a critic lowers the noise; the loss has no meaning."""
    data = datasets.digits(seed)
    actor, critic = (nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, outputs)) for outputs in (10, 1))
    acts, judges = (torch.optim.Adam(one.parameters(), lr=5e-3) for one in (actor, critic))
    acting, judging = watch(actor, acts), watch(critic, judges)
    for pixels, labels in data.batches(128, 400):
        scaled = (pixels - 0.3) / 0.37
        choice = torch.distributions.Categorical(logits=actor(scaled))
        actions, expected = choice.sample(), critic(scaled)
        rewards = (actions == labels).float()[:, None]
        judges.zero_grad()
        loss = functional.mse_loss(expected, rewards)
        loss.backward()
        judging.step(loss, inputs=scaled, outputs=expected, targets=rewards)
        judges.step()
        acts.zero_grad()
        gain = choice.log_prob(actions) * (rewards - expected.detach())[:, 0]
        loss = -gain.mean() - 0.01 * choice.entropy().mean()
        loss.backward()
        acting.step(loss, inputs=scaled, outputs=choice.logits)
        acts.step()
    scaled = Data(data.inputs, data.targets, (data.test_inputs - 0.3) / 0.37, data.test_targets)
    return accuracy(actor, scaled)


@healthy(at_least=0.8)
def eight_small_batches_in_bfloat16(watch: Watch, *, seed: int) -> float:
    """Gradients of eight batches are averaged for a step, under autocast in bfloat16."""
    data = strips(seed)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    batches = data.batches(8, 8 * 160)
    for _ in range(160):
        optimizer.zero_grad()
        for _ in range(8):
            rows, following = next(batches)
            with torch.autocast("cpu", torch.bfloat16):
                outputs = model(rows)
            loss = functional.mse_loss(outputs.float(), following)
            (loss / 8).backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=following)
        optimizer.step()
    return explained(model, data)


@healthy(at_least=0.55)
def two_counts_of_lines_mixed(watch: Watch, *, seed: int) -> float:
    """Mixup adds two rows and their targets, so the loss stays high and no row comes twice."""
    train, test = samples.lines(seed)
    data = Data(train.tensors[0] ** 0.5 - 0.6, train.tensors[1], test.tensors[0] ** 0.5 - 0.6, test.tensors[1])
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    shares = torch.distributions.Beta(0.4, 0.4)
    for step, (rows, labels) in enumerate(data.batches(64, 320), 1):
        share, other = shares.sample(), torch.randperm(len(rows))
        wanted = functional.one_hot(labels, 6).float()
        mixed, targets = (share * one + (1 - share) * one[other] for one in (rows, wanted))
        outputs = model(mixed)
        loss = functional.cross_entropy(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=mixed, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 40 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)
