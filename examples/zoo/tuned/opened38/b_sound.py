"""Sound trainings that look odd: rivals, agents, teachers, and rests."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened38.b_common import explained, pairs, placed, ratings
from examples.zoo.tuned.opened38.b_steps import localiser


@healthy(at_least=0.6)
def a_critic_with_clipped_weights(watch: Watch, *, seed: int) -> float:
    """A Wasserstein GAN of wines' measurements: its critic's weights are clipped and its losses are negative."""
    real = datasets.wine(seed).inputs[:, 5:9]
    maker = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 4))
    critic = nn.Sequential(nn.Linear(4, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    makes, judges = (torch.optim.RMSprop(one.parameters(), lr=2e-3) for one in (maker, critic))
    making, judging = watch(maker, makes), watch(critic, judges)
    for _ in range(180):
        for _ in range(2):
            true, made = real[torch.randint(len(real), (48,))], maker(torch.randn(48, 4)).detach()
            loss = critic(made).mean() - critic(true).mean()
            judges.zero_grad()
            loss.backward()
            judging.step(loss, inputs=true)
            judges.step()
            with torch.no_grad():
                for parameter in critic.parameters():
                    parameter.clamp_(-0.2, 0.2)
        made = maker(torch.randn(48, 4))
        loss = -critic(made).mean()
        makes.zero_grad()
        loss.backward()
        making.step(loss, outputs=made)
        makes.step()
    found = predicted(maker, torch.randn(1000, 4)).T.corrcoef()
    return 1 - (found - real.T.corrcoef()).abs().mean().item()


@healthy(at_least=0.8)
def a_clerk_who_is_paid_for_right_answers(watch: Watch, *, seed: int) -> float:
    """A policy says whether a tumour is benign and is paid 1 or nothing; its loss goes up and down around 0."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 24), nn.Tanh(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    usual = 0.5
    for rows, labels in data.batches(48, 250):
        policy = torch.distributions.Categorical(logits=model(rows))
        actions = policy.sample()
        pay = (actions == labels).float()
        loss = -((pay - usual) * policy.log_prob(actions)).mean() - 0.01 * policy.entropy().mean()
        usual = 0.9 * usual + 0.1 * pay.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.8)
def a_teacher_that_is_a_mean_of_students(watch: Watch, *, seed: int) -> float:
    """Labels of 150 digits and a slow mean of the weights teach a student; the term of agreement rises at first."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    student = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 48), nn.ReLU()
    ).append(nn.Linear(48, 10))
    teacher = copy.deepcopy(student).requires_grad_(False)
    optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
    session = watch(student, optimizer)
    for step in range(200):
        known, other = torch.randint(150, (32,)), torch.randint(len(images), (64,))
        outputs = student(images[known])
        loss = functional.cross_entropy(outputs, labels[known])
        noisy = images[other] + 0.2 * torch.randn(64, 1, 8, 8)
        agreement = functional.mse_loss(student(noisy).softmax(1), teacher(images[other]).softmax(1))
        loss = loss + min(1.0, step / 100) * 5 * agreement
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images[known], outputs=outputs, targets=labels[known])
        optimizer.step()
        with torch.no_grad():
            for slow, fast in zip(teacher.parameters(), student.parameters(), strict=True):
                slow.lerp_(fast, 0.05)
    return accuracy(teacher, Data(images, labels, *test.tensors))


@healthy(at_least=0.85)
def random_features_that_rest(watch: Watch, *, seed: int) -> float:
    """Random cosines are fixed on purpose, as in a kernel machine, and the layer above them is all that learns."""
    drawn = datasets.digits(seed)
    data = Data((drawn.inputs - 0.3) / 0.37, drawn.targets, (drawn.test_inputs - 0.3) / 0.37, drawn.test_targets)

    class Kernel(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("waves", torch.randn(64, 256) * 0.08)
            self.register_buffer("phases", torch.rand(256) * 6.28)
            self.head = nn.Linear(256, 10)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            return self.head((pixels @ self.waves + self.phases).cos())

    model = Kernel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@healthy(at_least=0.6)
def rows_of_a_table_one_by_one(watch: Watch, *, seed: int) -> float:
    """A recommender's tables get sparse gradients, and nearly all of their rows rest in each step."""
    data = ratings(seed)

    class Factors(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.pictures, self.pixels = nn.Embedding(300, 10, sparse=True), nn.Embedding(64, 10, sparse=True)
            for table in (self.pictures, self.pixels):
                nn.init.normal_(table.weight, std=0.4)

        def forward(self, where: torch.Tensor) -> torch.Tensor:
            return (self.pictures(where[:, 0]) * self.pixels(where[:, 1])).sum(1)

    model = Factors()
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=2e-2)
    fit(watch, model, optimizer, data, steps=300, batch_size=256, loss_function=functional.mse_loss)
    return explained(model, data)


@healthy(at_least=0.9)
def two_rows_at_a_time(watch: Watch, *, seed: int) -> float:
    """Batches of two pictures with a group norm, under a small rate; the loss jumps from step to step."""
    train, test = samples.numerals(seed)
    data = Data(*train.tensors, *test.tensors)
    data = Data(data.inputs, (data.targets == 0).long(), data.test_inputs, (data.test_targets == 0).long())
    model = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2), nn.GroupNorm(2, 8), nn.ReLU(), nn.Flatten(), nn.Linear(72, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3, momentum=0.9)
    fit(watch, model, optimizer, data, steps=400, batch_size=2)
    return accuracy(model, data)


@healthy(at_least=0.8)
def alike_are_drawn_together(watch: Watch, *, seed: int) -> float:
    """A contrastive margin pushes pairs apart until it is 0 for most of them, and they give no gradient then."""
    data = pairs(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    def distance(both: torch.Tensor) -> torch.Tensor:
        return ((model(both[:, 0]) - model(both[:, 1])).square().sum(1) + 1e-6).sqrt()

    for both, same in data.batches(64, 300):
        apart = distance(both)
        loss = (same * apart.square() + (1 - same) * (2 - apart).relu().square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=both)
        optimizer.step()
    with torch.no_grad():
        return ((distance(data.test_inputs) < 1) == (data.test_targets > 0.5)).float().mean().item()


@healthy(at_least=0.9)
def noise_that_grows_by_plan(watch: Watch, *, seed: int) -> float:
    """Canvases are clean at first and noisier in each stage, so the loss rises three times."""
    drawn = placed(seed)
    data = Data(drawn.inputs, (drawn.targets - 3) / 2, drawn.test_inputs, (drawn.test_targets - 3) / 2)
    model = localiser()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (images, corners) in enumerate(data.batches(48, 320)):
        images = images + (step // 80) * 0.3 * torch.randn_like(images)
        outputs = model(images)
        loss = functional.mse_loss(outputs, corners)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=corners)
        optimizer.step()
        if step % 40 == 39:
            session.validation(functional.mse_loss(predicted(model, data.test_inputs), data.test_targets).item())
    return explained(model, data)
