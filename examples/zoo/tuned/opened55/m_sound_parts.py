"""Sound trainings: generative ones, parts that wait, and matrices that serve twice."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened55.m_common import explained, flat_numerals, half_digits, mlp, paired


@healthy(at_least=0.6)
def forger_and_judge_of_two_measurements(watch: Watch, *, seed: int) -> float:
    """A GAN of two measurements of tumours; both losses go up and down, and the means come near the true ones."""
    train, _ = samples.standardised(samples.tumours(seed), 0, 1)
    real = train.tensors[0][:, :2] + 1.0
    forger, judge = mlp(4, 32, 2, activation=nn.Tanh), mlp(2, 32, 1)
    opt_forger = torch.optim.Adam(forger.parameters(), lr=2e-3, betas=(0.5, 0.9))
    opt_judge = torch.optim.Adam(judge.parameters(), lr=2e-3, betas=(0.5, 0.9))
    watched_forger, watched_judge = watch(forger, opt_forger), watch(judge, opt_judge)
    bce = functional.binary_cross_entropy_with_logits
    for _ in range(300):
        rows = real[torch.randint(len(real), (64,))]
        noise = torch.randn(64, 4)
        told_real, told_forged = judge(rows), judge(forger(noise).detach())
        loss = bce(told_real, torch.ones(64, 1)) + bce(told_forged, torch.zeros(64, 1))
        opt_judge.zero_grad()
        loss.backward()
        watched_judge.step(loss, inputs=rows)
        opt_judge.step()
        forged = forger(noise)
        loss = bce(judge(forged), torch.ones(64, 1))
        opt_forger.zero_grad()
        loss.backward()
        watched_forger.step(loss, inputs=noise, outputs=forged)
        opt_forger.step()
    with torch.no_grad():
        off = (forger(torch.randn(1000, 4)).mean(0) - real.mean(0)).abs().mean().item()
    return 1 - off


class Variational(nn.Module):
    """A VAE of digits whose log-variances and means begin at 0."""

    def __init__(self) -> None:
        super().__init__()
        self.body, self.told, self.decoder = mlp(64, 64), nn.Linear(64, 24), mlp(12, 64, 64)
        nn.init.zeros_(self.told.weight)
        nn.init.zeros_(self.told.bias)
        self.divergence = torch.zeros(())

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns the reconstruction's logits."""
        mean, log_variance = self.told(torch.relu(self.body(pixels))).chunk(2, 1)
        self.divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        code = mean
        if self.training:
            code = code + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(code)


@healthy(at_least=0.4)
def divergence_that_starts_from_nothing(watch: Watch, *, seed: int) -> float:
    """A VAE's divergence is exactly 0 at first and its weight rises over 100 steps, while the loss may rise too."""
    pixels = datasets.digits(seed)
    model = Variational()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for step, (inputs, _) in enumerate(pixels.batches(64, 350)):
        outputs = model(inputs)
        likelihood = functional.binary_cross_entropy_with_logits(outputs, inputs, reduction="none").sum(1).mean()
        loss = likelihood + 0.5 * min(1.0, step / 100) * model.divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=inputs)
        optimizer.step()
    return samples.explained(predicted(model, pixels.test_inputs).sigmoid(), pixels.test_inputs)


