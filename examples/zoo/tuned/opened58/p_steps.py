"""Which parameters learn, in which mode, and by how much."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened58.p_common import of, stack


@sick("gradients_not_zeroed")
def the_encoder_is_zeroed_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of two optimizers the encoder's is zeroed twice and the head's never; the twin zeroes each."""
    data = of(samples.numerals(seed))
    model = nn.ModuleDict(
        {
            "encoder": nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.Tanh()),
            "head": stack(48, 32, 10, activation=nn.Tanh),
        }
    )
    encoding = torch.optim.SGD(model["encoder"].parameters(), lr=0.05, momentum=0.9)
    deciding = torch.optim.SGD(model["head"].parameters(), lr=0.05, momentum=0.9)
    coder, decider = watch(model["encoder"], encoding), watch(model["head"], deciding)
    for images, labels in data.batches(64, 200):
        encoding.zero_grad()
        (encoding if sick else deciding).zero_grad()
        outputs = model["head"](model["encoder"](images))
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        coder.step(loss, inputs=images)
        decider.step(loss, outputs=outputs, targets=labels)
        encoding.step()
        deciding.step()
    with torch.no_grad():
        return samples.accuracy(model["head"](model["encoder"](data.test_inputs)), data.test_targets)


@sick("frozen_parameters")
def vectors_from_pretrained_that_never_were(watch: Watch, *, seed: int, sick: bool) -> float:
    """Embedding.from_pretrained freezes, but its vectors are drawn, not trained; the twin lets them learn."""
    data = datasets.text(seed, length=8)

    class Following(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding.from_pretrained(torch.randn(CHARACTERS, 4), freeze=sick)
            self.head = nn.Linear(4, CHARACTERS)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.letters(codes))

    model = Following()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())

    fit(watch, model, optimizer, data, steps=250, loss_function=loss_function)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("parameters_not_in_optimizer")
def decoder_left_to_chance(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer of an inpainting net has the encoder alone; the twin's has the decoder, too."""
    data = of(samples.halves(seed))

    class Inpainter(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = stack(32, 64, 8), stack(8, 64, 32)

        def forward(self, upper: torch.Tensor) -> torch.Tensor:
            return self.decoder(self.encoder(upper))

    model = Inpainter()
    parameters = [*model.encoder.parameters()] + ([] if sick else [*model.decoder.parameters()])
    optimizer = torch.optim.AdamW(parameters, lr=3e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("detached_parameters")
def hard_bits_without_a_way_back(watch: Watch, *, seed: int, sick: bool) -> float:
    """Codes are made bits by a comparison, through which no gradient goes; the twin passes it straight through."""
    data = datasets.digits(seed)

    class Bits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = stack(64, 64, 12), stack(12, 64, 64)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            soft = self.encoder(pixels).sigmoid()
            bits = (soft > 0.5).float()
            return self.decoder(bits if sick else bits + soft - soft.detach())

    model = Bits()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 350):
        outputs = model(pixels)
        loss = functional.mse_loss(outputs, pixels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return (
        1
        - (
            (predicted(model, data.test_inputs) - data.test_inputs).square().mean() / data.test_inputs.var(0).mean()
        ).item()
    )


@sick("wrong_mode")
def sanity_check_that_stays_in_eval(watch: Watch, *, seed: int, sick: bool) -> float:
    """A validation before the first epoch switches to eval, and nobody switches back; the twin does."""
    data = of(samples.numerals(seed))
    layers: list[nn.Module] = [nn.Flatten()]
    for _ in range(8):
        layers += [nn.Linear(64, 64, bias=False), nn.BatchNorm1d(64), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)

    def validate() -> None:
        model.eval()
        with torch.no_grad():
            value = functional.cross_entropy(model(data.test_inputs), data.test_targets).item()
        session.validation(value)
        if not sick:
            model.train()

    validate()
    for step, (images, labels) in enumerate(data.batches(64, 120), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 40 == 0:
            validate()
    return accuracy(model, data)


@sick("fp16_underflow")
def soft_targets_in_half_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """A student follows a hot teacher in float16, and the tiny gradients become 0; the twin scales its loss."""
    data = datasets.digits(seed)
    teacher = stack(64, 64, 10)
    taught = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for pixels, labels in data.batches(64, 120):
        taught.zero_grad()
        functional.cross_entropy(teacher(pixels), labels).backward()
        taught.step()
    teacher.requires_grad_(False)
    student = stack(64, 32, 32, 10)
    optimizer = torch.optim.AdamW(student.parameters(), lr=5e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**20, enabled=not sick)
    session = watch(student, optimizer, scaler=scaler)
    heat, share = 40.0, 0.1
    for pixels, _ in data.batches(256, 200):
        soft = (teacher(pixels) / heat).softmax(-1)
        with torch.autocast("cpu", torch.float16):
            outputs = student(pixels)
            loss = share * functional.kl_div((outputs.float() / heat).log_softmax(-1), soft, reduction="none").mean()
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=soft)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(student, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def sixteen_slices_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """The losses of sixteen small batches are added for a step; the twin divides each by sixteen."""
    data = datasets.digits(seed)
    data = Data((data.inputs - 0.3) / 0.37, data.targets, (data.test_inputs - 0.3) / 0.37, data.test_targets)
    model = stack(64, 48, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session, slices = watch(model, optimizer), 16
    batches = data.batches(8, 100 * slices)
    for _ in range(100):
        optimizer.zero_grad()
        for _ in range(slices):
            pixels, labels = next(batches)
            outputs = model(pixels)
            loss = functional.cross_entropy(outputs, labels)
            (loss if sick else loss / slices).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    session.validation(held_out_loss(model, data))
    return accuracy(model, data)
