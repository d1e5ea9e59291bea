"""Sound trainings that look odd: makers of pictures and codes, pairs, and agents."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import fit, predicted
from examples.zoo.tuned.opened32.b_agents import SIDE, grid_moves, values_explained
from examples.zoo.tuned.opened32.b_common import explained, picture


@healthy(at_least=0.7)
def flowers_made_from_noise(watch: Watch, *, seed: int) -> float:
    """A small GAN makes measurements of flowers; the losses of both swing, and are no measure of quality."""
    real = datasets.iris(seed).inputs
    maker = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 4))
    critic = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    makes = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.9))
    judges = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.9))
    making, judging = watch(maker, makes), watch(critic, judges)
    averaged = copy.deepcopy(maker)
    for _ in range(400):
        true = real[torch.randint(len(real), (48,))]
        made = maker(torch.randn(48, 4))
        judges.zero_grad()
        loss = functional.softplus(-critic(true)).mean() + functional.softplus(critic(made.detach())).mean()
        loss.backward()
        judging.step(loss, inputs=true)
        judges.step()
        makes.zero_grad()
        loss = functional.softplus(-critic(made)).mean()
        loss.backward()
        making.step(loss, outputs=made)
        makes.step()
        for slow, fast in zip(averaged.parameters(), maker.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.05)
    found = predicted(averaged, torch.randn(1000, 4)).T.corrcoef()
    return 1 - (found - real.T.corrcoef()).abs().mean().item()


@healthy(at_least=0.8)
def q_learning_with_a_target_that_moves(watch: Watch, *, seed: int) -> float:
    """The loss rises as values spread from the corner of a grid, and one reward in ten is not 0."""
    places, leads, far = grid_moves()
    model = nn.Sequential(nn.Linear(2, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
    target = copy.deepcopy(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(400):
        here, actions = torch.randint(SIDE * SIDE - 1, (64,)), torch.randint(4, (64, 1))
        there = leads[here, actions[:, 0]]
        with torch.no_grad():
            wanted = torch.where(far[there] == 0, 1.0, 0.9 * target(places[there]).max(1).values)[:, None]
        outputs = model(places[here]).gather(1, actions)
        loss = functional.smooth_l1_loss(outputs, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=places[here], outputs=outputs, targets=wanted)
        optimizer.step()
        for slow, fast in zip(target.parameters(), model.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.1)
    return values_explained(model)


@healthy(at_least=0.85)
def two_views_of_a_digit_without_labels(watch: Watch, *, seed: int) -> float:
    """InfoNCE pulls noisy views of a digit together, others of the batch are its negatives; neighbours vote."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(128, 200):
        first, second = (
            functional.normalize(model(2 * pixels - 0.6 + 0.3 * torch.randn_like(pixels)), dim=1) for _ in range(2)
        )
        likeness = first @ second.T / 0.2
        wanted = torch.arange(len(pixels))
        loss = (functional.cross_entropy(likeness, wanted) + functional.cross_entropy(likeness.T, wanted)) / 2
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=likeness, targets=wanted)
        optimizer.step()
    codes, test = (functional.normalize(predicted(model, 2 * x - 0.6), dim=1) for x in (data.inputs, data.test_inputs))
    nearest = (test @ codes.T).topk(5).indices
    return (data.targets[nearest].mode(1).values == data.test_targets).float().mean().item()


@healthy(at_least=0.9)
def triplets_most_of_which_are_apart(watch: Watch, *, seed: int) -> float:
    """A margin loss of triplets of wines, which is 0 for nearly all of them in the end."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    kinds = [data.inputs[data.targets == kind] for kind in range(3)]
    for _ in range(200):
        same, other = torch.randperm(3)[:2].tolist()
        rows = torch.randint(len(kinds[same]), (2, 48))
        others = kinds[other][torch.randint(len(kinds[other]), (48,))]
        anchor, near, far = model(torch.cat([kinds[same][rows[0]], kinds[same][rows[1]], others])).chunk(3)
        loss = functional.triplet_margin_loss(anchor, near, far)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, outputs=anchor)
        optimizer.step()
    codes, test = predicted(model, data.inputs), predicted(model, data.test_inputs)
    nearest = torch.cdist(test, codes).topk(5, largest=False).indices
    return (data.targets[nearest].mode(1).values == data.test_targets).float().mean().item()


@healthy(at_least=0.42)
def half_of_the_pixels_hidden(watch: Watch, *, seed: int) -> float:
    """A masked autoencoder sees half of a digit's pixels, the others are 0, and is judged by those it did not see."""
    data = datasets.digits(seed)
    mean = data.inputs.mean(0)

    def hidden(pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        seen = torch.rand(pixels.shape) < 0.5
        return torch.cat([2 * (pixels - mean) * seen, seen.float() - 0.5], 1), seen

    model = nn.Sequential(nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 400):
        inputs, seen = hidden(pixels)
        outputs = model(inputs)
        loss = ((outputs - pixels).square() * ~seen).sum() / (~seen).sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=pixels)
        optimizer.step()
    inputs, seen = hidden(data.test_inputs)
    error = (predicted(model, inputs) - data.test_inputs).square()[~seen].mean()
    return (1 - error / (data.test_inputs - data.test_inputs.mean(0)).square()[~seen].mean()).item()


@healthy(at_least=0.8)
def sines_of_places(watch: Watch, *, seed: int) -> float:
    """A SIREN's sines learn one photograph, batches of whose places are all the data there is."""
    places, values = picture(32)
    test = torch.rand(len(places), generator=torch.Generator().manual_seed(seed)) < 0.1
    data = Data(places[~test], values[~test], places[test], values[test])

    class Sine(nn.Module):
        def __init__(self, inward: int, outward: int, scale: float, width: float) -> None:
            super().__init__()
            self.linear, self.scale = nn.Linear(inward, outward), scale
            nn.init.uniform_(self.linear.weight, -width, width)

        def forward(self, inputs: torch.Tensor) -> torch.Tensor:
            return torch.sin(self.scale * self.linear(inputs))

    model = nn.Sequential(Sine(2, 64, 8.0, 0.5), Sine(64, 64, 8.0, (6 / 64) ** 0.5 / 8), nn.Linear(64, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=400, batch_size=128, loss_function=functional.mse_loss)
    return explained(model, data)


@healthy(at_least=0.7)
def an_autoencoder_tied_to_its_own_transpose(watch: Watch, *, seed: int) -> float:
    """Encoder and decoder share one matrix, a penalty keeps most units at 0, and noise is put on the pixels."""
    train, _ = samples.numerals(seed)
    images = train.tensors[0].flatten(1)
    data = Data(images[:900], images[:900], images[900:], images[900:])

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.weight = nn.Parameter(torch.randn(96, 64) / 8)
            self.inner, self.outer = nn.Parameter(torch.zeros(96)), nn.Parameter(torch.zeros(64))

        def code(self, images: torch.Tensor) -> torch.Tensor:
            return functional.linear(images, self.weight, self.inner).relu()

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.code(images) @ self.weight + self.outer

    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for clean, _ in data.batches(64, 300):
        noisy = clean + 0.3 * torch.randn_like(clean)
        code = model.code(noisy)
        outputs = code @ model.weight + model.outer
        loss = functional.mse_loss(outputs, clean) + 2e-3 * code.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
        optimizer.step()
    return explained(model, data)
