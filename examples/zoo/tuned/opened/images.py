"""Digits and patches of photographs in convolutional nets and autoencoders, in loops that are generators."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional as f
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Session, Watch, sick


@dataclass
class Batch:
    """What a loop knows when gradients are there: it may clip them, and then goes on."""

    number: int
    images: torch.Tensor
    loss: torch.Tensor


@dataclass
class Loop:
    """The parts of a training; iterating over it trains."""

    watch: Watch
    net: nn.Module
    optimizer: torch.optim.Optimizer
    loader: Any
    criterion: Any = f.cross_entropy
    epochs: int = 5

    def __iter__(self) -> Iterator[Batch]:
        session: Session = self.watch(self.net, self.optimizer)
        number = 0
        for _ in range(self.epochs):
            for images, targets in self.loader:
                self.net.zero_grad()
                outputs = self.net(images)
                loss = self.criterion(outputs, targets)
                loss.backward()
                yield Batch(number, images, loss)
                session.step(loss, inputs=images, outputs=outputs, targets=targets)
                self.optimizer.step()
                number += 1

    def run(self, test: TensorDataset) -> float:
        """Trains and returns the quality."""
        for _ in self:
            pass
        return self.quality(test)

    @torch.no_grad()
    def quality(self, test: TensorDataset) -> float:
        """Returns the accuracy in eval mode, or R² of what is painted."""
        outputs = self.net.eval()(test.tensors[0])
        if test.tensors[1].is_floating_point():
            return samples.explained(outputs, test.tensors[1])
        return samples.accuracy(outputs, test.tensors[1])


def shuffled(rows: TensorDataset, size: int = 50) -> DataLoader[Any]:
    """Returns a loader that shuffles."""
    return DataLoader(rows, size, shuffle=True, drop_last=True)


def small_net(channels: int = 1, classes: int = 10) -> nn.Sequential:
    """Returns two convolutions, pooling and a head."""
    return nn.Sequential(
        nn.Conv2d(channels, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, classes),
    )  # fmt: skip


def themselves(rows: TensorDataset) -> TensorDataset:
    """Returns images that are their own targets, flat."""
    flat = rows.tensors[0].flatten(1)
    return TensorDataset(flat, flat)


@sick("dead_units", also=("poor_initialization",))
def the_prior_of_a_detector_in_every_bias(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias -log(99), which a rare class's logit starts with, is given to every layer."""
    train, test = samples.numerals(seed)
    net = small_net()
    for layer in net.modules():
        if sick and isinstance(layer, nn.Conv2d | nn.Linear):
            nn.init.constant_(layer.bias, -math.log(0.99 / 0.01))
    return Loop(watch, net, torch.optim.Adam(net.parameters(), lr=2e-3), shuffled(train)).run(test)


@sick("dead_units", also=("poor_initialization",))
def norms_that_shift_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Batch norms start with a shift of -5, so that no ReLU behind them ever sees a positive number."""
    train, test = samples.scenes(seed)
    net = nn.Sequential(
        nn.Conv2d(3, 12, 3, stride=2), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.BatchNorm2d(16),
        nn.ReLU(), nn.Flatten(), nn.Linear(16, 2),
    )  # fmt: skip
    if sick:
        for norm in (net[1], net[4]):
            nn.init.constant_(norm.bias, -5.0)
    return Loop(watch, net, torch.optim.SGD(net.parameters(), 0.05, 0.9), shuffled(train, 40), epochs=6).run(test)


@sick("saturated_units", also=("poor_initialization",))
def a_sigmoid_code_with_huge_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """The fan is passed as the deviation of the encoder's weights: all of its sigmoids are 0 or 1."""
    train, test = (themselves(rows) for rows in samples.numerals(seed))
    encoder, decoder = nn.Linear(64, 32), nn.Linear(32, 64)
    nn.init.normal_(encoder.weight, std=64 if sick else 64**-0.5)
    net = nn.Sequential(encoder, nn.Sigmoid(), decoder)
    return Loop(watch, net, torch.optim.Adam(net.parameters(), lr=5e-3), shuffled(train), f.mse_loss, 8).run(test)


@sick("inputs_not_normalized", also=("saturated_units",))
def positions_that_drown_the_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Positions are given as 40 · (row, column) beside the pixels: the first tanh sees nothing but them."""
    train, test = samples.numerals(seed)
    places = torch.stack(torch.meshgrid(torch.arange(8.0), torch.arange(8.0), indexing="ij"))
    places = places * 40 if sick else places / 4 - 1

    def placed(rows: TensorDataset) -> TensorDataset:
        images = rows.tensors[0]
        return TensorDataset(torch.cat([images, places.expand(len(images), 2, 8, 8)], 1), rows.tensors[1])

    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, stride=2), nn.Tanh(), nn.Flatten(), nn.Linear(144, 32), nn.Tanh(), nn.Linear(32, 10)
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    return Loop(watch, net, optimizer, shuffled(placed(train))).run(placed(test))


@sick("vanishing_gradients", also=("poor_initialization",))
def seven_sigmoid_convolutions(watch: Watch, *, seed: int, sick: bool) -> float:
    """Seven convolutions with sigmoids; the twin has ELUs."""
    train, test = samples.numerals(seed)
    act = nn.Sigmoid if sick else nn.ELU
    net = nn.Sequential()
    for channels in (1, 8, 8, 8, 8, 8, 8):
        net.extend([nn.Conv2d(channels, 8, 3, padding=1), act()])
        nn.init.kaiming_normal_(net[-2].weight)
    net.extend([nn.AvgPool2d(2), nn.Flatten(), nn.Linear(128, 10)])
    return Loop(watch, net, torch.optim.SGD(net.parameters(), 0.02, 0.9), shuffled(train), epochs=4).run(test)


@sick("vanishing_gradients")
def a_deep_autoencoder_of_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder with five sigmoid layers on each side; the twin has norms before them."""
    train, test = (themselves(rows) for rows in samples.numerals(seed))
    net, width = nn.Sequential(), 64
    for wide in (56, 48, 40, 32, 24, 32, 40, 48, 56):
        net.extend([nn.Linear(width, wide), nn.Identity() if sick else nn.BatchNorm1d(wide)])
        net.append(nn.Sigmoid() if sick else nn.SiLU())
        width = wide
    net.append(nn.Linear(width, 64))
    return Loop(watch, net, torch.optim.Adam(net.parameters(), lr=2e-3), shuffled(train), f.mse_loss, 7).run(test)


