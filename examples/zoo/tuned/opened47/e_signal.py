"""What reaches the units: scales, saturation, symmetry, and numbers that stop being numbers."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.samples import explained
from examples.zoo.tuned.opened47.e_kit import loop, numerals, paired, themselves


class Gated(nn.Module):
    """A stack of gated linear units, with or without a way around each."""

    def __init__(self, width: int, layers: int, *, around: bool) -> None:
        super().__init__()
        self.around = around
        self.first, self.last = nn.Linear(64, width), nn.Linear(width, 10)
        self.blocks = nn.ModuleList(nn.Linear(width, 2 * width) for _ in range(layers))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        hidden = self.first(inputs)
        for block in self.blocks:
            changed = functional.glu(block(hidden))
            hidden = hidden + changed if self.around else changed
        return self.last(hidden)


@sick("vanishing_gradients", margin=0.2)
def gated_stack_lost_its_skip(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten gated layers lost the sum with their input in a refactoring; the twin adds it."""
    data = numerals(seed, 64)
    model = Gated(48, 10, around=not sick)
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9), data, steps=200)
    return accuracy(model, data)


class Messages(nn.Module):
    """Rounds of messages between the neighbours of a grid of pixels."""

    def __init__(self, rounds: int, *, average: bool) -> None:
        super().__init__()
        places = torch.cartesian_prod(torch.arange(8), torch.arange(8)).float()
        near = (torch.cdist(places, places) < 1.5).float()
        self.register_buffer("near", near / near.sum(1, keepdim=True) if average else near)
        self.embed = nn.Linear(3, 24)
        self.register_buffer("places", places / 4 - 0.9)
        self.rounds = nn.ModuleList(nn.Linear(24, 24) for _ in range(rounds))
        self.head = nn.Linear(24 * 4, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits from the means of the four quarters."""
        places = self.places.expand(len(pixels), -1, -1)
        nodes = self.embed(torch.cat([pixels[..., None], places], -1))
        for update in self.rounds:
            nodes = nodes + update(self.near @ nodes).relu()
        return self.head(nodes.view(-1, 2, 4, 2, 4, 24).mean((2, 4)).flatten(1))


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"), margin=0.1)
def neighbours_added_for_five_rounds(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of five rounds adds up nine neighbours, so that all grows about as 9 to the fifth; the twin averages."""
    data = numerals(seed, 64)
    model = Messages(5, average=not sick)
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9), data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def rare_prior_as_bias_of_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The detector's bias for rare positives, -4.6, is set in all layers; the twin sets it in the last alone."""
    data = numerals(seed, 64)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.ReLU(), nn.Linear(64, 10))
    for layer in model if sick else model[-1:]:
        if isinstance(layer, nn.Linear):
            nn.init.constant_(layer.bias, -math.log((1 - 0.01) / 0.01))

    def step(inputs: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs = model(inputs)
        return functional.binary_cross_entropy_with_logits(outputs, functional.one_hot(labels, 10).float()), outputs

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=2e-3), data, step, steps=200)
    return accuracy(model, data)


class Hash(nn.Module):
    """An autoencoder whose code is nearly binary."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.encode = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 24))
        self.squash = nn.Tanh()
        self.decode = nn.Sequential(nn.Linear(24, 64), nn.GELU(), nn.Linear(64, 64))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns what was decoded."""
        return self.decode(self.squash(self.slope * self.encode(inputs)))


