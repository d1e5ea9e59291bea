"""Ends, schedules, sums of gradients, and clipping."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.tuned.opened38.b_common import WORDS, chapters, explained, matched, pairs, placed, ratings


def localiser() -> nn.Sequential:
    """Returns a network of convolutions that says at which corner (N, 2) a digit is."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 64),
        nn.ReLU(),
        nn.Linear(64, 2),
    )


@sick("stopped_too_early", margin=0.05)
def a_break_from_a_smoke_test(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ``break`` after 60 batches was left in from a trial of the loop; the twin goes through its six epochs."""
    data = ratings(seed)
    mean, pictures, pixels = nn.Embedding(64, 1), nn.Embedding(300, 12), nn.Embedding(64, 12)

    class Factors(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.mean, self.pictures, self.pixels = mean, pictures, pixels
            nn.init.normal_(pictures.weight, std=0.3)
            nn.init.normal_(pixels.weight, std=0.3)
            nn.init.zeros_(mean.weight)

        def forward(self, where: torch.Tensor) -> torch.Tensor:
            products = self.pictures(where[:, 0]) * self.pixels(where[:, 1])
            return products.sum(1) + self.mean(where[:, 1])[:, 0]

    model = Factors()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), 256, shuffle=True)
    done = 0
    for _ in range(6):
        for where, light in loader:
            outputs = model(where)
            loss = functional.mse_loss(outputs, light)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=where, outputs=outputs, targets=light)
            optimizer.step()
            done += 1
            if sick and done >= 60:
                break
        if sick and done >= 60:
            break
    return explained(model, data)


@sick("schedule_collapsed", also=("learning_rate_too_low", "stopped_too_early"), margin=0.05)
def milestones_of_epochs_counted_in_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``MultiStepLR`` has milestones in epochs and steps after each batch; the twin steps it after each epoch."""
    data = chapters(seed)
    model = nn.Sequential(nn.EmbeddingBag(WORDS, 32, mode="mean"), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, milestones=[10, 15, 18], gamma=0.1)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=64, shuffle=True)
    for _ in range(20):
        for words, labels in loader:
            outputs = model(words)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=words, outputs=outputs, targets=labels)
            optimizer.step()
            if sick:
                schedule.step()
        if not sick:
            schedule.step()
    return matched(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "loss_sum_not_mean", "exploding_gradients"))
def one_backward_for_each_of_twelve_pieces(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve pieces of a batch that is too large go backward one by one, undivided; the twin divides each loss."""
    data = placed(seed)
    targets, test = (data.targets - 3) / 2, (data.test_targets - 3) / 2
    model = localiser()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for batch in torch.randperm(len(targets)).split(192)[:-1]:
            optimizer.zero_grad()
            total = 0.0
            for piece in batch.split(16):
                outputs = model(data.inputs[piece])
                loss = functional.mse_loss(outputs, targets[piece])
                if not sick:
                    loss = loss / 12
                loss.backward()
                total += loss.item()
            session.step(total)
            optimizer.step()
    with torch.no_grad():
        error = functional.mse_loss(model(data.test_inputs), test)
    return (1 - error / test.var(0).mean()).clamp(min=-1).nan_to_num(-1).item()


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.05)
def hooks_that_clamp_to_a_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hooks clamp each gradient to ±0.00005, a value meant for a decay, and SGD stands still; the twin's to ±0.5."""
    data = pairs(seed)
    tower = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 24))

    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tower, self.head = tower, nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, both: torch.Tensor) -> torch.Tensor:
            left, right = self.tower(both[:, 0]), self.tower(both[:, 1])
            return self.head((left - right).abs())[:, 0]

    model = Twins()
    bound = 5e-5 if sick else 0.5
    for parameter in model.parameters():
        parameter.register_hook(lambda gradient: gradient.clamp(-bound, bound))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for both, same in data.batches(64, 300):
        optimizer.zero_grad()
        outputs = model(both)
        loss = functional.binary_cross_entropy_with_logits(outputs, same)
        loss.backward()
        session.step(loss, inputs=both, outputs=outputs, targets=same)
        optimizer.step()
    with torch.no_grad():
        return ((model(data.test_inputs) > 0) == (data.test_targets > 0.5)).float().mean().item()


@sick(
    "clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high", "poor_initialization"), margin=0.05
)
def a_clamp_that_returns_a_copy(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.clamp`` of the gradients returns new ones, which nobody keeps; the twin's ``clamp_`` works in place."""
    whole = datasets.digits(seed)
    data = Data((whole.inputs - 0.3) / 0.37, whole.targets, (whole.test_inputs - 0.3) / 0.37, whole.test_targets)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell, self.head = nn.RNN(4, 48, nonlinearity="relu", batch_first=True), nn.Linear(48, 10)
            nn.init.eye_(self.cell.weight_hh_l0)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(pixels.view(-1, 16, 4))[0][:, -1])

    model = Reader()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 350):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        for parameter in model.parameters():
            if sick:
                torch.clamp(parameter.grad, -0.02, 0.02)
            else:
                parameter.grad.clamp_(-0.02, 0.02)
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return matched(model, data)
