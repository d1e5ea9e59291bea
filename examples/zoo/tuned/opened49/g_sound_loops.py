"""Sound trainings that look sick: loops that search, gather, skip and follow, and losses that may rise."""

import copy
import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened49.g_kit import counted, flat, layers, pictures, scans, small_convnet


@healthy(at_least=0.7)
def bandit_with_a_falling_baseline(watch: Watch, *, seed: int) -> float:
    """A bandit guesses digits for rewards, less their running mean; its loss says nothing of its progress."""
    data = flat(seed)
    policy = layers(64, 64, 10, activation=nn.Tanh)
    optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
    session = watch(policy, optimizer)
    baseline = 0.1
    for pixels, labels in data.batches(128, 380):
        choices = torch.distributions.Categorical(logits=policy(pixels))
        actions = choices.sample()
        rewards = (actions == labels).float()
        loss = -((rewards - baseline) * choices.log_prob(actions)).mean() - 0.01 * choices.entropy().mean()
        baseline = 0.9 * baseline + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=choices.logits)
        optimizer.step()
    return accuracy(policy, data)


@healthy(at_least=0.9)
def five_scans_to_a_step(watch: Watch, *, seed: int) -> float:
    """Five batches of twelve make a step of a recurrence, each with a fifth of its loss."""
    data = scans(seed)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.recurrence, self.head = nn.GRU(8, 48, batch_first=True), nn.Linear(48, 10)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.recurrence(rows)[1][-1])

    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    optimizer.zero_grad()
    for count, (rows, labels) in enumerate(data.batches(12, 5 * 130), 1):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 5).backward()
        if count % 5 == 0:
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.9)
def scale_that_halves_at_first(watch: Watch, *, seed: int) -> float:
    """A ``GradScaler`` begins at 2**24 in float16, and skips the first steps until its scale fits."""
    data = pictures(seed)
    model = nn.Sequential(nn.Flatten(), layers(64, 96, 48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for images, labels in data.batches(64, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(images)
        loss = functional.cross_entropy(outputs.float(), labels)
        scaler.scale(loss).backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.7)
def sweep_of_rates_before_the_run(watch: Watch, *, seed: int) -> float:
    """A finder raises the rate from 1e-6 until the loss blows up, goes back, and trains at a twentieth of that rate."""
    data = counted(seed)
    model = layers(64, 64, 32, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6, momentum=0.9)
    weights, state = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    session = watch(model, optimizer)
    lowest, smooth, sweeping = math.inf, None, True
    for inputs, targets in data.batches(64, 350):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if not sweeping:
            continue
        smooth = loss.item() if smooth is None else 0.7 * smooth + 0.3 * loss.item()
        lowest = min(lowest, smooth)
        rate = optimizer.param_groups[0]["lr"]
        if smooth > 1.5 * lowest or rate > 3:
            sweeping = False
            model.load_state_dict(weights)
            optimizer.load_state_dict(state)
            optimizer.param_groups[0]["lr"] = min(rate / 20, 0.05)
        else:
            optimizer.param_groups[0]["lr"] = rate * 1.3
    return r_squared(model, data)


@healthy(at_least=0.9)
def up_for_a_tenth_and_down_by_a_cosine(watch: Watch, *, seed: int) -> float:
    """The rate rises over the first 30 of 300 steps, and falls to 0 along a cosine by the end."""
    data = pictures(seed)
    model = small_convnet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)

    def factor(step: int) -> float:
        return (step + 1) / 30 if step < 30 else 0.5 + 0.5 * math.cos(math.pi * (step - 30) / 270)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=300, batch_size=64, scheduler=scheduler, validate_every=50)
    return accuracy(model, data)


class InItsUnits(nn.Module):
    """Answers in the targets' units, and standardises them for its loss."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()
        for name, values in (("of_inputs", inputs), ("of_targets", targets)):
            std, mean = torch.std_mean(values, 0)
            self.register_buffer(f"mean_{name}", mean)
            self.register_buffer(f"std_{name}", std)
        self.body = layers(inputs.shape[1], 24, targets.shape[1], activation=nn.Tanh)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns amounts in the targets' units."""
        scaled = (inputs - self.mean_of_inputs) / self.std_of_inputs
        return self.body(scaled) * self.std_of_targets + self.mean_of_targets

    def loss(self, outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        """Returns the squared error in deviations of the targets."""
        return ((outputs - targets) / self.std_of_targets).square().mean()


@healthy(at_least=0.4)
def amounts_of_a_million_kept_inside(watch: Watch, *, seed: int) -> float:
    """Targets of about a million are standardised inside of the model and of its loss, as are the inputs."""
    train, test = (part.tensors for part in samples.proline(seed))
    data = datasets.Data(train[0], 1000 * train[1], test[0], 1000 * test[1])
    model = InItsUnits(data.inputs, data.targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=model.loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.75)
def follower_of_its_own_mean(watch: Watch, *, seed: int) -> float:
    """BYOL: a network foretells what a slow copy of itself says of another view; the copy is in no optimizer."""
    data = flat(seed)
    online, foretell = layers(64, 96, 32), layers(32, 48, 32)
    slow = copy.deepcopy(online).requires_grad_(False)
    model = nn.ModuleDict({"online": online, "foretell": foretell, "slow": slow})
    optimizer = torch.optim.AdamW([*online.parameters(), *foretell.parameters()], lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(96, 200):
        one, other = (pixels + 0.4 * torch.randn_like(pixels) for _ in range(2))
        said = foretell(online(one))
        with torch.no_grad():
            heard = slow(other)
        loss = 1 - functional.cosine_similarity(said, heard).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=one, outputs=said, targets=heard)
        optimizer.step()
        with torch.no_grad():
            for kept, new in zip(slow.parameters(), online.parameters(), strict=True):
                kept.lerp_(new, 0.02)
    known = functional.normalize(predicted(online, data.inputs), dim=1)
    asked = functional.normalize(predicted(online, data.test_inputs), dim=1)
    nearest = data.targets[(asked @ known.T).topk(5, 1).indices].mode(1).values
    return (nearest == data.test_targets).float().mean().item()