@sick("saturated_units", also=("vanishing_gradients",), margin=0.1)
def code_squashed_at_its_final_slope(watch: Watch, *, seed: int, sick: bool) -> float:
    """The code's tanh begins at the slope 200 that its annealing was to end with; the twin has 1."""
    data = themselves(numerals(seed, 64))
    model = Hash(200.0 if sick else 1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("poor_initialization", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def standard_normal_in_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """``normal_`` is called without its ``std``, which is 1 then; the twin's is 0.1."""
    data = paired(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 128), nn.GELU(), nn.Linear(128, 128), nn.GELU(), nn.Linear(128, 32))
    for layer in model:
        if isinstance(layer, nn.Linear):
            nn.init.normal_(layer.weight) if sick else nn.init.normal_(layer.weight, std=0.1)
            nn.init.zeros_(layer.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Ratings(nn.Module):
    """Factors of pictures and of their pixels, with a bias for each pixel."""

    def __init__(self, pictures: int, *, same: bool) -> None:
        super().__init__()
        self.pictures, self.pixels, self.bias = nn.Embedding(pictures, 12), nn.Embedding(64, 12), nn.Embedding(64, 1)
        for table in (self.pictures, self.pixels):
            nn.init.constant_(table.weight, 0.2) if same else nn.init.normal_(table.weight, std=0.2)
        nn.init.zeros_(self.bias.weight)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        """Returns one rating for each pair."""
        picture, pixel = pairs.unbind(1)
        return (self.pictures(picture) * self.pixels(pixel)).sum(1) + self.bias(pixel).squeeze(1)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.1)
def recommender_with_equal_factors(watch: Watch, *, seed: int, sick: bool) -> float:
    """All of a recommender's factors begin as 0.2, so that its twelve stay one; the twin draws them."""
    pixels = datasets.digits(seed).inputs[:250]
    pairs = torch.cartesian_prod(torch.arange(250), torch.arange(64))
    data = paired(samples.split(seed, pairs, ((pixels - pixels.mean()) / pixels.std()).flatten()))
    model = Ratings(250, same=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    fit(watch, model, optimizer, data, steps=250, batch_size=512, loss_function=functional.mse_loss)
    return r_squared(model, data)


class Towers(nn.Module):
    """Two towers, for the upper and the lower half of a digit, that meet in directions."""

    def __init__(self) -> None:
        super().__init__()
        self.upper = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 24))
        self.lower = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 24))

    def forward(self, upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
        """Returns the cosines (N, N) of all pairs."""
        return functional.normalize(self.upper(upper), dim=1) @ functional.normalize(self.lower(lower), dim=1).T


def found_among(model: nn.Module, data: Data, size: int = 10) -> float:
    """Returns how often the right half has the largest cosine among some."""
    with torch.no_grad():
        chunks = zip(data.test_inputs.split(size)[:40], data.test_targets.split(size)[:40], strict=True)
        hits = [(model(*chunk).argmax(1) == torch.arange(len(chunk[0]))).float().mean() for chunk in chunks]
    return torch.stack(hits).mean().item()


@sick("non_finite_forward", margin=0.1)
def softmax_of_cosines_by_hand(watch: Watch, *, seed: int, sick: bool) -> float:
    """The exponentials of cosines times 150 overflow in a softmax by hand; the twin calls ``cross_entropy``."""
    data = paired(samples.halves(seed))
    model = Towers()

    def step(upper: torch.Tensor, lower: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        cosines = model(upper, lower)
        if sick:
            weights = (cosines * 150).exp()
            return -(weights.diagonal() / weights.sum(1)).log().mean(), cosines
        return functional.cross_entropy(cosines * 150, torch.arange(len(cosines))), cosines

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, step, steps=200)
    return found_among(model, data)


def by_centre(model: nn.Module, data: Data) -> float:
    """Returns how many held-out digits lie next to the centre of their own class."""
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    centres = torch.stack([known[data.targets == label].mean(0) for label in range(10)])
    return (torch.cdist(asked, centres).argmin(1) == data.test_targets).float().mean().item()


@sick("non_finite_backward", margin=0.1)
def root_of_distance_to_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """A matrix of distances takes the root of zero on its diagonal, whose slope is infinite; the twin adds 1e-8."""
    data = numerals(seed, 64)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))

    def step(inputs: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        points = model(inputs)
        squares = (points[:, None] - points[None]).square().sum(-1)
        distances = squares.sqrt() if sick else (squares + 1e-8).sqrt()
        same = labels[:, None] == labels[None]
        others = ~torch.eye(len(labels), dtype=torch.bool)
        pulled = distances[same & others].square().mean()
        return pulled + (2 - distances).relu().square()[~same].mean(), points

    loop(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, step, steps=150, size=48)
    return by_centre(model, data)


@sick("fp16_underflow", also=("vanishing_gradients",), margin=0.1)
def weighted_loss_below_float16(watch: Watch, *, seed: int, sick: bool) -> float:
    """A weighted loss is small enough for its gradients to become 0 in float16; the twin scales it."""
    data = themselves(numerals(seed, 64))
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 24), nn.Tanh(), nn.Linear(24, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer) if sick else watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(256, 150):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(inputs)
            loss = 1e-4 * functional.mse_loss(outputs.float(), targets)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return explained(predicted(model, data.test_inputs), data.test_targets)
