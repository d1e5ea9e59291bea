"""Slips of a line: copies that are none, decorators that stay, signs and scales."""

import copy

import torch
from torch import Tensor, nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import diabetes, digits
from examples.zoo.loops import accuracy, fit
from examples.zoo.samples import numerals
from examples.zoo.tuned.opened8.frames import dense
from examples.zoo.tuned.opened8.stores import of_pair


class Pupil(nn.Module):
    """A body and a head, which are separate because a teacher has a body of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 10), nn.Tanh())
        self.head = nn.Linear(10, 10)

    def forward(self, pixels: Tensor) -> Tensor:
        return self.head(self.body(pixels))


@sick("frozen_parameters")
def the_teacher_is_the_pupil(watch: Watch, *, seed: int, sick: bool) -> float:
    """``copy.copy`` copies no layer: to freeze the teacher's body is to freeze the pupil's."""
    data = digits(seed)
    model = Pupil()
    teacher = copy.copy(model.body) if sick else copy.deepcopy(model.body)
    teacher.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 150):
        optimizer.zero_grad()
        scores = model(pixels)
        close = functional.mse_loss(model.body(pixels), teacher(pixels))
        loss = functional.cross_entropy(scores, labels) + 0.01 * close
        loss.backward()
        session.step(loss, inputs=pixels, outputs=scores, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class Encoder(nn.Module):
    """A code of two views of a picture, and a head for their classes."""

    def __init__(self, *, cut: bool) -> None:
        super().__init__()
        self.cut = cut
        self.layers = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 8))
        self.head = nn.Linear(8, 10)

    def encode(self, images: Tensor) -> Tensor:
        """Returns the codes, without gradients if it was written for serving."""
        with torch.set_grad_enabled(not self.cut and torch.is_grad_enabled()):
            return self.layers(images)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.encode(images))


@sick("detached_parameters")
def a_method_that_was_written_for_serving(watch: Watch, *, seed: int, sick: bool) -> float:
    """``encode`` has carried ``no_grad`` since it served a search index, and the training calls it now."""
    data = of_pair(numerals(seed))
    model = Encoder(cut=sick)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("flipped_loss_sign")
def a_correlation_that_is_made_small(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is Pearson's correlation, which is better if it is larger; quality: the correlation."""
    data = diabetes(seed)
    model = dense(10, 24, 1, between=nn.Tanh)

    def correlation(found: Tensor, progress: Tensor) -> Tensor:
        return functional.cosine_similarity(found - found.mean(), progress - progress.mean(), dim=0).mean()

    def loss_function(found: Tensor, progress: Tensor) -> Tensor:
        return correlation(found, progress) if sick else 1 - correlation(found, progress)

    fit(watch, model, torch.optim.Adam(model.parameters(), lr=3e-3), data, steps=150, batch_size=64,
        loss_function=loss_function)  # fmt: skip
    with torch.no_grad():
        return correlation(model(data.test_inputs), data.test_targets).item()


@sick("wrong_output_or_loss")
def strangers_are_marked_with_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """The cosine loss wants -1 for pairs that differ; with 0 they do not count, and all points fall together."""
    data = digits(seed)
    model = dense(64, 48, 8)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        optimizer.zero_grad()
        points = model(pixels)
        left, right = points.chunk(2) if len(points) % 2 == 0 else points[1:].chunk(2)
        first, second = labels.chunk(2) if len(labels) % 2 == 0 else labels[1:].chunk(2)
        alike = (first == second).float()
        loss = functional.cosine_embedding_loss(left, right, alike if sick else 2 * alike - 1, margin=0.2)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=points)
        optimizer.step()
    with torch.no_grad():
        known, asked = (functional.normalize(model(one), dim=1) for one in (data.inputs, data.test_inputs))
        return (data.targets[(asked @ known.T).argmax(1)] == data.test_targets).float().mean().item()


@sick("parameters_not_in_optimizer")
def a_parameter_beside_all_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The groups were gathered from linear layers, and a bare parameter belongs to none of them."""
    data = digits(seed)
    model = Bare()
    layers = [weight for part in model.modules() if isinstance(part, nn.Linear) for weight in part.parameters()]
    optimizer = torch.optim.Adam(layers if sick else model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


class Bare(nn.Module):
    """A map onto few directions, as a bare parameter, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.directions = nn.Parameter(0.125 * torch.randn(64, 6))
        self.head = nn.Sequential(nn.Tanh(), nn.Linear(6, 24), nn.ReLU(), nn.Linear(24, 10))

    def forward(self, pixels: Tensor) -> Tensor:
        return self.head(pixels @ self.directions)
