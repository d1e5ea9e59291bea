"""What goes wrong between the backward pass and the step."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened31.a_parts import Writer, centred, each, explained, loader, of, right


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def zeroed_once_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands one level too far out, in the loop of epochs; the twin zeroes before each batch."""
    data = of(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(10):
        optimizer.zero_grad()
        for upper, lower in loader(data, 48):
            outputs = model(upper)
            loss = functional.mse_loss(outputs, lower)
            loss.backward()
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            optimizer.step()
            if not sick:
                optimizer.zero_grad()
    return explained(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def eight_pieces_of_python(watch: Watch, *, seed: int, sick: bool) -> float:
    """A writer's gradients of eight micro-batches are added under SGD; the twin divides each loss by eight."""
    data = datasets.text(seed, length=10, count=1400)
    model = Writer(32)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9)
    session = watch(model, optimizer)
    for index, (codes, following) in enumerate(data.batches(8, 600)):
        logits = model(codes)
        loss = each(logits, following)
        (loss if sick else loss / 8).backward()
        if (index + 1) % 8 == 0:
            session.step(loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
            optimizer.zero_grad()
    return right(model, data)


@sick("no_update", also=("learning_rate_too_low", "schedule_collapsed"), margin=0.1)
def warmed_up_in_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The warm-up's factor is ``step // 200``, so the rate is 0 for as long; the twin divides by ``/`` and 20."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min(1, step // 200) if sick else min(1.0, (step + 1) / 20)
    )
    fit(watch, model, optimizer, data, steps=150, batch_size=16, scheduler=schedule)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.1)
def ten_classes_for_a_net_of_two(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head for odd and even is replaced once the optimizer has its groups; the twin makes a new one."""
    data = centred(datasets.digits(seed, images=True))
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 24), nn.ReLU(), nn.Linear(24, 2))

    def tuner() -> torch.optim.Optimizer:
        groups = [{"params": model[:5].parameters(), "lr": 1e-4}, {"params": model[5].parameters(), "lr": 5e-3}]
        return torch.optim.Adam(groups)

    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for images, labels in data.batches(64, 60):
        optimizer.zero_grad()
        functional.cross_entropy(model(images), labels % 2).backward()
        optimizer.step()
    optimizer = tuner()
    model[5] = nn.Linear(24, 10)
    if not sick:
        optimizer = tuner()
    fit(watch, model, optimizer, data, steps=300, batch_size=48)
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.05)
def a_backbone_frozen_that_knows_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """All but ``head`` is frozen, as for a pretrained net, but the weights are random; the twin trains all."""
    data = of(samples.lines(seed))
    data = Data(data.inputs.log1p(), data.targets, data.test_inputs.log1p(), data.test_targets)
    model = nn.Sequential()
    model.add_module("squeeze", nn.Sequential(nn.Linear(96, 6), nn.ReLU(), nn.Linear(6, 16), nn.ReLU()))
    model.add_module("head", nn.Linear(16, len(samples.FILES)))
    for name, parameter in model.named_parameters():
        parameter.requires_grad = name.startswith("head") or not sick
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32)
    return accuracy(model, data)


@sick("detached_parameters", also=("frozen_parameters",), margin=0.05)
def no_grad_from_the_time_of_tests(watch: Watch, *, seed: int, sick: bool) -> float:
    """The encoder runs below ``no_grad``, copied from a script for inference; the twin runs it with gradients."""
    data = of(samples.names(seed))

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(samples.LETTERS, 20, padding_idx=0)
            self.rnn = nn.LSTM(20, 24, batch_first=True)
            self.head = nn.Linear(24, len(samples.SCRIPTS))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not sick):
                states, _ = self.rnn(self.embed(codes))
            return self.head(states.amax(1))

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=160, batch_size=48)
    return accuracy(model, data)


@sick("wrong_mode", margin=0.04)
def validated_with_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """Validations and the final test run in training mode, with half of the units off; the twin calls ``eval``."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.5), nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.5))
    model.append(nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        model.train()
        for images, labels in loader(data, 48):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        if not sick:
            model.eval()
        with session.validating(), torch.no_grad():
            logits = model(data.test_inputs)
            session.validation(functional.cross_entropy(logits, data.test_targets).item())
    return samples.accuracy(logits, data.test_targets)


@sick("fp16_underflow", also=("learning_rate_too_low", "no_update"), margin=0.05)
def pixels_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """The mean over all pixels, by 0.0001 for other tasks' sake, has float16 gradients near 0; the twin scales it."""
    data = of(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for upper, lower in data.batches(96, 250):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(upper)
        loss = 1e-4 * functional.mse_loss(outputs.float(), lower)
        scaler.scale(loss).backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        scaler.step(optimizer)
        scaler.update()
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)
