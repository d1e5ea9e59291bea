"""Sound trainings that look sick: generators, adapters, experts and codes."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened46.d_kit import Reader, faces, perceptron, rows_of_digits, scripts, train
from examples.zoo.tuned.opened46.d_wiring import Variational, predicted_pixels


@healthy(at_least=0.15)
def two_players_over_iris(watch: Watch, *, seed: int) -> float:
    """A generator of flowers and a discriminator of noisy ones take turns, so both losses go up and down."""
    data = datasets.iris(seed)
    generator, judge = perceptron(4, 48, 4), perceptron(4, 48, 48, 1, activation=nn.SiLU)
    averaged = copy.deepcopy(generator).requires_grad_(False)
    makes = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.99))
    judges = torch.optim.Adam(judge.parameters(), lr=8e-3, betas=(0.5, 0.99))
    making, judging = watch(generator, makes), watch(judge, judges)
    for flowers, _ in data.batches(56, 400):
        made = generator(torch.randn(len(flowers), 4))
        real, fake = judge(_noisy(flowers)), judge(_noisy(made.detach()))
        loss = functional.softplus(-real).mean() + functional.softplus(fake).mean()
        judges.zero_grad()
        loss.backward()
        judging.step(loss, inputs=flowers, outputs=real)
        judges.step()
        loss = functional.softplus(-judge(_noisy(made))).mean()
        makes.zero_grad()
        loss.backward()
        making.step(loss, outputs=made)
        makes.step()
        with torch.no_grad():
            for slow, fast in zip(averaged.parameters(), generator.parameters(), strict=True):
                slow.lerp_(fast, 0.02)
    made, true = predicted(averaged, torch.randn(1000, 4)), data.test_inputs
    return 1 - (made.mean(0) - true.mean(0)).abs().mean().item() - (made.T.cov() - true.T.cov()).abs().mean().item()


def _noisy(flowers: torch.Tensor) -> torch.Tensor:
    return flowers + 0.5 * torch.randn_like(flowers)


@healthy(at_least=0.5)
def divergence_warmed_up_from_nothing(watch: Watch, *, seed: int) -> float:
    """A VAE's divergence has a weight that rises from 0, so that the loss rises while the model is learning."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    weights = iter(torch.linspace(0, 0.3, 400).tolist())

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        outputs, mean, log_variance = model(inputs)
        divergence = 0.5 * (mean.square() + log_variance.exp() - 1 - log_variance).sum(1).mean()
        error = 0.5 * (outputs - targets).square().sum(1).mean() / 0.3
        return error + next(weights) * divergence, outputs

    train(watch, model, optimizer, data, step, steps=400)
    return explained(predicted_pixels(model, data.test_inputs), data.test_targets)


class Adapted(nn.Module):
    """A frozen layer and two thin ones beside it, of which the second begins at 0."""

    def __init__(self, layer: nn.Linear, rank: int) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, rank, bias=False), nn.Linear(rank, layer.out_features, False)
        nn.init.zeros_(self.up.weight)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Returns the sum of both paths."""
        return self.layer(values) + 2 * self.up(self.down(values))


@healthy(at_least=0.85)
def adapters_for_mirrored_digits(watch: Watch, *, seed: int) -> float:
    """Adapters of rank 8 teach a frozen network mirrored digits; the first step leaves half of them no gradient."""
    data = datasets.digits(seed)
    model = perceptron(64, 96, 48, 10)
    earlier = torch.optim.Adam(model.parameters(), lr=3e-3)
    for inputs, labels in data.batches(64, 150):
        earlier.zero_grad()
        functional.cross_entropy(model(inputs), labels).backward()
        earlier.step()
    mirrored = Data(
        data.inputs.view(-1, 8, 8).flip(2).flatten(1), data.targets,
        data.test_inputs.view(-1, 8, 8).flip(2).flatten(1), data.test_targets,
    )  # fmt: skip
    model = nn.Sequential(*(Adapted(layer, 8) if isinstance(layer, nn.Linear) else layer for layer in model))
    optimizer = torch.optim.AdamW((one for one in model.parameters() if one.requires_grad), lr=5e-3)
    fit(watch, model, optimizer, mirrored, steps=200)
    return accuracy(model, mirrored)


class Experts(nn.Module):
    """Sends each digit to the expert with the highest gate."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.gate = nn.Linear(64, count)
        self.experts = nn.ModuleList(perceptron(64, 24, 10) for _ in range(count))

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        weights, chosen = self.gate(pixels).softmax(1).max(1)
        outputs = pixels.new_zeros(len(pixels), 10)
        for index, expert in enumerate(self.experts):
            rows = (chosen == index).nonzero()[:, 0]
            if len(rows):
                outputs = outputs.index_add(0, rows, expert(pixels[rows]) * weights[rows, None])
        return outputs


