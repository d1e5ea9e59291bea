"""Sound trainings that go in stages, play against each other, or show a net only a part of what there is."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened18.b_stock import KINDS, SYMBOLS, series, tagged


@healthy(at_least=0.5)
def a_divergence_that_grows_in(watch: Watch, *, seed: int) -> float:
    """A VAE whose divergence counts nothing at first and more with every step: its loss may rise in the middle."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.SiLU(), nn.Linear(64, 16))
    decoder = nn.Sequential(nn.Linear(8, 64), nn.SiLU(), nn.Linear(64, 64))
    model = nn.ModuleList([encoder, decoder])
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for step, (images, _) in enumerate(data.batches(64, 350)):
        mean, spread = encoder(images).chunk(2, 1)
        outputs = decoder(mean + torch.randn_like(mean) * (spread / 2).exp())
        divergence = 0.5 * (mean.square() + spread.exp() - 1 - spread).sum(1).mean()
        loss = (outputs - images).square().sum(1).mean() + 0.2 * min(1.0, step / 200) * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=images)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(decoder(encoder(data.test_inputs)[:, :8]), data.test_inputs)


@healthy(at_least=0.8)
def windows_that_grow(watch: Watch, *, seed: int) -> float:
    """A recurrent net forecasts windows of 8 values at first, then of 16, and of 32 in the end."""
    train, test = series(seed)
    model = nn.ModuleDict({"cell": nn.GRU(1, 24, batch_first=True), "head": nn.Linear(24, 1)})
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for length in (8, 8, 16, 16, 32, 32):
        for past, future in DataLoader(train, 32, shuffle=True):
            shown, wanted = past[:, -length:], future[:, -1:]
            outputs = model["head"](model["cell"](shown[..., None])[0][:, -1])
            loss = functional.mse_loss(outputs, wanted)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=shown, outputs=outputs, targets=wanted)
            optimizer.step()
    with torch.no_grad():
        outputs = model["head"](model["cell"](test.tensors[0][..., None])[0][:, -1])
        return samples.explained(outputs, test.tensors[1][:, -1:])


@healthy(at_least=0.5)
def a_few_marks_in_each_window(watch: Watch, *, seed: int) -> float:
    """Tags are known for a tenth of the characters; all others are -100, which the loss ignores."""
    train, test = tagged(seed)
    model = nn.Sequential(nn.Embedding(SYMBOLS, 24), _Along(24, 48), nn.ReLU(), _Along(48, len(KINDS)))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    known = torch.rand(train.tensors[1].shape) < 0.1
    marks = train.tensors[1].where(known, torch.tensor(-100))
    for _ in range(7):
        for rows in torch.randperm(len(marks)).split(32):
            outputs = model(train.tensors[0][rows])
            loss = functional.cross_entropy(outputs.transpose(1, 2), marks[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train.tensors[0][rows], outputs=outputs, targets=marks[rows])
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


class _Along(nn.Module):
    """A convolution along the second of three dimensions."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(inputs, outputs, 5, padding=2)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return self.convolution(values.transpose(1, 2)).transpose(1, 2)


@healthy(at_least=0.7)
def a_critic_within_bounds(watch: Watch, *, seed: int) -> float:
    """WGAN: the critic's weights are clipped after each of its steps; its losses say little. Quality: quantiles."""
    radii = datasets.breast_cancer(seed).inputs[:, :1]
    maker = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 1))
    critic = nn.Sequential(nn.Linear(1, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    making = torch.optim.RMSprop(maker.parameters(), lr=2e-3)
    judging = torch.optim.RMSprop(critic.parameters(), lr=2e-3)
    maker_session, critic_session = watch(maker, making), watch(critic, judging)
    for step in range(400):
        noise = torch.randn(64, 4)
        if step % 3:
            real = radii[torch.randint(len(radii), (64,))]
            loss = critic(maker(noise).detach()).mean() - critic(real).mean()
            judging.zero_grad()
            loss.backward()
            critic_session.step(loss, inputs=real)
            judging.step()
            with torch.no_grad():
                for weight in critic.parameters():
                    weight.clamp_(-0.2, 0.2)
        else:
            made = maker(noise)
            loss = -critic(made).mean()
            making.zero_grad()
            loss.backward()
            maker_session.step(loss, inputs=noise, outputs=made)
            making.step()
    with torch.no_grad():
        levels = torch.linspace(0.05, 0.95, 19)
        made, true = maker(torch.randn(2000, 4)).quantile(levels), radii.quantile(levels)
    return 1 - (made - true).abs().mean().item()


@healthy(at_least=0.85)
def three_answers_and_an_entropy(watch: Watch, *, seed: int) -> float:
    """An agent is paid 1 if it names a wine rightly; advantages of mean 0, and an entropy that keeps it curious."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(48, 200):
        outputs = model(inputs)
        policy = torch.distributions.Categorical(logits=outputs)
        actions = policy.sample()
        paid = (actions == labels).float()
        loss = -((paid - paid.mean()) * policy.log_prob(actions)).mean() - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs), data.test_targets)
