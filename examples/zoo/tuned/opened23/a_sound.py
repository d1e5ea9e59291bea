"""Sound trainings of pictures whose losses look odd: adversaries, masks, contrast, mixtures and restarts."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened23.a_pretext import body, centred, moved, neighbours


@healthy(at_least=0.5)
def a_maker_and_a_critic(watch: Watch, *, seed: int) -> float:
    """A GAN of zeros and ones of 4x4 pixels; neither loss falls. Quality: R² of pixels' means and deviations."""
    data = datasets.digits(seed, images=True)
    real = functional.avg_pool2d(data.inputs[data.targets < 2], 2).flatten(1) * 2 - 1
    maker = nn.Sequential(nn.Linear(8, 48), nn.LeakyReLU(0.2), nn.Linear(48, 16), nn.Tanh())
    critic = nn.Sequential(nn.Linear(16, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    making = torch.optim.Adam(maker.parameters(), lr=2e-3, betas=(0.5, 0.999))
    judging = torch.optim.Adam(critic.parameters(), lr=2e-3, betas=(0.5, 0.999))
    sessions = watch(maker, making), watch(critic, judging)
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
    for _ in range(400):
        shown = real[torch.randint(len(real), (64,))]
        noise = torch.randn(64, 8)
        made = maker(noise)
        verdicts = critic(torch.cat([shown, made.detach()]))
        truth = torch.cat([0.9 * ones, zeros])
        loss = functional.binary_cross_entropy_with_logits(verdicts, truth)
        judging.zero_grad()
        loss.backward()
        sessions[1].step(loss, inputs=torch.cat([shown, made.detach()]), outputs=verdicts, targets=truth)
        judging.step()
        loss = functional.binary_cross_entropy_with_logits(critic(made), ones)
        making.zero_grad()
        loss.backward()
        sessions[0].step(loss, inputs=noise, outputs=made)
        making.step()
    with torch.no_grad():
        made = maker(torch.randn(500, 8))
    return samples.explained(torch.stack([made.mean(0), made.std(0)]).T, torch.stack([real.mean(0), real.std(0)]).T)


@healthy(at_least=0.5)
def three_of_four_pieces_hidden(watch: Watch, *, seed: int) -> float:
    """A masked autoencoder: most of a patch's pieces are hidden, and only they count. Quality: R² of hidden pixels."""
    pictures = datasets.patches(seed, count=1400)
    pictures = (pictures - pictures.mean()) / pictures.std()
    pieces = pictures.view(-1, 4, 2, 4, 2).transpose(2, 3).reshape(-1, 16, 4)
    train, test = (part.tensors[0] for part in samples.split(seed, pieces))

    class Masked(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.entry, self.exit = nn.Linear(4, 32), nn.Linear(32, 4)
            self.hidden, self.places = nn.Parameter(torch.zeros(32)), nn.Parameter(0.02 * torch.randn(16, 32))
            self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True, norm_first=True)

        def forward(self, pieces: torch.Tensor, seen: torch.Tensor) -> torch.Tensor:
            states = torch.where(seen[..., None], self.entry(pieces), self.hidden) + self.places
            return self.exit(self.layer(states))

    model = Masked()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05, betas=(0.9, 0.95))
    warmth = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / 20))
    session = watch(model, optimizer)
    for _ in range(8):
        for (batch,) in DataLoader(TensorDataset(train), 64, shuffle=True):
            seen = torch.rand(len(batch), 16).argsort(1) < 4
            outputs = model(batch, seen)
            loss = (outputs - batch)[~seen].square().mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=batch, outputs=outputs, targets=batch)
            optimizer.step()
            warmth.step()
    seen = torch.rand(len(test), 16).argsort(1) < 4
    with torch.no_grad():
        return samples.explained(model(test, seen)[~seen], test[~seen])


@healthy(at_least=0.85)
def two_views_of_each_digit(watch: Watch, *, seed: int) -> float:
    """SimCLR: its loss begins near log 255 and stays far above 0. Quality: classes of nearest neighbours."""
    data = centred(seed)
    trunk = body()
    model = nn.Sequential(trunk, nn.ReLU(), nn.Linear(64, 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pictures, _ in data.batches(128, 120):
        views = torch.cat([moved(pictures), moved(pictures)])
        codes = functional.normalize(model(views), dim=1)
        own = torch.eye(len(views), dtype=torch.bool)
        scores = (codes @ codes.T / 0.2).masked_fill(own, -1e4)
        partners = torch.arange(len(views)).roll(len(pictures))
        loss = functional.cross_entropy(scores, partners)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=views, outputs=codes)
        optimizer.step()
    return neighbours(trunk, data)


@healthy(at_least=0.92)
def digits_mixed_with_digits(watch: Watch, *, seed: int) -> float:
    """Mixup and smoothed labels: pictures are sums of two, and the loss stays high although nearly all are right."""
    data = centred(seed)
    model = nn.Sequential(body(48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-4)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 250):
        share = torch.distributions.Beta(0.8, 0.8).sample().item()
        partner = torch.randperm(len(pictures))
        mixed = share * pictures + (1 - share) * pictures[partner]
        truth = functional.one_hot(labels, 10).float()
        truth = share * truth + (1 - share) * truth[partner]
        outputs = model(mixed)
        loss = functional.cross_entropy(outputs, truth, label_smoothing=0.1)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=mixed, outputs=outputs, targets=truth)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.88)
def a_probe_on_a_frozen_body(watch: Watch, *, seed: int) -> float:
    """A body that was trained on moved digits is frozen on purpose, and a linear layer is trained on it."""
    data = centred(seed)
    trunk = body()
    before = nn.Sequential(trunk, nn.ReLU(), nn.Linear(64, 10))
    learning = torch.optim.Adam(before.parameters(), lr=3e-3)
    for pictures, labels in data.batches(64, 100):
        learning.zero_grad()
        functional.cross_entropy(before(moved(pictures)), labels).backward()
        learning.step()
    trunk.requires_grad_(False)
    model = nn.Sequential(trunk, nn.LayerNorm(64, elementwise_affine=False), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model[-1].parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for pictures, labels in data.batches(64, 150):
        outputs = model(pictures)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)
