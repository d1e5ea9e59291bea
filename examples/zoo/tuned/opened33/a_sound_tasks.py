"""Sound trainings of tasks and models that look odd."""

import math

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, predicted
from examples.zoo.tuned.opened33.a_parts import centred, forever, of


@healthy(at_least=0.8)
def halves_that_find_each_other(watch: Watch, *, seed: int) -> float:
    """Upper and lower halves of digits are matched within a batch, by a learnt temperature."""
    data = centred(of(samples.halves(seed)))

    class Towers(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.upper = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 24))
            self.lower = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 24))
            self.scale = nn.Parameter(torch.tensor(math.log(10.0)))

        def forward(self, upper: torch.Tensor, lower: torch.Tensor) -> torch.Tensor:
            first, second = (functional.normalize(code, dim=1) for code in (self.upper(upper), self.lower(lower)))
            return self.scale.exp() * first @ second.T

    model = Towers()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for upper, lower in forever(data, 64, 250):
        likeness = model(upper, lower)
        own = torch.arange(len(upper))
        loss = (functional.cross_entropy(likeness, own) + functional.cross_entropy(likeness.T, own)) / 2
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=upper, outputs=likeness, targets=own)
        optimizer.step()
    with torch.no_grad():
        likeness = model(data.test_inputs[:48], data.test_targets[:48])
    return (likeness.topk(5)[1] == torch.arange(48)[:, None]).any(1).float().mean().item()


@healthy(at_least=0.88)
def a_third_of_the_labels_is_wrong(watch: Watch, *, seed: int) -> float:
    """A third of the labels is drawn at random, so the loss ends high; the held-out ones are right."""
    data = centred(datasets.digits(seed))
    drawn = torch.rand(data.targets.shape) < 1 / 3
    noisy = torch.where(drawn, torch.randint(10, data.targets.shape), data.targets)
    noisy_data = datasets.Data(data.inputs, noisy, data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    for images, labels in forever(noisy_data, 64, 200):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.88)
def images_that_are_mixed(watch: Watch, *, seed: int) -> float:
    """Mixup: each image is blended with another and so are their labels, which are smoothed as well."""
    data = centred(datasets.digits(seed, images=True))
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    blend = torch.distributions.Beta(0.4, 0.4)
    for images, labels in forever(data, 64, 200):
        share, other = blend.sample().item(), torch.randperm(len(images))
        truth = functional.one_hot(labels, 10).float()
        mixed, wanted = share * images + (1 - share) * images[other], share * truth + (1 - share) * truth[other]
        optimizer.zero_grad()
        logits = model(mixed)
        loss = functional.cross_entropy(logits, wanted, label_smoothing=0.1)
        loss.backward()
        session.step(loss, inputs=mixed, outputs=logits, targets=wanted)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.7)
def a_density_whose_loss_is_negative(watch: Watch, *, seed: int) -> float:
    """A mean and a variance are learnt for each measurement, so that the loss falls below zero."""
    data = of(samples.standardised(samples.tumours(seed), 0, 1))
    model = nn.Sequential(nn.Linear(10, 48), nn.SiLU(), nn.Linear(48, 20))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for rows, worst in forever(data, 32, 200):
        optimizer.zero_grad()
        mean, spread = model(rows).chunk(2, 1)
        loss = functional.gaussian_nll_loss(mean, worst, functional.softplus(spread) + 1e-3)
        loss.backward()
        session.step(loss, inputs=rows, outputs=mean, targets=worst)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[:, :10], data.test_targets)


@healthy(at_least=0.85)
def triplets_that_are_soon_far_enough(watch: Watch, *, seed: int) -> float:
    """A triplet loss with a margin is soon zero for many of the triplets, whose gradients are zero then."""
    data = centred(datasets.digits(seed))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for images, labels in forever(data, 96, 200):
        alike = labels[:, None] == labels
        same = (alike & ~torch.eye(len(labels), dtype=torch.bool)).float() + 1e-9
        positive, negative = same.multinomial(1).squeeze(1), (~alike).float().multinomial(1).squeeze(1)
        codes = model(images)
        loss = functional.triplet_margin_loss(codes, codes[positive], codes[negative], margin=2.0)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images)
        optimizer.step()
    known, asked = predicted(model, data.inputs), predicted(model, data.test_inputs)
    return (data.targets[torch.cdist(asked, known).argmin(1)] == data.test_targets).float().mean().item()


@healthy(at_least=0.85)
def a_code_of_very_noisy_patches(watch: Watch, *, seed: int) -> float:
    """Patches below noise as strong as themselves go in, and clean ones are wanted."""
    pixels = datasets.patches(seed, count=1800)
    pixels = (pixels - pixels.mean()) / pixels.std()
    train, test = pixels[:1300], pixels[1300:]
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16), nn.Linear(16, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(240):
        clean = train[torch.randperm(len(train))[:64]]
        noisy = clean + torch.randn_like(clean)
        rebuilt = model(noisy)
        loss = functional.mse_loss(rebuilt, clean)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=rebuilt, targets=clean)
        optimizer.step()
    return samples.explained(predicted(model, test + torch.randn_like(test)), test)
