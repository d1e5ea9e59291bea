"""Networks whose units, wiring, modes and parameters are not what they were meant to be."""

import copy
import itertools

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened43.a_material import (
    LETTERS,
    digit_images,
    flat_digits,
    score,
    spelled,
    worst_measurements,
)


@sick("vanishing_gradients", margin=0.1)
def sigmoids_stacked_without_shortcuts(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten plain layers of sigmoids pass hardly a gradient to the first; the twin's blocks of SiLU are added up."""
    data = flat_digits(seed)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(48, 48)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.linear(rows).sigmoid() if sick else rows + functional.silu(self.linear(rows)) / 2

    model = nn.Sequential(nn.Linear(64, 48), *(Block() for _ in range(10)), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


class Flow(nn.Module):
    """A state that follows a learned derivative for 24 explicit steps."""

    def __init__(self, width: int, stride: float) -> None:
        super().__init__()
        self.enter, self.leave = nn.Linear(10, width), nn.Linear(width, 10)
        self.derivative = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width))
        self.stride = stride
        nn.init.kaiming_normal_(self.derivative[0].weight)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        state = self.enter(rows)
        for _ in range(24):
            state = state + self.stride * self.derivative(state)
        return self.leave(state)


@sick("exploding_gradients", also=("non_finite_forward", "non_finite_backward"), margin=0.1)
def euler_steps_without_a_stride(watch: Watch, *, seed: int, sick: bool) -> float:
    """An ODE's network takes 24 Euler steps of 1, so state and gradient grow with each; the twin's are of 1/24."""
    data = worst_measurements(seed)
    model = Flow(24, 1.0 if sick else 1 / 24)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64, loss_function=functional.mse_loss)
    return score(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def the_rare_class_bias_everywhere(watch: Watch, *, seed: int, sick: bool) -> float:
    """A detector's bias of -4.6, for a rare class in the head, is set in all layers; the twin sets none."""
    data = flat_digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    if sick:
        for layer in model:
            if isinstance(layer, nn.Linear):
                nn.init.constant_(layer.bias, -4.6)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


class ScaledLetters(nn.Module):
    """Embeddings that are multiplied before layers of tanh, as a transformer multiplies its own."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.letters = nn.Embedding(LETTERS, 32)
        self.first, self.second, self.head = nn.Linear(24 * 32, 64), nn.Linear(64, 64), nn.Linear(64, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        vectors = self.letters(codes).flatten(1) * self.scale
        return self.head(self.second(self.first(vectors).tanh()).tanh())


@sick("saturated_units", margin=0.05)
def letters_times_their_width(watch: Watch, *, seed: int, sick: bool) -> float:
    """Embeddings of deviation 1 are multiplied by their width before a tanh; the twin leaves them small."""
    data = spelled(seed)
    model = ScaledLetters(32.0 if sick else 0.4)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
    fit(watch, model, optimizer, data, steps=80, batch_size=48)
    return accuracy(model, data)


@sick("poor_initialization", also=("vanishing_gradients",), margin=0.1)
def gpts_deviation_in_a_narrow_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights of deviation 0.02, copied from a wide GPT, shrink the signal of six narrow layers; the twin's fit."""
    data = flat_digits(seed)
    widths = [64, 32, 32, 32, 32, 32]
    layers: list[nn.Module] = []
    for inward, outward in itertools.pairwise(widths):
        layers += [nn.Linear(inward, outward), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(32, 10))

    def start(module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            if sick:
                nn.init.normal_(module.weight, std=0.02)
            else:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)

    model.apply(start)
    nn.init.normal_(model[-1].weight, std=0.02)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)


class Committee(nn.Module):
    """Experts of two units each, whose votes are added up."""

    def __init__(self, experts: list[nn.Module]) -> None:
        super().__init__()
        self.experts = nn.ModuleList(experts)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return torch.stack([expert(rows) for expert in self.experts]).sum(0) / len(self.experts) ** 0.5


@sick("unbroken_symmetry", margin=0.1)
def experts_copied_from_the_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixteen experts are deep copies of one, and stay alike; the twin draws each of its own."""
    data = flat_digits(seed)

    def expert() -> nn.Module:
        return nn.Sequential(nn.Linear(64, 2), nn.Tanh(), nn.Linear(2, 10))

    first = expert()
    model = Committee([copy.deepcopy(first) if sick else expert() for _ in range(16)])
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


class Bag(nn.Module):
    """The mean and the maximum of small vectors of letters and of their pairs decide."""

    def __init__(self, vectors: nn.Embedding) -> None:
        super().__init__()
        self.vectors = vectors
        self.head = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 8))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        found = self.vectors(codes[:, :-1] * LETTERS + codes[:, 1:])
        return self.head(torch.cat([found.mean(1) * 5, found.amax(1)], 1))


@sick("frozen_parameters", margin=0.05)
def from_pretrained_of_random_vectors(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Embedding.from_pretrained`` freezes by default, and its vectors were only drawn; the twin trains them."""
    data = spelled(seed)
    drawn = torch.randn(LETTERS * LETTERS, 3) * 0.5
    model = Bag(nn.Embedding.from_pretrained(drawn) if sick else nn.Embedding.from_pretrained(drawn, freeze=False))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=110, batch_size=48)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.05)
def kernels_in_neither_group(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups for decay and no decay take matrices and vectors, and leave out kernels of four axes."""
    data = digit_images(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 4, 3, padding=1, stride=2),
        nn.BatchNorm2d(4), nn.ReLU(), nn.Conv2d(4, 6, 3, padding=1, stride=2), nn.BatchNorm2d(6), nn.ReLU(),
        nn.Flatten(), nn.Linear(24, 10),
    )  # fmt: skip
    parameters = list(model.parameters())
    decayed = [one for one in parameters if (one.ndim == 2 if sick else one.ndim >= 2)]
    others = [one for one in parameters if one.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 1e-2}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


class BinaryCodes(nn.Module):
    """An autoencoder whose code has sixteen bits."""

    def __init__(self, straight: bool) -> None:
        super().__init__()
        self.straight = straight
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        self.decoder = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        soft = self.encoder(pixels).sigmoid()
        bits = (soft > 0.5).float()
        return self.decoder(bits + soft - soft.detach() if self.straight else bits)


@sick("detached_parameters", margin=0.05)
def bits_without_a_straight_path(watch: Watch, *, seed: int, sick: bool) -> float:
    """Bits are compared out of the graph, so that the encoder has no gradient; the twin passes it straight through."""
    data = flat_digits(seed)
    data = datasets.Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)
    model = BinaryCodes(straight=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=64, loss_function=functional.mse_loss)
    return score(model, data)


@sick("wrong_mode", margin=0.1)
def check_before_the_first_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sanity check of the validation before training leaves the model in eval mode, which the twin undoes."""
    data = digit_images(seed)
    layers: list[nn.Module] = [nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU()]
    for _ in range(6):
        layers += [nn.Conv2d(12, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    model.eval()
    session.validation(held_out_loss(model, data))
    if not sick:
        model.train()
    for images, labels in data.batches(48, 80):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)