@healthy(at_least=0.85)
def twelve_experts_of_whom_some_rest(watch: Watch, *, seed: int) -> float:
    """Each batch of 16 goes to some of twelve experts, and the others get no gradient in that step."""
    data = datasets.digits(seed)
    model = Experts(12)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=350, batch_size=16)
    return accuracy(model, data)


@healthy(at_least=0.85)
def head_on_a_pretrained_body(watch: Watch, *, seed: int) -> float:
    """A head learns ten digits on a frozen body, which had learnt to tell only five of them and others before."""
    data = faces(seed)
    body = nn.Sequential(
        nn.Conv2d(1, 12, 3), nn.BatchNorm2d(12), nn.ReLU(), nn.Flatten(), nn.Linear(432, 64), nn.ReLU()
    )
    earlier_head = nn.Linear(64, 6)
    earlier = torch.optim.Adam([*body.parameters(), *earlier_head.parameters()], lr=2e-3)
    for images, labels in data.batches(64, 120):
        earlier.zero_grad()
        functional.cross_entropy(earlier_head(body(images)), labels.clamp(max=5)).backward()
        earlier.step()
    body.requires_grad_(False).eval()
    model = nn.Sequential(body, nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@healthy(at_least=0.6)
def sparse_features_of_digits(watch: Watch, *, seed: int) -> float:
    """An overcomplete code of ReLUs has an L1 penalty, so that most of its values are 0, as they should be."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def step(inputs: torch.Tensor, targets: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        codes = encoder(inputs)
        outputs = decoder(codes)
        return functional.mse_loss(outputs, targets) + 0.02 * codes.mean(), outputs

    train(watch, model, optimizer, data, step, steps=350)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Tied(nn.Module):
    """A model of the next character, whose last layer is its embedding."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(datasets.CHARACTERS, 48)
        nn.init.normal_(self.letters.weight, std=0.1)
        self.recurrence = nn.GRU(48, 48, batch_first=True)
        self.answer = nn.Linear(48, datasets.CHARACTERS)
        self.answer.weight = self.letters.weight

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits (N, characters, T)."""
        return self.answer(self.recurrence(self.letters(codes))[0]).transpose(1, 2)


@healthy(at_least=0.35)
def one_matrix_for_both_ends(watch: Watch, *, seed: int) -> float:
    """The embedding is also the last layer, so that one parameter has two gradients."""
    data = datasets.text(seed, length=16)
    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return (predicted(model, data.test_inputs).argmax(1) == data.test_targets).float().mean().item()


@healthy(at_least=0.55)
def names_padded_with_a_zero_row(watch: Watch, *, seed: int) -> float:
    """The row of the padding has no gradient and stays 0, while most letters of a short name are padding."""
    data = scripts(seed)
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@healthy(at_least=0.8)
def cosine_after_a_long_warmup(watch: Watch, *, seed: int) -> float:
    """The rate rises from almost nothing for 50 steps and falls to nothing in 150, with the loss flat at both ends."""
    data = rows_of_digits(seed)
    model = nn.Sequential(
        nn.Linear(8, 32), nn.TransformerEncoderLayer(32, 4, 64, dropout=0.1, batch_first=True, norm_first=True),
        nn.Flatten(), nn.Linear(256, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    rise = torch.optim.lr_scheduler.LinearLR(optimizer, 1e-3, total_iters=50)
    fall = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 150)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [rise, fall], [50])
    fit(watch, model, optimizer, data, steps=200, batch_size=48, scheduler=scheduler)
    return accuracy(model, data)
