"""Sound trainings whose losses look odd: rewards, teachers, noise, views and variances."""

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened35.a_common import Spelling, columns, excerpts, explained, images, parted, seeing, tiles


@healthy(at_least=0.85)
def rewards_for_named_wines(watch: Watch, *, seed: int) -> float:
    """A policy names wines, and learns from rewards alone; its loss wanders about 0 and may rise."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for wines, labels in data.batches(64, 300):
        policy = torch.distributions.Categorical(logits=model(wines))
        named = policy.sample()
        rewards = (named == labels).float()
        loss = -(policy.log_prob(named) * (rewards - rewards.mean())).mean() - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=wines, outputs=policy.logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.6)
def a_pupil_of_soft_answers(watch: Watch, *, seed: int) -> float:
    """A small network learns what a larger one says at a temperature of 4, and little from labels."""
    data = excerpts(seed, length=60)
    teacher, model = Spelling(width=64), Spelling(width=24)
    optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
    for characters, labels in data.batches(48, 100):
        optimizer.zero_grad()
        functional.cross_entropy(teacher(characters), labels).backward()
        optimizer.step()
    teacher.eval().requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for characters, labels in data.batches(48, 250):
        logits = model(characters)
        wanted = (teacher(characters) / 4).softmax(1)
        soft = functional.kl_div((logits / 4).log_softmax(1), wanted, reduction="batchmean")
        loss = 16 * 0.8 * soft + 0.2 * functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=characters, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.7)
def targets_drowned_in_noise(watch: Watch, *, seed: int) -> float:
    """Noise three times as large as the targets keeps the loss at 9, and what is below it is learned."""
    drawn = columns(seed, count=4000)
    noise = 3 * torch.randn(drawn.targets.shape, generator=torch.Generator().manual_seed(seed))
    data = Data(drawn.inputs, drawn.targets + noise, drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(nn.Linear(20, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    fit(watch, model, optimizer, data, steps=200, loss_function=functional.mse_loss, scheduler=scheduler)
    return explained(model, data)


@healthy(at_least=0.85)
def mixed_pictures_with_smooth_labels(watch: Watch, *, seed: int) -> float:
    """Pairs of digits are mixed, and labels smoothed by 0.2, so the loss stays far above 0."""
    data = images(seed, noise=0.3)
    model = seeing(10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 200):
        share, other = torch.rand(1).item(), torch.randperm(len(pixels))
        mixed = share * pixels + (1 - share) * pixels[other]
        logits = model(mixed)
        parts = [functional.cross_entropy(logits, one, label_smoothing=0.2) for one in (labels, labels[other])]
        loss = share * parts[0] + (1 - share) * parts[1]
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=mixed, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.7)
def two_views_of_each_tile(watch: Watch, *, seed: int) -> float:
    """Two noisy views find each other among a batch; that samples push each other away is the point of the loss."""
    train, test = samples.scenes(seed, count=1200)
    model = nn.Sequential(nn.Flatten(), nn.Linear(192, 96), nn.ReLU(), nn.Linear(96, 24))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in Data(*train.tensors, *test.tensors).batches(64, 200):
        one, two = (
            functional.normalize(model(pixels.flip(3) + 0.3 * torch.randn_like(pixels)), dim=1),
            functional.normalize(model(pixels + 0.3 * torch.randn_like(pixels)), dim=1),
        )
        alike = one @ two.T / 0.2
        loss = functional.cross_entropy(alike, torch.arange(len(pixels)))
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=alike)
        optimizer.step()
    known, asked = predicted(model, train.tensors[0]), predicted(model, test.tensors[0])
    nearest = torch.cdist(asked, known).topk(9, largest=False).indices
    return (train.tensors[1][nearest].float().mean(1).round() == test.tensors[1]).float().mean().item()


@healthy(at_least=0.6)
def means_with_their_variances(watch: Watch, *, seed: int) -> float:
    """A Gaussian likelihood with a predicted variance goes below 0 as the variance shrinks."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 20))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for features, worst in data.batches(32, 250):
        mean, spread = model(features).chunk(2, 1)
        loss = functional.gaussian_nll_loss(mean, worst, functional.softplus(spread) + 0.05)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=features, outputs=mean, targets=worst)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[:, :10], data.test_targets)


@healthy(at_least=0.5)
def ink_counted_with_poisson(watch: Watch, *, seed: int) -> float:
    """The lower half's ink is a count up to 300, and the network puts out its logarithm; the loss is far below 0."""
    pixels = torch.from_numpy(load_digits().data).float()
    upper, lower = pixels[:, :40], pixels[:, 24:].sum(1, keepdim=True)
    data = parted((upper - upper.mean()) / upper.std(), lower, seed)
    model = nn.Sequential(nn.Linear(40, 48), nn.ReLU(), nn.Linear(48, 1))
    nn.init.constant_(model[2].bias, data.targets.mean().log().item())
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=nn.PoissonNLLLoss(log_input=True))
    return samples.explained(predicted(model, data.test_inputs).exp(), data.test_targets)


@healthy(at_least=0.8)
def a_divergence_that_grows_in(watch: Watch, *, seed: int) -> float:
    """A VAE's divergence has a weight that rises from 0, so the loss rises after its fall."""
    pixels = tiles(seed)
    data = parted(pixels, pixels, seed)
    encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
    decoder = nn.Sequential(nn.Linear(12, 96), nn.ReLU(), nn.Linear(96, 64))
    model = nn.ModuleList([encoder, decoder])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (tile, _) in enumerate(data.batches(64, 350)):
        mean, log_variance = encoder(tile).chunk(2, 1)
        outputs = decoder(mean + torch.randn_like(mean) * (0.5 * log_variance).exp())
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        loss = functional.mse_loss(outputs, tile) + min(1.0, step / 200) / 128 * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=tile, outputs=outputs, targets=tile)
        optimizer.step()
    with torch.no_grad():
        painted = decoder(encoder(data.test_inputs).chunk(2, 1)[0])
    return samples.explained(painted, data.test_targets)
