"""Sound trainings with losses of their own: rewards, distances, counts, quantiles and codes."""

import math

import torch
from sklearn import datasets as sets
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy


@healthy(at_least=0.8)
def rewards_for_the_right_digit(watch: Watch, *, seed: int) -> float:
    """REINFORCE: a guess is drawn and gets 1 if it is right; the baseline is the mean reward so far."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    baseline = 0.1
    for pixels, labels in data.batches(128, 350):
        inputs = 2 * pixels - 0.6
        policy = Categorical(logits=model(inputs))
        guesses = policy.sample()
        rewards = (guesses == labels).float()
        loss = -(policy.log_prob(guesses) * (rewards - baseline)).mean() - 0.05 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs)
        optimizer.step()
        baseline += 0.1 * (rewards.mean().item() - baseline)
    with torch.no_grad():
        return samples.accuracy(model(2 * data.test_inputs - 0.6), data.test_targets)


class _Sines(nn.Module):
    """Three layers of sines from coordinates to one grey value."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(2, width), nn.Linear(width, width), nn.Linear(width, width)])
        self.head = nn.Linear(width, 1)
        with torch.no_grad():
            self.layers[0].weight.uniform_(-1 / 2, 1 / 2)
            for layer in self.layers[1:]:
                layer.weight.uniform_(-math.sqrt(6 / width) / 15, math.sqrt(6 / width) / 15)

    def forward(self, places: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            places = torch.sin(15 * layer(places))
        return self.head(places)


@healthy(at_least=0.8)
def one_picture_learnt_by_heart(watch: Watch, *, seed: int) -> float:
    """A field of sines takes places in a photograph and gives its grey values, which it is to know by heart."""
    picture = torch.from_numpy(sets.load_sample_images().images[seed % 2].mean(2)).float()
    grey = functional.interpolate(picture[None, None], (32, 48), mode="area")[0, 0].flatten()
    values = ((grey - grey.mean()) / grey.std())[:, None]
    axes = torch.meshgrid(torch.linspace(-1, 1, 32), torch.linspace(-1, 1, 48), indexing="ij")
    places = torch.stack(axes, -1).view(-1, 2)
    model = _Sines()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for _ in range(300):
        rows = torch.randint(len(places), (384,))
        outputs = model(places[rows])
        loss = functional.mse_loss(outputs, values[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=places[rows], outputs=outputs, targets=values[rows])
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(places), values)


@healthy(at_least=0.85)
def triplets_that_soon_cost_nothing(watch: Watch, *, seed: int) -> float:
    """Most triplets of digits are far enough apart after a while: the loss is 0 for them, and so is their gradient."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    rows = [(labels == digit).nonzero()[:, 0] for digit in range(10)]
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 24, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(96, 16)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)

    def drawn(digits: torch.Tensor) -> torch.Tensor:
        return torch.stack([rows[digit][torch.randint(len(rows[digit]), ())] for digit in digits.tolist()])

    for _ in range(180):
        same = torch.randint(10, (48,))
        other = (same + torch.randint(1, 10, (48,))) % 10
        batch = images[torch.cat([drawn(same), drawn(same), drawn(other)])]
        anchor, positive, negative = model(batch).chunk(3)
        loss = functional.triplet_margin_loss(anchor, positive, negative, margin=1.0)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=anchor)
        optimizer.step()
    with torch.no_grad():
        nearest = torch.cdist(model(test.tensors[0]), model(images)).argmin(1)
    return (labels[nearest] == test.tensors[1]).float().mean().item()


@healthy(at_least=0.5)
def letters_counted_by_a_poisson_likelihood(watch: Watch, *, seed: int) -> float:
    """How long three lines are, from sixteen characters' counts: a likelihood of counts, whose loss stays above 3."""
    train, test = samples.lines(seed)
    totals = [part.tensors[0].sum(1, keepdim=True) for part in (train, test)]
    chosen = torch.tensor([0, 8, 9, 12, 14, 26, 29, 63, 65, 69, 73, 78, 79, 82, 83, 84])
    known, others = (torch.log1p(part.tensors[0][:, chosen]) for part in (train, test))
    mean, std = known.mean(0), known.std(0)
    model = nn.Sequential(nn.Linear(16, 32), nn.Softplus(), nn.Linear(32, 1))
    nn.init.constant_(model[2].bias, math.log(totals[0].mean().item()))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    pairs = torch.utils.data.TensorDataset((known - mean) / std, totals[0])
    for _ in range(8):
        for some, their in DataLoader(pairs, 48, shuffle=True):
            logs = model(some)
            loss = functional.poisson_nll_loss(logs, their, full=True)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=logs, targets=their)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model((others - mean) / std).exp(), totals[1])


@healthy(at_least=0.9)
def three_quantiles_of_a_progression(watch: Watch, *, seed: int) -> float:
    """The pinball loss of three quantiles; the quality is how close their shares come to 0.2, 0.5 and 0.8."""
    data = datasets.diabetes(seed)
    levels = torch.tensor([0.2, 0.5, 0.8])
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for rows, targets in data.batches(48, 200):
        outputs = model(rows)
        off = targets - outputs
        loss = torch.maximum(levels * off, (levels - 1) * off).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        optimizer.step()
    with torch.no_grad():
        below = (data.test_targets <= model(data.test_inputs)).float().mean(0)
    return 1 - (below - levels).abs().mean().item()


@healthy(at_least=0.45)
def codes_chosen_from_a_book(watch: Watch, *, seed: int) -> float:
    """A quantised autoencoder: gradients are passed straight through the choice of the nearest of 32 codes."""
    train, test = (part.tensors[0].flatten(1) for part in samples.numerals(seed))
    encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
    decoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 64))
    book = nn.Embedding(32, 4)
    nn.init.normal_(book.weight, std=0.3)
    model = nn.ModuleList([encoder, decoder, book])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def coded(codes: torch.Tensor) -> torch.Tensor:
        return book(torch.cdist(codes.view(-1, 4), book.weight).argmin(1)).view_as(codes)

    for _ in range(9):
        for inputs in torch.randperm(len(train)).split(40):
            codes = encoder(train[inputs])
            chosen = coded(codes)
            rebuilt = decoder(codes + (chosen - codes).detach())
            loss = functional.mse_loss(rebuilt, train[inputs])
            loss = (
                loss + functional.mse_loss(chosen, codes.detach()) + 0.25 * functional.mse_loss(codes, chosen.detach())
            )
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=train[inputs], outputs=rebuilt, targets=train[inputs])
            optimizer.step()
    with torch.no_grad():
        return samples.explained(decoder(coded(encoder(test))), test)
