"""Sound trainings of odd nets: frozen, tied, deep, sparse, recomputed, discrete, or held at one."""

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.nn.utils import parametrizations
from torch.utils.checkpoint import checkpoint_sequential

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted


@healthy(at_least=0.85)
def fine_tuned_from_even_to_all(watch: Watch, *, seed: int) -> float:
    """A body trained on another question is frozen, in eval mode, and a new head learns on it."""
    data = datasets.digits(seed)
    body = nn.Sequential(nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.2))
    before = nn.Sequential(body, nn.Linear(64, 5))
    first = torch.optim.Adam(before.parameters(), lr=5e-3)
    for x, y in data.batches(64, 80):
        first.zero_grad()
        F.cross_entropy(before(x), y // 2).backward()
        first.step()
    body.requires_grad_(False).eval()
    net = nn.Sequential(body, nn.Linear(64, 10))
    fit(watch, net, torch.optim.AdamW(net[1].parameters(), lr=1e-2), data, steps=150)
    return accuracy(net, data)


@healthy(at_least=0.85)
def norms_and_biases_alone(watch: Watch, *, seed: int) -> float:
    """Only gains, biases and the head of a drawn convolutional net are trained; all kernels stay as drawn."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(
        nn.Conv2d(1, 24, 3), nn.BatchNorm2d(24), nn.ReLU(), nn.Conv2d(24, 24, 3), nn.BatchNorm2d(24), nn.ReLU(),
        nn.Flatten(), nn.Linear(384, 10),
    )  # fmt: skip
    for layer in (net[0], net[3]):
        layer.weight.requires_grad_(False)
    optimizer = torch.optim.Adam([p for p in net.parameters() if p.requires_grad], lr=5e-3)
    fit(watch, net, optimizer, data, steps=120)
    return accuracy(net, data)


@healthy(at_least=0.8)
def forty_residual_blocks(watch: Watch, *, seed: int) -> float:
    """Forty residual blocks whose last layers start at zero: gradients of the first ones are exactly zero at first."""
    data = datasets.digits(seed)

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm, self.a, self.b = nn.LayerNorm(24), nn.Linear(24, 24), nn.Linear(24, 24)
            nn.init.zeros_(self.b.weight)
            nn.init.zeros_(self.b.bias)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.b(F.gelu(self.a(self.norm(x))))

    net = nn.Sequential(nn.Linear(64, 24), *(Block() for _ in range(40)), nn.LayerNorm(24), nn.Linear(24, 10))
    fit(watch, net, torch.optim.AdamW(net.parameters(), lr=3e-3), data, steps=90)
    return accuracy(net, data)


@healthy(at_least=0.85)
def segments_computed_twice(watch: Watch, *, seed: int) -> float:
    """Gradient checkpointing over three segments: each forward pass runs again in the backward pass."""
    data = datasets.digits(seed)
    layers = nn.Sequential(*(nn.Sequential(nn.Linear(48, 48), nn.LayerNorm(48), nn.ReLU()) for _ in range(6)))

    class Net(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift, self.layers, self.head = nn.Linear(64, 48), layers, nn.Linear(48, 10)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(checkpoint_sequential(self.layers, 3, self.lift(x), use_reentrant=False))

    net = Net()
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=2e-3), data, steps=140)
    return accuracy(net, data)


@healthy(at_least=0.3)
def words_tied_to_their_scores(watch: Watch, *, seed: int) -> float:
    """Embedding and output share one matrix, drawn small; dropout between the layers of a GRU."""
    data = datasets.text(seed, length=16, count=1200)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(datasets.CHARACTERS, 48)
            nn.init.normal_(self.embed.weight, std=0.1)
            self.gru = nn.GRU(48, 48, 2, batch_first=True, dropout=0.1)
            self.out = nn.Linear(48, datasets.CHARACTERS)
            self.out.weight = self.embed.weight

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.out(self.gru(self.embed(codes))[0])

    net = Tied()

    def loss(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        return F.cross_entropy(logits.transpose(1, 2), codes)

    fit(watch, net, torch.optim.AdamW(net.parameters(), lr=1e-2), data, steps=150, batch_size=48, loss_function=loss)
    return (predicted(net, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.5)
def sparse_gradients_of_rare_letters(watch: Watch, *, seed: int) -> float:
    """``EmbeddingBag(sparse=True)`` has an optimizer of its own, and most of its rows are seldom touched."""
    train, test = samples.names(seed)
    pairs = torch.cat([train.tensors[0], test.tensors[0]])
    pairs = pairs[:, :-1] * samples.LETTERS + pairs[:, 1:]
    bag = nn.EmbeddingBag(samples.LETTERS**2, 24, sparse=True, mode="sum")
    nn.init.normal_(bag.weight, std=0.1)
    net = nn.Sequential(bag, nn.Tanh(), nn.Linear(24, 8))
    rows, dense = torch.optim.SparseAdam(bag.parameters(), lr=0.02), torch.optim.Adam(net[2].parameters(), lr=0.01)
    watched_rows, watched_dense = watch(bag, rows), watch(net[2], dense)
    count = len(train)
    for _ in range(8):
        for batch in torch.randperm(count).split(32):
            codes, labels = pairs[batch], train.tensors[1][batch]
            summed = bag(codes)
            logits = net[2](net[1](summed))
            loss = F.cross_entropy(logits, labels)
            rows.zero_grad()
            dense.zero_grad()
            loss.backward()
            watched_rows.step(loss, inputs=codes, outputs=summed)
            watched_dense.step(loss, outputs=logits, targets=labels)
            rows.step()
            dense.step()
    with torch.no_grad():
        return samples.accuracy(net(pairs[count:]), test.tensors[1])


@healthy(at_least=0.85)
def weights_held_at_a_norm_of_one(watch: Watch, *, seed: int) -> float:
    """Spectral norms in the hidden layers, weight norm in the head."""
    data = datasets.digits(seed)
    net = nn.Sequential(
        parametrizations.spectral_norm(nn.Linear(64, 48)), nn.LeakyReLU(0.2),
        parametrizations.spectral_norm(nn.Linear(48, 48)), nn.LeakyReLU(0.2),
        parametrizations.weight_norm(nn.Linear(48, 10)),
    )  # fmt: skip
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=1e-2), data, steps=400, validate_every=50)
    return accuracy(net, data)


@healthy(at_least=0.85)
def a_sign_with_a_straight_gradient(watch: Watch, *, seed: int) -> float:
    """Binary activations: forward the sign, backward the identity within [-1, 1]."""
    data = datasets.digits(seed)

    class Sign(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            soft = x.clamp(-1, 1)
            return soft + (x.sign() - soft).detach()

    net = nn.Sequential(nn.Linear(64, 96), nn.BatchNorm1d(96), Sign(), nn.Linear(96, 10))
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=5e-3), data, steps=160)
    return accuracy(net, data)


@healthy(at_least=0.85)
def half_of_the_units_dropped(watch: Watch, *, seed: int) -> float:
    """A fifth of the inputs and half of 256 hidden units are dropped: the training loss stays above validation's."""
    data = datasets.digits(seed)
    net = nn.Sequential(nn.Dropout(0.2), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.5), nn.Linear(256, 10))
    fit(watch, net, torch.optim.Adam(net.parameters(), lr=3e-3), data, steps=240, validate_every=40)
    return accuracy(net, data)


