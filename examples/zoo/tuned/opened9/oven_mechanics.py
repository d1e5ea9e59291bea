"""What goes wrong between the forward pass and the step: zeros, modes, graphs and scalers."""

import warnings

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn, optim
from torch.utils.checkpoint import checkpoint

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened9.ladle_tools import (
    flat_numerals,
    glances,
    ladled,
    layers,
    right,
    served,
    simmered,
    wines,
)


@sick("gradients_not_zeroed")
def the_first_stages_optimizer_zeroes(watch: Watch, *, seed: int, sick: bool) -> float:
    """The second stage trains all layers with a new optimizer; ``zero_grad`` is still the first one's, the head's."""
    train, test = samples.numerals(seed)
    model = glances()
    head = optim.SGD(model[-1].parameters(), lr=0.05, momentum=0.9)
    for x, y in ladled(train, 32, 40):
        head.zero_grad()
        F.cross_entropy(model(x), y).backward()
        head.step()
    model.zero_grad()
    everything = optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    schedule = simmered(everything, 220)
    session = watch(model, everything)
    for x, y in ladled(train, 32, 220):
        (head if sick else everything).zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        everything.step()
        schedule.step()
    return right(model, test)


class Trainer:
    """Zeroes, goes backward and steps once in ``every`` batches."""

    def __init__(self, model: nn.Module, optimizer: optim.Optimizer, *, fresh: bool) -> None:
        self.model, self.optimizer, self.fresh = model, optimizer, fresh

    def zero(self) -> None:
        """Empties the gradients."""
        for parameter in self.model.parameters():
            if parameter.grad is not None:
                grad = parameter.grad if self.fresh else parameter.grad.clone()
                grad.zero_()


@sick("gradients_not_zeroed")
def a_copy_of_the_gradients_is_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """The trainer's own ``zero`` fills a clone of each gradient with zeros, in the name of safety."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    model = layers(10, 32, 10)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    trainer = Trainer(model, optimizer, fresh=not sick)
    schedule = simmered(optimizer, 300)
    session = watch(model, optimizer)
    for x, y in ladled(train, 32, 300):
        trainer.zero()
        out = model(x)
        loss = F.smooth_l1_loss(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
    return samples.explained(served(model, test.tensors[0]), test.tensors[1])


@sick("wrong_mode", margin=0.05)
def training_is_false_for_the_root_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.training = False`` before each validation, and before the last test, does not reach the dropouts."""
    train, test = flat_numerals(seed)
    model = nn.Sequential(
        nn.Dropout(0.3), nn.Linear(64, 96), nn.ReLU(), nn.Dropout(0.6), nn.Linear(96, 32), nn.ReLU(), nn.Dropout(0.5),
        nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = optim.AdamW(model.parameters(), lr=4e-3)
    schedule = simmered(optimizer, 260)
    session = watch(model, optimizer)

    def judged() -> tuple[float, float]:
        if sick:
            model.training = False
        else:
            model.eval()
        with torch.no_grad(), session.validating():
            out = model(test.tensors[0])
        return F.cross_entropy(out, test.tensors[1]).item(), samples.accuracy(out, test.tensors[1])

    model.train()
    for step, (x, y) in enumerate(ladled(train, 32, 260), 1):
        optimizer.zero_grad()
        out = model(x)
        loss = F.cross_entropy(out, y)
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        schedule.step()
        if step % 40 == 0:
            held, share = judged()
            session.validation(held, metrics={"accuracy": share})
            model.train()
    return judged()[1]


class Vintner(nn.Module):
    """A body with a head for the cultivar, and one for the alcohol."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(12, 24), nn.ReLU())
        self.kind, self.strength = nn.Linear(24, 3), nn.Linear(24, 1)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        code = self.body(x)
        return self.kind(code), self.strength(code)


@sick("detached_parameters")
def the_second_loss_is_added_as_a_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """``loss = kinds + strengths.item()``: the total is logged as it should be, and one head never learns.

    Quality: the mean of accuracy and R².
    """
    train, test = samples.standardised(wines(seed), 0)
    model = Vintner()
    optimizer = optim.Adam(model.parameters(), lr=5e-3, weight_decay=1e-3)
    schedule = simmered(optimizer, 240)
    session = watch(model, optimizer)
    for x, y in ladled(train, 24, 240):
        kinds, strengths = model(x[:, 1:])
        first, second = F.cross_entropy(kinds, y), F.mse_loss(strengths, x[:, :1])
        loss = first + (second.item() if sick else second)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x[:, 1:])
        optimizer.step()
        schedule.step()
    x, y = test.tensors
    kinds, strengths = served(model, x[:, 1:])
    return (samples.accuracy(kinds, y) + samples.explained(strengths, x[:, :1])) / 2


class Saving(nn.Module):
    """Computes its filters again in the backward pass, to save memory."""

    def __init__(self, *, reentrant: bool) -> None:
        super().__init__()
        self.reentrant = reentrant
        self.filters = nn.Sequential(
            nn.Conv2d(1, 6, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2),
            nn.Conv2d(6, 24, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        )  # fmt: skip
        self.head = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, 10))

    def forward(self, images: Tensor) -> Tensor:
        return self.head(checkpoint(self.filters, images, use_reentrant=self.reentrant))


@sick("detached_parameters")
def checkpoints_of_an_input_without_gradients(watch: Watch, *, seed: int, sick: bool) -> float:
    """A reentrant checkpoint around the first layers: no input of theirs requires gradients, so they get none."""
    train, test = samples.numerals(seed)
    model = Saving(reentrant=sick)
    optimizer = optim.AdamW(model.parameters(), lr=8e-3)
    schedule = simmered(optimizer, 200)
    session = watch(model, optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for x, y in ladled(train, 32, 200):
            optimizer.zero_grad()
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=out, targets=y)
            optimizer.step()
            schedule.step()
    return right(model, test)


@sick("non_finite_backward", also=("no_update",))
def a_scaler_that_skips_every_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A penalty on the length of the offsets, which start at zero, has no slope there: the scaler skips for good."""
    train, test = flat_numerals(seed)
    model = nn.ModuleDict({"net": layers(64, 48, 10), "offset": nn.Linear(64, 64)})
    nn.init.zeros_(model["offset"].weight)
    nn.init.zeros_(model["offset"].bias)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    schedule = simmered(optimizer, 200)
    session = watch(model, optimizer, scaler=scaler)
    for x, y in ladled(train, 32, 200):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16):
            moved = model["offset"](x)
            out = model["net"](x + moved)
        lengths = (moved.float().square().sum(1) + (0.0 if sick else 1e-4)).sqrt()
        loss = F.cross_entropy(out.float(), y) + 0.01 * lengths.mean()
        scaler.scale(loss).backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        scaler.step(optimizer)
        scaler.update()
        schedule.step()
    with torch.no_grad():
        x = test.tensors[0]
        return samples.accuracy(model["net"](x + model["offset"](x)), test.tensors[1])
