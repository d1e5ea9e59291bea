"""Sound trainings that look odd: generators, experts, shared weights and thin adapters."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened37.a_common import explained, numerals, parted, right_places


@healthy(at_least=0.5)
def a_forger_of_two_measurements(watch: Watch, *, seed: int) -> float:
    """A GAN draws pairs of a wine's measurements; its losses go up and down, and the mean of its weights is kept."""
    wines = datasets.wine(seed).inputs[:, [6, 11]]
    forger = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
    judge = nn.Sequential(nn.Linear(2, 48), nn.LeakyReLU(0.2), nn.Linear(48, 48), nn.LeakyReLU(0.2), nn.Linear(48, 1))
    kept = copy.deepcopy(forger)
    forging = torch.optim.Adam(forger.parameters(), lr=1e-3, betas=(0.5, 0.9))
    judging = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.9))
    forgers, judges = watch(forger, forging), watch(judge, judging)
    loss_function = functional.binary_cross_entropy_with_logits
    truth = torch.cat([torch.ones(64, 1), torch.zeros(64, 1)])
    for _ in range(400):
        real, noise = wines[torch.randint(len(wines), (64,))], torch.randn(64, 4)
        false = forger(noise)
        both = torch.cat([real, false.detach()])
        judging.zero_grad()
        outputs = judge(both)
        loss = loss_function(outputs, truth)
        loss.backward()
        judges.step(loss, inputs=both, outputs=outputs, targets=truth)
        judging.step()
        forging.zero_grad()
        loss = loss_function(judge(false), truth[:64])
        loss.backward()
        forgers.step(loss, inputs=noise, outputs=false)
        forging.step()
        for slow, fast in zip(kept.parameters(), forger.parameters(), strict=True):
            slow.data.lerp_(fast.data, 0.03)
    drawn = predicted(kept, torch.randn(1000, 4))
    apart = [(one(drawn) - one(wines)).abs().max() for one in (lambda rows: rows.mean(0), lambda rows: rows.mT.cov())]
    return 1 - max(apart).item()


class Variational(nn.Module):
    """An autoencoder whose code is drawn from a normal distribution."""

    def __init__(self) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 24))
        self.decoder = nn.Sequential(nn.Linear(12, 96), nn.ReLU(), nn.Linear(96, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Returns the pixels' logits, and the code's mean and logarithm of its variance."""
        mean, spread = self.encoder(pixels).chunk(2, 1)
        code = mean + (spread / 2).exp() * torch.randn_like(mean) if self.training else mean
        return self.decoder(code), mean, spread


@healthy(at_least=0.45)
def a_code_that_is_drawn(watch: Watch, *, seed: int) -> float:
    """A VAE adds up the losses of a digit's pixels; its KL begins near 0, rises, and its weight grows for a while."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 400)):
        outputs, mean, spread = model(pixels)
        wrong = functional.binary_cross_entropy_with_logits(outputs, pixels, reduction="none").sum(1).mean()
        divergence = 0.5 * (mean.square() + spread.exp() - 1 - spread).sum(1).mean()
        loss = wrong + 0.5 * min(1.0, step / 100) * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0].sigmoid(), data.test_inputs)


class Thin(nn.Module):
    """LoRA beside a frozen layer."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, 4, bias=False)
        self.up = nn.Linear(4, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the layer's outputs and what the adapter adds."""
        return self.layer(inputs) + 2 * self.up(self.down(inputs))


@healthy(at_least=0.85)
def adapters_for_digits_upside_down(watch: Watch, *, seed: int) -> float:
    """A network of upright digits is tuned to inverted ones with LoRA; ``down`` has a gradient of 0 at first."""
    data = numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for pictures, labels in data.batches(64, 150):
        optimizer.zero_grad()
        functional.cross_entropy(model(pictures), labels).backward()
        optimizer.step()
    for index in (1, 3, 5):
        model[index] = Thin(model[index])
    turned = Data(data.inputs.flip(2), data.targets, data.test_inputs.flip(2), data.test_targets)
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=5e-3, weight_decay=0.0)
    fit(watch, model, optimizer, turned, steps=250, validate_every=50)
    return accuracy(model, turned)


@healthy(at_least=0.9)
def eight_experts_two_of_which_answer(watch: Watch, *, seed: int) -> float:
    """A gate asks two of eight experts about each digit, so some get few samples or none in a batch."""
    data = numerals(seed)

    class Experts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate = nn.Linear(64, 8)
            self.experts = nn.ModuleList(
                nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in range(8)
            )

        def forward(self, pictures: torch.Tensor) -> torch.Tensor:
            pixels = pictures.flatten(1)
            best, chosen = self.gate(pixels).topk(2, 1)
            weights = best.softmax(1)
            outputs = pixels.new_zeros(len(pixels), 10)
            for index, expert in enumerate(self.experts):
                rows, places = (chosen == index).nonzero(as_tuple=True)
                if len(rows):
                    outputs = outputs.index_add(0, rows, weights[rows, places, None] * expert(pixels[rows]))
            return outputs

    model = Experts()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.85)
def a_sparse_code_of_relus(watch: Watch, *, seed: int) -> float:
    """An autoencoder of patches has a penalty on its code, of which far more than half is 0."""
    patches = (one := datasets.patches(seed)).sub(one.mean()).div(one.std())
    data = parted(patches, patches, seed)
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (pixels, _) in enumerate(data.batches(64, 350), 1):
        code = encoder(pixels)
        outputs = decoder(code)
        loss = functional.mse_loss(outputs, pixels) + 0.01 * code.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
        if step % 50 == 0:
            session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)


@healthy(at_least=0.33)
def one_matrix_in_and_out(watch: Watch, *, seed: int) -> float:
    """A language model of characters has one matrix for its embedding and its head."""
    data = datasets.text(seed, length=24, count=1500)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(CHARACTERS, 64)
            self.reader = nn.LSTM(64, 64, batch_first=True)
            self.head = nn.Linear(64, CHARACTERS)
            nn.init.normal_(self.letters.weight, std=0.1)
            self.head.weight = self.letters.weight

        def forward(self, characters: torch.Tensor) -> torch.Tensor:
            return self.head(self.reader(self.letters(characters))[0])

    model = Tied()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.mT, targets)

    fit(watch, model, optimizer, data, steps=280, batch_size=32, loss_function=loss_function, validate_every=40)
    return right_places(model, data)
