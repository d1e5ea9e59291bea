"""What is inside of the model: how it begins, what its units do, and what its head and its loss make of it."""

import copy
import itertools

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened44.b_shelf import balanced, figures, flat_figures, scripts


@sick("vanishing_gradients", margin=0.2)
def an_hourglass_of_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder of eight layers has a sigmoid after each; the twin has SiLU there."""
    data = flat_figures(seed)
    data = Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)
    sizes = [64, 48, 40, 32, 24, 32, 40, 48]
    layers = [nn.Linear(inward, outward) for inward, outward in itertools.pairwise(sizes)]
    model = nn.Sequential(
        *(part for layer in layers for part in (layer, nn.Sigmoid() if sick else nn.SiLU())), nn.Linear(48, 64)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=400, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("dead_units", also=("poor_initialization",), margin=0.2)
def a_prior_in_every_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias that makes a rare class improbable is set in all layers, not in the head only, so ReLUs are silent."""
    drawn = figures(seed)
    data = Data(drawn.inputs, (drawn.targets == 8).float(), drawn.test_inputs, (drawn.test_targets == 8).float())
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(256, 32), nn.ReLU(), nn.Linear(32, 1),
    )  # fmt: skip
    for layer in model if sick else model[-1:]:
        if isinstance(layer, (nn.Conv2d, nn.Linear)):
            nn.init.constant_(layer.bias, -2.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for images, rare in data.batches(64, 200):
        optimizer.zero_grad()
        outputs = model(images).squeeze(1)
        loss = functional.binary_cross_entropy_with_logits(outputs, rare, pos_weight=torch.tensor(3.0))
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=rare)
        optimizer.step()
    return balanced((predicted(model, data.test_inputs).squeeze(1) > 0).float(), data.test_targets)


class Hashing(nn.Module):
    """Codes of 24 almost binary values, and classes of these."""

    def __init__(self, sharpness: float) -> None:
        super().__init__()
        self.sharpness = sharpness
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))
        self.squash, self.head = nn.Tanh(), nn.Linear(24, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.squash(self.sharpness * self.body(pixels)))


