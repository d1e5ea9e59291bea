"""Which parameters are trained, by what, and in which mode."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened48.f_kit import Gaps, centred, data_of, mlp


class Rows(nn.Module):
    """Reads a digit by rows with an LSTM."""

    def __init__(self) -> None:
        super().__init__()
        self.lstm, self.head = nn.LSTM(8, 48, batch_first=True), nn.Linear(48, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.lstm(pixels.view(-1, 8, 8))[0][:, -1])


@sick("gradients_not_zeroed", margin=0.05)
def zero_grad_one_level_too_far_left(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands one level too far left and runs once an epoch; the twin runs it with each batch."""
    data = centred(datasets.digits(seed))
    model = Rows()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(7):
        optimizer.zero_grad()
        for inputs, targets in data.batches(48, 29):
            if not sick:
                optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.05)
def backbone_frozen_that_nobody_pretrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recipe for transfer freezes the backbone, which here begins at random; the twin trains it."""
    data = centred(datasets.digits(seed, images=True))
    backbone = nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2), nn.ReLU(), nn.Conv2d(8, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16, 12)
    )
    model = nn.Sequential(backbone, nn.ReLU(), nn.Linear(12, 10))
    for parameter in backbone.parameters():
        parameter.requires_grad = not sick
    optimizer = torch.optim.Adam((one for one in model.parameters() if one.requires_grad), lr=4e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.05)
def encoder_exchanged_behind_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer is made before the encoder is exchanged for a deeper one; the twin makes it afterwards."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = nn.Sequential(mlp(64, 10), nn.Tanh(), mlp(10, 48, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model[0] = mlp(64, 48, 10)
    if not sick:
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Quantised(nn.Module):
    """An autoencoder with eight discrete codes of four numbers."""

    def __init__(self, straight: bool) -> None:
        super().__init__()
        self.straight = straight
        self.encode, self.decode = mlp(64, 64, 32), mlp(32, 64, 64)
        self.codes = nn.Parameter(0.3 * torch.randn(8, 16, 4))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns pixels, and how far the codes are from what was encoded."""
        encoded = self.encode(pixels).view(-1, 8, 4)
        nearest = (encoded[:, :, None] - self.codes).square().sum(3).argmin(2)
        chosen = self.codes[torch.arange(8), nearest]
        if not self.straight:
            return self.decode(chosen.flatten(1)), (chosen - encoded.detach()).square().mean()
        gap = (chosen - encoded.detach()).square().mean() + 0.25 * (chosen.detach() - encoded).square().mean()
        return self.decode((encoded + (chosen - encoded).detach()).flatten(1)), gap


@sick("detached_parameters", margin=0.05)
def codes_without_the_straight_through(watch: Watch, *, seed: int, sick: bool) -> float:
    """Nearest codes replace what the encoder says, which gets no gradient; the twin passes it straight through."""
    data = datasets.digits(seed)
    model = Quantised(not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        optimizer.zero_grad()
        outputs, gap = model(pixels)
        loss = functional.mse_loss(outputs, pixels) + 0.1 * gap
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return explained(model(data.test_inputs)[0], data.test_inputs)


@sick("no_update", margin=0.1)
def warmup_by_a_whole_number_division(watch: Watch, *, seed: int, sick: bool) -> float:
    """A warm-up divides with ``//``, which makes the rate 0 for all of this run; the twin divides with ``/``."""
    data = datasets.text(seed, length=24, count=1200)
    model = Gaps(datasets.CHARACTERS)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)

    def factor(step: int) -> float:
        return (step + 1) // 1000 if sick else min(1.0, (step + 1) / 20)

    rising = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, scheduler=rising)
    logits = predicted(model, data.test_inputs)
    return (logits.argmax(1) == data.test_targets).float().mean().item()


@sick("wrong_mode", margin=0.05)
def left_in_eval_by_a_check_before_the_start(watch: Watch, *, seed: int, sick: bool) -> float:
    """A trial validation at the start leaves the batch norms in eval mode for good; the twin returns to train."""
    data = data_of(samples.scenes(seed, count=1400))
    layers: list[nn.Module] = [nn.Flatten(), nn.Linear(192, 48)]
    for _ in range(7):
        layers += [nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 48)]
    model = nn.Sequential(*layers, nn.BatchNorm1d(48), nn.ReLU(), nn.Linear(48, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    model.eval()
    with torch.no_grad():
        trial = functional.cross_entropy(model(data.test_inputs), data.test_targets).item()
    session.validation(trial)
    if not sick:
        model.train()
    for step, (inputs, targets) in enumerate(data.batches(48, 120), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 40 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)
