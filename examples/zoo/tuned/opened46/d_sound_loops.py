"""Sound trainings that look sick: loops that sum, skip, search and average."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened46.d_kit import as_data, faces, lower_halves, perceptron, train


@healthy(at_least=0.7)
def digits_guessed_by_an_actor_with_critic(watch: Watch, *, seed: int) -> float:
    """An actor guesses digits for rewards and a critic foretells them: their loss rises when rewards differ."""
    data = datasets.digits(seed)
    body, actor, critic = perceptron(64, 64), nn.Linear(64, 10), nn.Linear(64, 1)
    body.append(nn.ReLU())
    model = nn.ModuleDict({"body": body, "actor": actor, "critic": critic})
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def step(pixels: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        features = body(pixels)
        choices, values = torch.distributions.Categorical(logits=actor(features)), critic(features).squeeze(1)
        actions = choices.sample()
        rewards = (actions == labels).float()
        advantages = rewards - values.detach()
        gain = (advantages * choices.log_prob(actions)).mean() + 0.01 * choices.entropy().mean()
        return 0.5 * functional.mse_loss(values, rewards) - gain, choices.logits

    train(watch, model, optimizer, data, step, steps=400, size=128)
    with torch.no_grad():
        return (actor(body(data.test_inputs)).argmax(1) == data.test_targets).float().mean().item()


@healthy(at_least=0.85)
def six_small_batches_a_step(watch: Watch, *, seed: int) -> float:
    """Gradients of six batches of eight are averaged for each step, and are not zeroed between them."""
    data = faces(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    for count, (images, labels) in enumerate(data.batches(8, 6 * 120), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        (loss / 6).backward()
        if count % 6 == 0:
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.35)
def a_scale_that_begins_too_high(watch: Watch, *, seed: int) -> float:
    """A ``GradScaler`` begins at 2**26 and skips some steps, whose gradients overflow, until its scale fits."""
    data = lower_halves(seed)
    model = perceptron(32, 96, 32)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**26)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(64, 250):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
        loss = functional.mse_loss(outputs.float(), targets)
        scaler.scale(loss).backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def a_range_test_and_then_the_training(watch: Watch, *, seed: int) -> float:
    """The rate is multiplied until the loss doubles; then the weights are restored and trained at a tenth of it."""
    data = faces(seed)
    model = nn.Sequential(nn.Flatten(), perceptron(64, 64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9)
    begun = copy.deepcopy(model.state_dict()), copy.deepcopy(optimizer.state_dict())
    session = watch(model, optimizer)
    best, searching = float("inf"), True
    for inputs, labels in data.batches(64, 260):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        if searching:
            best = min(best, loss.item())
            if loss.item() > 2 * best or optimizer.param_groups[0]["lr"] > 10:
                searching, rate = False, optimizer.param_groups[0]["lr"] / 10
                model.load_state_dict(begun[0])
                optimizer.load_state_dict(begun[1])
                optimizer.param_groups[0]["lr"] = rate
            else:
                optimizer.param_groups[0]["lr"] *= 1.2
    return accuracy(model, data)


class Standardising(nn.Module):
    """Predicts in the targets' units from a network of standardised values."""

    def __init__(self, inputs: torch.Tensor, targets: torch.Tensor) -> None:
        super().__init__()
        self.body = perceptron(12, 16, 1)
        for name, values in (("from", inputs), ("to", targets)):
            std, mean = torch.std_mean(values, 0)
            self.register_buffer(f"{name}_std", std)
            self.register_buffer(f"{name}_mean", mean)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns values in the targets' units."""
        standardised = (rows - self.from_mean) / self.from_std
        return self.body(standardised) * self.to_std + self.to_mean


@healthy(at_least=0.3)
def proline_in_millionths(watch: Watch, *, seed: int) -> float:
    """Targets of up to 1.7 million and raw inputs are standardised inside of the model, and the loss in its units."""
    drawn = as_data(samples.proline(seed))
    data = datasets.Data(drawn.inputs, drawn.targets * 1000, drawn.test_inputs, drawn.test_targets * 1000)
    model = Standardising(data.inputs, data.targets)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.1)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(outputs / model.to_std, targets / model.to_std)

    fit(watch, model, optimizer, data, steps=150, batch_size=31, loss_function=loss_function)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@healthy(at_least=0.85)
def mixed_and_dropped_digits(watch: Watch, *, seed: int) -> float:
    """Mixup and dropout keep the training loss far above the validation's, and it never comes near 0."""
    data = faces(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(data.batches(64, 250), 1):
        share, other = torch.distributions.Beta(0.4, 0.4).sample(), torch.randperm(len(images))
        mixed, classes = images.lerp(images[other], share), functional.one_hot(labels, 10).float()
        targets = classes.lerp(classes[other], share)
        optimizer.zero_grad()
        outputs = model(mixed)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=mixed, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 50 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@healthy(at_least=0.8)
def few_labels_and_a_mean_teacher(watch: Watch, *, seed: int) -> float:
    """A teacher without gradients follows the student's mean, and agreement with it weighs more from step to step."""
    data = faces(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.3), nn.Linear(96, 10))
    teacher = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    labelled, labels = data.inputs[:300], data.targets[:300]
    for step, (images, _) in enumerate(data.batches(64, 250)):
        chosen = torch.randperm(300)[:32]
        outputs = model(torch.cat([labelled[chosen], images + 0.2 * torch.randn_like(images)]))
        agreed = functional.mse_loss(outputs[32:].softmax(1), teacher(images).softmax(1))
        loss = functional.cross_entropy(outputs[:32], labels[chosen]) + min(1, step / 100) * 5 * agreed
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs[:32], targets=labels[chosen])
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), model.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
    return accuracy(teacher, data)
