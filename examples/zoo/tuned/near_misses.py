"""Sound trainings that have a sign of something wrong, and a reason for it."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.reading import Sight, over_characters


@healthy(at_least=0.8)
def positions_drawn_from_the_standard_normal(watch: Watch, *, seed: int) -> float:
    """A transformer whose positions and class token start with a deviation of one: they are added, not multiplied."""
    data = datasets.digits(seed, images=True)
    model = Sight(blocks=2, norm_first=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


class _Reader(nn.Module):
    """A recurrent net whose embedding has torch's own deviation of one."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(datasets.CHARACTERS, 32)
        self.cell = nn.LSTM(32, 40, batch_first=True)
        self.head = nn.Linear(40, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(self.tokens(codes))
        return self.head(states)


@healthy(at_least=0.4)
def a_rate_of_one_under_a_clipped_norm(watch: Watch, *, seed: int) -> float:
    """SGD at a rate of 1 with momentum: clipping to 1 keeps its steps small."""
    data = datasets.text(seed, length=20)
    model = _Reader()
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 150):
        logits = model(codes)
        loss = over_characters(logits, following)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.9)
def a_validation_loss_that_creeps_up_near_zero(watch: Watch, *, seed: int) -> float:
    """The training loss goes to zero, the validation loss rises by half of very little; the accuracy stands."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 10)
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, validate_every=25)
    return accuracy(model, data)


@healthy(at_least=0.85)
def fine_tuned_at_a_small_rate(watch: Watch, *, seed: int) -> float:
    """A net that is trained already, and is to stay nearly as it is."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    before = torch.optim.Adam(model.parameters(), lr=3e-3)
    for inputs, labels in data.batches(64, 150):
        before.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        before.step()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    fit(watch, model, optimizer, data, steps=120, validate_every=40)
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_head_that_starts_at_a_hundredth(watch: Watch, *, seed: int) -> float:
    """Orthogonal weights, and a last layer that is nearly zero at first, as for a policy."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    for index, gain in ((0, 1.4), (2, 1.4), (4, 0.01)):
        nn.init.orthogonal_(model[index].weight, gain)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@healthy(at_least=0.6)
def a_critic_with_clamped_weights(watch: Watch, *, seed: int) -> float:
    """A Wasserstein GAN: the critic's weights are clamped after each of its steps, three of which go with one other."""
    real = datasets.iris(seed).inputs[:, :2]
    generator = nn.Sequential(nn.Linear(4, 24), nn.ReLU(), nn.Linear(24, 2))
    critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
    of_generator = torch.optim.RMSprop(generator.parameters(), lr=2e-3)
    of_critic = torch.optim.RMSprop(critic.parameters(), lr=2e-3)
    generating, judging = watch(generator, of_generator), watch(critic, of_critic)
    for _ in range(120):
        for _ in range(3):
            true = real[torch.randint(len(real), (32,))]
            loss = critic(generator(torch.randn(32, 4)).detach()).mean() - critic(true).mean()
            of_critic.zero_grad()
            loss.backward()
            judging.step(loss)
            of_critic.step()
            with torch.no_grad():
                for weight in critic.parameters():
                    weight.clamp_(-0.1, 0.1)
        loss = -critic(generator(torch.randn(32, 4))).mean()
        of_generator.zero_grad()
        loss.backward()
        generating.step(loss)
        of_generator.step()
    with torch.no_grad():
        made = generator(torch.randn(500, 4))
    return 1 - (made.mean(0) - real.mean(0)).abs().max().item()


@healthy(at_least=0.85)
def the_best_loss_is_kept(watch: Watch, *, seed: int) -> float:
    """The lowest loss and the last five are kept with their graphs: no more of them as time goes by."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session, best, recent = watch(model, optimizer), None, []
    for step, (inputs, labels) in enumerate(data.batches(64, 200), 1):
        logits = model(inputs)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=labels)
        optimizer.step()
        best = loss if best is None or loss < best else best
        recent = [*recent[-4:], loss]
        if step % 50 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)