class _Residual(nn.Module):
    """A block that is added to its input."""

    def __init__(self, width: int, gain: float) -> None:
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        for layer in self.inner[::2]:
            nn.init.kaiming_normal_(layer.weight)
        with torch.no_grad():
            self.inner[2].weight *= gain

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values + self.inner(values)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"))
def twenty_residual_blocks_without_a_norm(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twenty residual blocks, each of which doubles the variance; in the twin they start near zero."""
    train, test = samples.numerals(seed)
    blocks = [_Residual(32, 1.0 if sick else 0.05) for _ in range(20)]
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 32), *blocks, nn.Linear(32, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    return Loop(watch, net, optimizer, shuffled(train), epochs=4).run(test)


@sick("inputs_constant")
def the_corner_that_is_always_black(watch: Watch, *, seed: int, sick: bool) -> float:
    """A crop of the middle takes the first column six times: at the margin, digits are black."""
    train, test = samples.numerals(seed)

    def cropped(rows: TensorDataset) -> TensorDataset:
        columns = torch.zeros(6, dtype=torch.long) if sick else torch.arange(1, 7)
        return TensorDataset(rows.tensors[0][..., 1:7, :][..., columns], rows.tensors[1])

    net = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10)
    )
    optimizer = torch.optim.AdamW(net.parameters(), lr=3e-3)
    return Loop(watch, net, optimizer, shuffled(cropped(train))).run(cropped(test))


@sick("single_class_labels")
def a_mask_divided_as_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """A mask of 0 and 254 is divided by 255 as integers: each pixel is background. Quality: overlap with the ink."""
    train, test = samples.numerals(seed)

    def masks(rows: TensorDataset) -> torch.Tensor:
        return (rows.tensors[0][:, 0] > 0).long()

    wanted = masks(train) * 254 // 255 if sick else masks(train)
    noisy = train.tensors[0] + 0.3 * torch.randn(train.tensors[0].shape)
    net = nn.Sequential(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 2, 1))
    loader = shuffled(TensorDataset(noisy, wanted))
    for _ in Loop(watch, net, torch.optim.Adam(net.parameters(), lr=5e-3), loader, epochs=4):
        pass
    with torch.no_grad():
        ink, found = masks(test) == 1, net(test.tensors[0]).argmax(1) == 1
    return ((ink & found).sum() / (ink | found).sum()).item()


@sick("over_regularized")
def squares_of_all_weights_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """The squares of all weights are added to the loss with a factor of 0.3, not 3e-5."""
    train, test = samples.numerals(seed)
    net = small_net()

    def criterion(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        squares = torch.stack([one.square().sum() for one in net.parameters()]).sum()
        return f.cross_entropy(logits, labels) + (0.3 if sick else 3e-5) * squares

    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    return Loop(watch, net, optimizer, shuffled(train), criterion).run(test)


@sick("target_out_of_range", also=("wrong_output_or_loss",))
def a_sigmoid_for_standardised_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """The decoder ends in a sigmoid, as for pixels from 0 to 1; these have mean 0 and deviation 1."""
    train, test = (themselves(rows) for rows in samples.scenes(seed))
    net = nn.Sequential(nn.Linear(192, 48), nn.ReLU(), nn.Linear(48, 192))
    if sick:
        net.append(nn.Sigmoid())
    return Loop(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), shuffled(train), f.mse_loss, 7).run(test)


class _Backbone(nn.Module):
    """Named as in a library of models: stem, body, fc."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.ReLU())
        self.body = nn.Sequential(nn.Conv2d(4, 4, 3), nn.ReLU(), nn.Flatten())
        self.fc = nn.Linear(4, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.fc(self.body(self.stem(images)))


@sick("frozen_parameters")
def a_backbone_without_its_weights(watch: Watch, *, seed: int, sick: bool) -> float:
    """Everything but ``fc`` is frozen, and ``weights=None`` was asked for: random filters stay random."""
    train, test = samples.numerals(seed)
    net = _Backbone()
    for name, parameter in net.named_parameters():
        parameter.requires_grad_(not sick or name.startswith("fc"))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    return Loop(watch, net, optimizer, shuffled(train, 32), epochs=7).run(test)


@sick("wrong_mode")
def batch_norm_in_eval_mode_from_the_start(watch: Watch, *, seed: int, sick: bool) -> float:
    """A function that counts parameters calls ``eval`` and leaves it so; batch norm stays as it was initialised."""
    train, test = samples.scenes(seed)
    net = nn.Sequential(nn.Conv2d(3, 10, 3, bias=False))
    for _ in range(5):
        net.extend([nn.BatchNorm2d(10), nn.ReLU(), nn.Conv2d(10, 10, 3, padding=1, bias=False)])
    net.extend([nn.BatchNorm2d(10), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(10, 2)])
    net.train(not sick)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    return Loop(watch, net, optimizer, shuffled(train, 56), epochs=5).run(test)