@sick("saturated_units", margin=0.04)
def codes_that_are_sharp_at_once(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hash codes are squashed by tanh(200 x) from the first step on, which is flat; the twin by tanh(x)."""
    data = flat_figures(seed)
    model = Hashing(200.0 if sick else 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


class ByHand(nn.Module):
    """Attention over the rows of a digit, of matrices that are made by hand."""

    def __init__(self, shrunk: bool, width: int = 48) -> None:
        super().__init__()

        def matrix(inward: int, outward: int) -> nn.Parameter:
            return nn.Parameter(torch.randn(inward, outward) / (inward**0.5 if shrunk else 1))

        self.rows, self.head = matrix(8, width), matrix(width, 10)
        self.places = nn.Parameter(0.1 * torch.randn(8, width))
        self.asked, self.offered, self.told, self.mixed = (matrix(width, width) for _ in range(4))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows = images.squeeze(1) @ self.rows + self.places
        shares = ((rows @ self.asked) @ (rows @ self.offered).transpose(1, 2) / rows.shape[2] ** 0.5).softmax(2)
        rows = rows + shares @ (rows @ self.told)
        return functional.gelu(rows.mean(1) @ self.mixed) @ self.head


@sick("poor_initialization", margin=0.05)
def matrices_drawn_without_a_scale(watch: Watch, *, seed: int, sick: bool) -> float:
    """An attention made by hand draws its matrices by ``randn`` alone; the twin divides by the root of their inputs."""
    data = figures(seed)
    model = ByHand(not sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


class Advisers(nn.Module):
    """Six narrow advisers, whose advice a gate weighs."""

    def __init__(self, alike: bool) -> None:
        super().__init__()

        def adviser() -> nn.Module:
            return nn.Sequential(nn.Linear(64, 2), nn.Tanh(), nn.Linear(2, 10))

        first = adviser()
        self.advisers = nn.ModuleList(copy.deepcopy(first) if alike else adviser() for _ in range(6))
        self.gate = nn.Linear(64, 6)
        nn.init.zeros_(self.gate.weight)
        nn.init.zeros_(self.gate.bias)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        advice = torch.stack([adviser(pixels) for adviser in self.advisers], 1)
        return (6 * self.gate(pixels).softmax(1)[:, :, None] * advice).sum(1)


@sick("unbroken_symmetry", margin=0.1)
def six_copies_of_one_adviser(watch: Watch, *, seed: int, sick: bool) -> float:
    """Experts are deep copies of one and the gate begins at 0, so that all stay equal; the twin's are drawn apart."""
    data = flat_figures(seed)
    model = Advisers(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@sick("target_out_of_range", also=("wrong_output_or_loss",), margin=0.15)
def a_decoder_for_pixels_from_zero_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder of standardised pixels kept a decoder that ends in a sigmoid; the twin's ends in a convolution."""
    data = figures(seed)
    decoder = [nn.Linear(24, 128), nn.ReLU(), nn.Unflatten(1, (8, 4, 4)), nn.Upsample(scale_factor=2)]
    decoder += [nn.Conv2d(8, 1, 3, padding=1), *([nn.Sigmoid()] if sick else [])]
    encoder = [nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(128, 24)]
    model = nn.Sequential(*encoder, *decoder)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for images, _ in data.batches(64, 250):
        outputs = model(images)
        loss = functional.mse_loss(outputs, images)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


class Convolved(nn.Module):
    """Convolutions over letters, with a softmax at the end or none."""

    def __init__(self, last: nn.Module) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 16, padding_idx=0)
        self.convolution = nn.Conv1d(16, 48, 3, padding=1)
        self.head, self.last = nn.Linear(48, 8), last

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        found = functional.relu(self.convolution(self.letters(codes).transpose(1, 2))).amax(2)
        return self.last(self.head(found))


@sick("wrong_output_or_loss", margin=0.04)
def a_likelihood_of_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``NLLLoss`` is given probabilities instead of their logarithms; the twin's model ends in ``LogSoftmax``."""
    data = scripts(seed)
    model = Convolved(nn.Softmax(dim=1) if sick else nn.LogSoftmax(dim=1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=140, batch_size=32, loss_function=nn.NLLLoss())
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.2)
def each_advantage_for_every_choice(watch: Watch, *, seed: int, sick: bool) -> float:
    """Log-probabilities (N, 1) are multiplied with advantages (N,) in a policy's loss; the twin squeezes them."""
    data = flat_figures(seed)
    policy = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(policy.parameters(), lr=1e-2)
    session = watch(policy, optimizer)
    for pixels, labels in data.batches(128, 300):
        scores = policy(pixels).log_softmax(1)
        choices = torch.multinomial(scores.detach().exp(), 1)
        chosen = scores.gather(1, choices)
        rewards = (choices.squeeze(1) == labels).float()
        advantages = (rewards - rewards.mean()) / (rewards.std() + 0.1)
        if not sick:
            chosen = chosen.squeeze(1)
        loss = -(chosen * advantages).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=chosen, targets=advantages)
        optimizer.step()
    return accuracy(policy, data)


class ByParts(nn.Module):
    """Attends to the letters of each third of a name, and adds up what it found."""

    def __init__(self, hidden: float) -> None:
        super().__init__()
        self.hidden = hidden
        self.letters = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
        self.ask, self.head = nn.Linear(32, 4), nn.Linear(128, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        parts = codes.view(len(codes), 3, 8)
        vectors = self.letters(parts)
        weights = self.ask(vectors).masked_fill((parts == 0)[..., None], self.hidden).softmax(2)
        return self.head((weights.transpose(2, 3) @ vectors).sum(1).flatten(1))


@sick("non_finite_forward", margin=0.3)
def thirds_without_a_letter(watch: Watch, *, seed: int, sick: bool) -> float:
    """Padding is masked with -inf before a softmax, also in thirds of names with nothing else; the twin has -1e4."""
    data = scripts(seed)
    model = ByParts(float("-inf") if sick else -1e4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_backward", margin=0.3)
def roots_of_a_diagonal_of_zeros(watch: Watch, *, seed: int, sick: bool) -> float:
    """A contrastive loss takes square roots of all squares, and of 0 on the diagonal; the twin adds 1e-6 before."""
    data = flat_figures(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        vectors = model(pixels)
        squares = (vectors[:, None] - vectors[None]).square().sum(2)
        distances = squares.sqrt() if sick else (squares + 1e-6).sqrt()
        same = (labels[:, None] == labels[None]).float()
        loss = (same * distances.square() + (1 - same) * (2 - distances).clamp(min=0).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=vectors, targets=labels)
        optimizer.step()
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    nearest = torch.cdist(asked.nan_to_num(), known.nan_to_num()).argmin(1)
    return (data.targets[nearest] == data.test_targets).float().mean().item()