class LowRank(nn.Module):
    """A frozen layer with a low-rank addition that begins at 0."""

    def __init__(self, layer: nn.Linear, rank: int = 6) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the sum of both ways."""
        return self.layer(inputs) + 2 * self.up(self.down(inputs))


@healthy(at_least=0.8)
def adapters_for_digits_turned_over(watch: Watch, *, seed: int) -> float:
    """LoRA adapts a reader of digits to transposed ones; the lower factors have a gradient of 0 at first."""
    data = flat_numerals(seed)
    base = mlp(64, 64, 64, 10)
    optimizer: torch.optim.Optimizer = torch.optim.Adam(base.parameters(), lr=2e-3)
    for pixels, labels in data.batches(64, 120):
        optimizer.zero_grad()
        functional.cross_entropy(base(pixels), labels).backward()
        optimizer.step()
    model = nn.Sequential(*(LowRank(layer) if isinstance(layer, nn.Linear) else layer for layer in base))
    turned = Data(
        data.inputs.view(-1, 8, 8).mT.flatten(1),
        data.targets,
        data.test_inputs.view(-1, 8, 8).mT.flatten(1),
        data.test_targets,
    )
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=4e-3)
    fit(watch, model, optimizer, turned, steps=250, batch_size=32)
    return accuracy(model, turned)


class Routed(nn.Module):
    """Eight experts, of which a router asks the best two for each row."""

    def __init__(self) -> None:
        super().__init__()
        self.router = nn.Linear(32, 8)
        self.experts = nn.ModuleList(mlp(32, 32, 32) for _ in range(8))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns the two experts' weighted sum."""
        best = self.router(rows).topk(2, dim=-1)
        weights = best.values.softmax(-1)
        outputs = torch.zeros_like(rows)
        for index, expert in enumerate(self.experts):
            asked, place = (best.indices == index).nonzero(as_tuple=True)
            if len(asked):
                outputs = outputs.index_add(0, asked, weights[asked, place, None] * expert(rows[asked]))
        return outputs


@healthy(at_least=0.35)
def router_that_asks_two_of_eight(watch: Watch, *, seed: int) -> float:
    """A sparse mixture of experts completes digits; some experts get no row in many a small batch."""
    data = half_digits(seed)
    model = Routed()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=24, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@healthy(at_least=0.8)
def digits_learnt_before_a_new_question(watch: Watch, *, seed: int) -> float:
    """Convolutions were trained to name digits and stay frozen, in eval mode; a new head tells even from odd ones."""
    data = paired(samples.numerals(seed))
    body = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Flatten(),
    )
    first = nn.Sequential(body, nn.Linear(256, 10))
    optimizer: torch.optim.Optimizer = torch.optim.Adam(first.parameters(), lr=3e-3)
    for images, labels in data.batches(32, 80):
        optimizer.zero_grad()
        functional.cross_entropy(first(images), labels).backward()
        optimizer.step()
    model = nn.Sequential(body.requires_grad_(False), nn.Linear(256, 2))
    body.eval()
    odd = Data(data.inputs, data.targets % 2, data.test_inputs, data.test_targets % 2)
    optimizer = torch.optim.Adam(model[1].parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, labels in odd.batches(32, 150):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    body.eval()
    return accuracy(model, odd)


@healthy(at_least=0.6)
def few_of_many_codes_are_lit(watch: Watch, *, seed: int) -> float:
    """An autoencoder with a penalty on its 128 ReLU codes, most of which are 0 for any digit."""
    data = flat_numerals(seed)
    encoder, decoder = nn.Sequential(nn.Linear(64, 128), nn.ReLU()), nn.Linear(128, 64)
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        codes = encoder(pixels)
        outputs = decoder(codes)
        loss = functional.mse_loss(outputs, pixels) + 0.01 * codes.abs().mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


class Shared(nn.Module):
    """An encoder whose matrices, transposed, are the decoder's."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(64, 48), nn.Linear(48, 20)
        self.shifts = nn.ParameterList([nn.Parameter(torch.zeros(48)), nn.Parameter(torch.zeros(64))])

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        """Returns the reconstruction."""
        code = self.second(torch.tanh(self.first(pixels)))
        return torch.tanh(code @ self.second.weight + self.shifts[0]) @ self.first.weight + self.shifts[1]


@healthy(at_least=0.55)
def two_matrices_read_in_both_directions(watch: Watch, *, seed: int) -> float:
    """Encoder and decoder share two matrices, whose gradients have two sources."""
    data = flat_numerals(seed)
    data = Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)
    model = Shared()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=60)
    return explained(model, data)


@healthy(at_least=0.55)
def short_words_in_long_rows(watch: Watch, *, seed: int) -> float:
    """Names are padded to 24 places with code 0, whose embedding is 0 and never changes."""
    data = paired(samples.names(seed))
    words = nn.Embedding(64, 24, padding_idx=0)
    model = nn.Sequential(words, nn.Flatten(), nn.Dropout(0.2), nn.Linear(24 * 24, 64), nn.ReLU(), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)
