"""The ways in which a training is watched, what each tells of a planted fault, and whether that is right."""

import contextlib
import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

import stepscope
from debuggers.first_nan.origin import NonFiniteOrigin
from planted.architectures import Batch, batch_for, switch
from planted.healthy import Healthy
from planted.trainings import Training
from stability import FirstNaNFinder, GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

STEPS, AT = 6, 3

Step = Callable[[Tensor, Callable[[], Tensor]], Any]
Watch = Callable[..., contextlib.AbstractContextManager["Watched"]]


@dataclass
class Watched:
    """A training that is watched: takes each step, and has the answers at the end."""

    step: Step
    answers: Callable[[], Any]


def _session(managed: bool = False, **options: Any) -> Watch:
    @contextlib.contextmanager
    def watch(
        model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None = None
    ) -> Iterator[Watched]:
        skip = NaNHandlingConfig(handling_type="skip")
        manager = (
            NumericalStabilityManager(GradientClippingConfig(max_norm=1.0), skip, scaler=scaler) if managed else None
        )
        with stepscope.DebugSession(model, optimizer, stability=manager, scaler=scaler, **options) as session:
            yield Watched(lambda loss, compute: session.step(loss, replay=compute), lambda: session.report().first_nans)

    return watch


@contextlib.contextmanager
def _without_replay(
    model: nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None = None
) -> Iterator[Watched]:
    with FirstNaNFinder(model) as finder:
        manager = NumericalStabilityManager(
            GradientClippingConfig(), NaNHandlingConfig(), find_first_nan=finder, scaler=scaler
        )
        yield Watched(lambda loss, compute: manager.step(model, loss, optimizer), lambda: finder.found)


SETTINGS: dict[str, Watch] = {
    "replay": _session(),
    "no replay": _without_replay,
    "manager skips": _session(managed=True),
    "every fifth": _session(config=stepscope.DebugConfig(schedule=stepscope.Schedule(every=5), max_overhead=None)),
    "unmeasured": _session(config=stepscope.DebugConfig(enable_gradient_debugging=False)),
}


def _loss(outputs: Tensor, targets: Tensor) -> Tensor:
    return functional.cross_entropy(outputs, targets)


def compute_of(training: Training, model: nn.Module, batch: Batch, *, at_fault: bool) -> Callable[[], Tensor]:
    """Returns the function that computes the loss of a batch, over all of its micro-batches."""
    parts = training.micro_batches

    def compute() -> Tensor:
        total = torch.zeros(())
        for place, (inputs, targets) in enumerate(
            zip(batch.inputs.chunk(parts), batch.targets.chunk(parts), strict=True)
        ):
            switch.on = at_fault and place == min(1, parts - 1)
            autocast = (
                torch.autocast("cpu", dtype=training.precision) if training.precision else contextlib.nullcontext()
            )
            with autocast:
                outputs = model(inputs)
            loss = training.loss if switch.on and training.loss is not None else _loss
            total = total + loss(outputs.float(), targets) / parts
        switch.on = at_fault and parts == 1
        return total

    return compute


def told(training: Training, setting: str) -> list[tuple[int, NonFiniteOrigin | None]]:
    """Trains, and returns the steps that were answered with the answers."""
    torch.manual_seed(0)
    model = training.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    try:
        with contextlib.redirect_stderr(io.StringIO()), SETTINGS[setting](model, optimizer) as watched:
            for number in range(STEPS):
                batch = batch_for(model)
                if number == AT and training.prepare is not None:
                    training.prepare(model, batch)
                compute = compute_of(training, model, batch, at_fault=number == AT)
                optimizer.zero_grad()
                loss = compute()
                loss.backward()
                watched.step(loss, compute)
                optimizer.step()
            return [(answer.step, answer.origin) for answer in watched.answers()]
    finally:
        switch.on = False


def told_of_healthy(training: Healthy, setting: str) -> tuple[bool, list[Any]]:
    """Trains; returns whether all losses and weights were finite, and the answers, of which there must be none."""
    torch.manual_seed(0)
    model = training.model()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    scaler = None if training.init_scale is None else torch.amp.GradScaler("cpu", init_scale=training.init_scale)
    switch.on, is_finite = True, True
    try:
        with contextlib.redirect_stderr(io.StringIO()), SETTINGS[setting](model, optimizer, scaler) as watched:
            for _ in range(STEPS):
                batch = batch_for(model)
                if training.prepare is not None:
                    training.prepare(batch)

                def compute(batch: Batch = batch) -> Tensor:
                    return (training.loss or _loss)(model(batch.inputs), batch.targets)

                optimizer.zero_grad()
                loss = compute()
                is_finite &= bool(loss.isfinite())
                if scaler is None:
                    loss.backward()
                    watched.step(loss, compute)
                    optimizer.step()
                else:
                    scaler.scale(loss).backward()
                    watched.step(loss, compute)
                    scaler.step(optimizer)
                    scaler.update()
            is_finite &= all(bool(parameter.isfinite().all()) for parameter in model.parameters())
            return is_finite, list(watched.answers())
    finally:
        switch.on = False


def verdict(training: Training, answers: list[tuple[int, NonFiniteOrigin | None]]) -> str:
    """Returns ``exactly``, ``module``, ``none`` or ``wrong``; each further answer is one too many."""
    found = [origin for _, origin in answers if origin is not None]
    if not found:
        return "none"
    (origin, *others), steps = found, {step for step, _ in answers}
    if others or steps != {AT} or origin.module.replace("_orig_mod.", "") != training.module:
        return "wrong"
    return "exactly" if origin.operator in training.operators and origin.direction == training.direction else "module"
