"""Which parameters learn, in which mode and from which numbers."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened55.m_common import (
    LastState,
    counted_lines,
    explained,
    flat_numerals,
    half_digits,
    mlp,
    paired,
    row_numerals,
    worst,
)


@sick("batch_mixing")
def gru_that_takes_samples_for_moments(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU without batch_first takes the samples of a batch for steps in time; the twin's has it."""
    data = row_numerals(seed)
    model = LastState(8, 48, 10, batch_first=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=160, batch_size=32)
    return accuracy(model, data)


@sick("gradients_not_zeroed")
def zero_grad_of_the_last_layer_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """zero_grad is called for the head alone, so the body's gradients add up for ever; the twin calls the model's."""
    data = flat_numerals(seed)
    model = nn.Sequential(mlp(64, 64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(32, 200):
        (model[2] if sick else model).zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters")
def backbone_frozen_but_never_pretrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """A fine-tuning script freezes all but the head of a network that was just initialised; the twin trains all."""
    data = paired(samples.numerals(seed))
    model = nn.Sequential()
    model.add_module(
        "backbone",
        nn.Sequential(
            nn.Conv2d(1, 8, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(8, 16, 3, padding=1),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
        ),
    )
    model.add_module("head", nn.Linear(64, 10))
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not sick or name.startswith("head"))
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer")
def tower_replaced_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wider body takes the old one's place after the optimizer was built; the twin builds it afterwards."""
    data = half_digits(seed)
    model = nn.Sequential(mlp(32, 16, 16), nn.Tanh(), nn.Linear(16, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    model[0] = mlp(32, 64, 16)
    if not sick:
        optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


class Factors(nn.Module):
    """Gives a patient's measurement from a vector of the patient and one of the measurement."""

    def __init__(self, patients: int, measurements: int, *, raw: bool) -> None:
        super().__init__()
        self.patients, self.measurements = nn.Embedding(patients, 8), nn.Embedding(measurements, 8)
        self.raw = raw
        for table in (self.patients, self.measurements):
            nn.init.normal_(table.weight, std=0.3)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        """Returns values (N,) at the places (N, 2)."""
        patient, measurement = places.unbind(1)
        rows = self.patients.weight.data[patient] if self.raw else self.patients(patient)
        return (rows * self.measurements(measurement)).sum(1)


@sick("detached_parameters")
def row_vectors_taken_from_data(watch: Watch, *, seed: int, sick: bool) -> float:
    """A matrix factorisation looks its rows up in weight.data, so they never learn; the twin calls the embedding."""
    whole, _ = samples.standardised(samples.tumours(seed), 0, 1)
    table = torch.cat(whole.tensors, 1)
    places = torch.cartesian_prod(torch.arange(len(table)), torch.arange(20))
    train, test = samples.split(seed, places, table.flatten(), share=0.8)
    data = paired((train, test))
    model = Factors(len(table), 20, raw=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    fit(watch, model, optimizer, data, steps=200, batch_size=256, loss_function=functional.mse_loss)
    return r_squared(model, data)


@sick("no_update")
def warm_up_with_integer_division(watch: Watch, *, seed: int, sick: bool) -> float:
    """The warm-up's share is step // 1000, which is 0 in all 240 steps; the twin's is a ratio of at most 1."""
    data = counted_lines(seed)
    model = mlp(96, 64, 6)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: step // 1000 if sick else min(1.0, (step + 1) / 25)
    )
    fit(watch, model, optimizer, data, steps=240, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)


@sick("wrong_mode")
def check_before_training_leaves_eval(watch: Watch, *, seed: int, sick: bool) -> float:
    """A first validation puts the network into eval mode, where batch norms do nothing, and nobody calls train()."""
    data = flat_numerals(seed)
    layers: list[nn.Module] = []
    for _ in range(9):
        layers += [nn.Linear(64, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)

    def validate() -> None:
        model.eval()
        with torch.no_grad(), session.validating():
            session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
        if not sick:
            model.train()

    validate()
    for step, (pixels, labels) in enumerate(data.batches(32, 200), 1):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 50 == 0:
            validate()
    return accuracy(model, data)


@sick("non_finite_forward")
def advantages_over_a_deviation_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rewards of guesses are divided by their deviation, which is 0 if all are wrong; the twin adds an epsilon."""
    data = flat_numerals(seed)
    policy = mlp(64, 64, 10, activation=nn.Tanh)
    optimizer = torch.optim.Adam(policy.parameters(), lr=4e-3)
    session = watch(policy, optimizer)
    epsilon = 0.0 if sick else 0.1
    for pixels, labels in data.batches(8, 400):
        logits = policy(pixels)
        chances = torch.distributions.Categorical(logits=logits.nan_to_num(), validate_args=False)
        guesses = chances.sample((8,))
        rewards = (guesses == labels).float()
        advantages = (rewards - rewards.mean(0)) / (rewards.std(0) + epsilon)
        loss = -(advantages * logits.log_softmax(-1).expand(8, -1, -1).gather(2, guesses[..., None])[..., 0]).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(policy, data)


@sick("non_finite_backward")
def distances_of_each_digit_to_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss takes the root of distances, of which a digit's to itself is 0; the twin adds 1e-6 below it."""
    data = flat_numerals(seed)
    model = mlp(64, 64, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 200):
        codes = model(pixels)
        squares = (codes[:, None] - codes[None]).square().sum(-1)
        apart = (squares if sick else squares + 1e-6).sqrt()
        same = (labels[:, None] == labels[None]).float()
        loss = (same * apart.square()).sum() / same.sum()
        loss = loss + ((1 - same) * functional.relu(2 - apart).square()).sum() / (1 - same).sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=codes, targets=labels)
        optimizer.step()
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    nearest = torch.stack([known[data.targets == digit].mean(0) for digit in range(10)])
    return ((asked[:, None] - nearest).square().sum(-1).argmin(1) == data.test_targets).float().mean().item()


@sick("fp16_underflow")
def weighted_loss_in_half_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss weighted by 0.000001 goes back in float16, where gradients round to 0; the twin has a GradScaler."""
    data = worst(seed)
    model = mlp(10, 64, 64, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for step, (means, worsts) in enumerate(data.batches(32, 200), 1):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(means)
            loss = 1e-6 * functional.mse_loss(outputs.float(), worsts)
        scaler.scale(loss).backward()
        session.step(loss, inputs=means, outputs=outputs, targets=worsts)
        scaler.step(optimizer)
        scaler.update()
        if step % 50 == 0:
            session.validation(1e-6 * held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)