@healthy(at_least=0.85)
def whole_blocks_dropped_at_random(watch: Watch, *, seed: int) -> float:
    """Stochastic depth: in each step some residual blocks get no gradient at all."""
    data = datasets.digits(seed)

    class Deep(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.lift, self.head = nn.Linear(64, 40), nn.Linear(40, 10)
            self.blocks = nn.ModuleList(nn.Sequential(nn.LayerNorm(40), nn.Linear(40, 40), nn.ReLU()) for _ in range(6))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            x = self.lift(x)
            for block in self.blocks:
                if self.training and torch.rand(()) < 0.3:
                    continue
                x = x + block(x)
            return self.head(x)

    net = Deep()
    fit(watch, net, torch.optim.AdamW(net.parameters(), lr=3e-3), data, steps=180, validate_every=60)
    return accuracy(net, data)


@healthy(at_least=0.9)
def all_in_bfloat16_autocast_with_accumulation(watch: Watch, *, seed: int) -> float:
    """Autocast to bfloat16, four micro-batches a step with averaged losses, a scaler that is disabled as it may be."""
    data = datasets.digits(seed, images=True)
    net = nn.Sequential(nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Flatten(), nn.Linear(432, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.AdamW(net.parameters(), lr=6e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    session = watch(net, optimizer, scaler=scaler)
    for number, (x, y) in enumerate(data.batches(16, 480), 1):
        with torch.autocast("cpu", torch.bfloat16):
            out = net(x)
            loss = F.cross_entropy(out, y) / 4
        scaler.scale(loss).backward()
        if number % 4 == 0:
            session.step(loss, inputs=x, outputs=out, targets=y)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()
    return accuracy(net, data)


@healthy(at_least=0.9)
def neighbours_that_share_weights(watch: Watch, *, seed: int) -> float:
    """A net on a graph of wines: one batch of all nodes, and a third of the labels is used."""
    data = datasets.wine(seed)
    x, y = torch.cat([data.inputs, data.test_inputs]), torch.cat([data.targets, data.test_targets])
    near = torch.zeros(len(x), len(x)).scatter(1, torch.cdist(x, x).topk(6, largest=False).indices, 1 / 6)
    net = nn.ModuleList([nn.Linear(13, 24), nn.Linear(24, 3)])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2, weight_decay=5e-4)
    session, known = watch(net, optimizer), len(data.inputs) // 3
    for _ in range(80):
        logits = net[1](near @ F.relu(net[0](near @ x)))
        loss = F.cross_entropy(logits[:known], y[:known])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=logits[:known], targets=y[:known])
        optimizer.step()
    return samples.accuracy(logits[known:].detach(), y[known:])


@healthy(at_least=0.9)
def a_sine_in_each_layer(watch: Watch, *, seed: int) -> float:
    """Sines of thirty times the input, as nets for signals have them: a series of one coordinate."""
    random = torch.Generator().manual_seed(seed)
    place = torch.rand(1500, 1, generator=random) * 2 - 1
    value = torch.sin(9 * place) + 0.5 * torch.sin(31 * place)

    class Sine(nn.Module):
        def __init__(self, inputs: int, first: bool) -> None:
            super().__init__()
            self.layer = nn.Linear(inputs, 64)
            bound = 1.0 if first else (6 / inputs) ** 0.5 / 30
            nn.init.uniform_(self.layer.weight, -bound, bound)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.sin(30 * self.layer(x))

    net = nn.Sequential(Sine(1, True), Sine(64, False), nn.Linear(64, 1))
    data = Data(place[:1100], value[:1100], place[1100:], value[1100:])
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
    fit(watch, net, optimizer, data, steps=250, batch_size=100, loss_function=F.mse_loss)
    return samples.explained(predicted(net, data.test_inputs), data.test_targets)
