"""Sound trainings that look odd: noise for targets, no targets at all, classes by another number in each episode."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy
from examples.zoo.tuned.opened29.a_stock import advance, blobs, drawn, judged


@healthy(at_least=0.82)
def noise_learns_from_noise(watch: Watch, *, seed: int) -> float:
    """Noise2Noise: inputs and targets are two noisy pictures of one blob, so that the loss stays at the noise.

    Quality: R² of the clean pictures.
    """
    rows, columns = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    centres = blobs(seed, count=800)[1]
    clean = 2.5 * (-((rows - centres[:, :1, None]) ** 2 + (columns - centres[:, 1:, None]) ** 2) / 5).exp()[:, None]
    clean = clean - clean.mean()
    model = nn.Sequential(
        nn.Conv2d(1, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 16, 5, padding=2), nn.ReLU(), nn.Conv2d(16, 1, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(150):
        (some,) = drawn(16, clean[:600])
        seen, other = some + torch.randn_like(some), some + torch.randn_like(some)
        found = model(seen)
        advance(session, optimizer, functional.mse_loss(found, other), seen, found, other)
    asked = clean[600:]
    found = judged(model, asked + torch.randn_like(asked))
    return (1 - (found - asked).square().mean() / asked.var()).item()


@healthy(at_least=0.95)
def an_equation_instead_of_data(watch: Watch, *, seed: int) -> float:
    """A physics-informed net: no targets, a loss of second derivatives at random places, and two border values.

    Quality: R² against the solution ``sin(3 x)`` of ``u'' = -9 u``.
    """
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 400, eta_min=5e-4)
    session = watch(model, optimizer)
    zero = torch.zeros(1, 1)
    for _ in range(400):
        places = (torch.rand(48, 1) * 2 - 1).requires_grad_()
        heights = model(places)
        (slopes,) = torch.autograd.grad(heights.sum(), places, create_graph=True)
        (bends,) = torch.autograd.grad(slopes.sum(), places, create_graph=True)
        start = zero.clone().requires_grad_()
        height = model(start)
        (slope,) = torch.autograd.grad(height.sum(), start, create_graph=True)
        loss = (bends / 9 + heights).square().mean() + height.square().sum() + (slope / 3 - 1).square().sum()
        advance(session, optimizer, loss, places, heights, None)
        schedule.step()
    places = torch.linspace(-1, 1, 100)[:, None]
    return samples.explained(judged(model, places), (3 * places).sin())


@healthy(at_least=0.8)
def classes_have_other_numbers_in_each_episode(watch: Watch, *, seed: int) -> float:
    """Prototypical nets: five classes of ten get new numbers in each episode, and distances to means are the scores.

    Quality: accuracy of episodes of held-out digits.
    """
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(nn.Conv2d(1, 24, 3), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten())
    model.append(nn.Linear(216, 32))

    def episode(pictures: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = [(labels == kind).nonzero().flatten() for kind in torch.randperm(10)[:5]]
        return torch.cat([pictures[own[torch.randperm(len(own))[:10]]] for own in chosen]), torch.arange(5).repeat(
            5, 1
        ).T

    def scored(pictures: torch.Tensor) -> torch.Tensor:
        found = model(pictures).view(5, 10, -1)
        return -torch.cdist(found[:, 5:].flatten(0, 1), found[:, :5].mean(1)).square() / 8

    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(200):
        pictures, numbers = episode(data.inputs, data.targets)
        scores = scored(pictures)
        loss = functional.cross_entropy(scores, numbers.flatten())
        advance(session, optimizer, loss, pictures, scores, numbers.flatten())
    model.eval()
    right = []
    with torch.no_grad():
        for _ in range(20):
            pictures, numbers = episode(data.test_inputs, data.test_targets)
            right.append((scored(pictures).argmax(1) == numbers.flatten()).float().mean().item())
    return sum(right) / len(right)


@healthy(at_least=0.8)
def two_answers_to_one_question(watch: Watch, *, seed: int) -> float:
    """A mixture density net inverts a bent curve: its loss is a likelihood, falls below zero, and has no mean answer.

    Quality: share of held-out answers within 0.15 of one of the net's means.
    """
    random = torch.Generator().manual_seed(seed)
    answers = torch.rand(1200, 1, generator=random) * 2 - 1
    questions = 2 * answers.square() - 0.7 + 0.03 * torch.randn(1200, 1, generator=random)
    model = nn.Sequential(nn.Linear(1, 32), nn.Tanh(), nn.Linear(32, 9))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(400):
        asked, truth = drawn(64, questions[:900], answers[:900])
        found = model(asked)
        shares, means, widths = found.chunk(3, 1)
        each = torch.distributions.Normal(means, functional.softplus(widths) + 0.03).log_prob(truth)
        loss = -(shares.log_softmax(1) + each).logsumexp(1).mean()
        advance(session, optimizer, loss, asked, found, truth)
    shares, means, _ = judged(model, questions[900:]).chunk(3, 1)
    near = ((means - answers[900:]).abs() < 0.15) & (shares.softmax(1) > 0.1)
    return near.any(1).float().mean().item()


@healthy(at_least=0.8)
def a_bandit_guesses_digits(watch: Watch, *, seed: int) -> float:
    """REINFORCE: guesses are drawn, a right one pays 1, and the loss is around zero all the time."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    usual = 0.1
    for pictures, labels in data.batches(128, 400):
        logits = model(pictures)
        policy = torch.distributions.Categorical(logits=logits)
        guesses = policy.sample()
        pay = (guesses == labels).float()
        loss = -((pay - usual) * policy.log_prob(guesses)).mean() - 0.01 * policy.entropy().mean()
        usual = 0.9 * usual + 0.1 * pay.mean().item()
        advance(session, optimizer, loss, pictures, logits, guesses)
    return accuracy(model, data)
