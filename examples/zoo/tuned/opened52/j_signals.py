"""What flows through a net, forwards and backwards, and how it begins."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened52.j_stock import flat_numerals, neighbours, of_pair, share_explained, themselves


class Blocks(nn.Module):
    """A chain of blocks, whose inputs are added or not."""

    def __init__(self, depth: int, width: int, added: bool, act: type[nn.Module]) -> None:
        super().__init__()
        self.stem, self.head, self.added = nn.Linear(64, width), nn.Linear(width, 10), added
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), act(), nn.Linear(width, width)) for _ in range(depth)
        )

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        hidden = self.stem(rows)
        for block in self.blocks:
            hidden = hidden + block(hidden) if self.added else block(hidden)
        return self.head(hidden)


@sick("vanishing_gradients", margin=0.1)
def a_refactoring_lost_the_sum(watch: Watch, *, seed: int, sick: bool) -> float:
    """A refactored forward writes ``x = block(x)`` ten times, where the twin still adds ``x``."""
    data = flat_numerals(seed)
    model = Blocks(10, 40, not sick, nn.Tanh)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    fit(watch, model, optimizer, data, steps=220, batch_size=48)
    return accuracy(model, data)


@sick("exploding_gradients", also=("poor_initialization", "non_finite_forward"), margin=0.1)
def twenty_sums_that_double(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of twenty added blocks has He's initialisation, so that sums double; the twin begins each block near 0."""
    data = flat_numerals(seed)
    model = Blocks(20, 40, True, nn.ReLU)
    for block in model.blocks:
        for index in (0, 2):
            nn.init.kaiming_normal_(block[index].weight, nonlinearity="relu")
        if not sick:
            with torch.no_grad():
                block[2].weight.mul_(0.02)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.005, momentum=0.9)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def a_rare_prior_for_every_bias(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias of focal losses' heads, -4.6, is given to all layers, whose ReLUs are 0; the twin's head has one."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    for layer in (model[0], model[2], model[4]) if sick else (model[4],):
        nn.init.constant_(layer.bias, -4.6 if sick else -2.2)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 200):
        wanted = functional.one_hot(labels, 10).float()
        outputs = model(pixels)
        missed = (outputs.sigmoid() - wanted).abs().square()
        loss = (missed * functional.binary_cross_entropy_with_logits(outputs, wanted, reduction="none")).sum(1).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=wanted)
        optimizer.step()
    return accuracy(model, data)


class Hashed(nn.Module):
    """Codes of almost -1 or 1, by a steep tanh."""

    def __init__(self, slope: float) -> None:
        super().__init__()
        self.slope = slope
        self.code = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 12))
        self.tanh, self.head = nn.Tanh(), nn.Linear(12, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.tanh(self.slope * self.code(pixels)))


@sick("saturated_units", also=("vanishing_gradients",), margin=0.05)
def codes_sharpened_from_the_start(watch: Watch, *, seed: int, sick: bool) -> float:
    """A hash code's slope is 300 from the first step; the twin's begins at 1 and ends at 4."""
    data = flat_numerals(seed)
    model = Hashed(300.0 if sick else 1.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for step, (pixels, labels) in enumerate(data.batches(48, 240)):
        if not sick:
            model.slope = 1 + 3 * step / 240
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class TiedLetters(nn.Module):
    """Mixes the last eight letters, and scores the next with the table that it read them by."""

    def __init__(self, std: float) -> None:
        super().__init__()
        self.letters = nn.Embedding(datasets.CHARACTERS, 96)
        nn.init.normal_(self.letters.weight, std=std)
        self.mix = nn.Sequential(nn.Flatten(), nn.LayerNorm(96 * 8), nn.Linear(96 * 8, 96), nn.GELU(),
                                 nn.Linear(96, 96), nn.LayerNorm(96))  # fmt: skip

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.mix(self.letters(codes)) @ self.letters.weight.T


@sick("poor_initialization", margin=0.03)
def a_tied_table_as_it_comes(watch: Watch, *, seed: int, sick: bool) -> float:
    """A table with deviation 1, an embedding's default, is the head too, and scores are ±10; the twin's has 0.05."""
    windows = datasets.text(seed, length=8, count=3000)
    data = Data(windows.inputs, windows.targets[:, -1], windows.test_inputs, windows.test_targets[:, -1])
    model = TiedLetters(1.0 if sick else 0.05)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@sick("unbroken_symmetry", margin=0.04)
def a_layer_widened_by_copies(watch: Watch, *, seed: int, sick: bool) -> float:
    """A layer of four units is widened to 32 by copies, which stay equal; the twin adds noise to them."""
    data = flat_numerals(seed)
    small = nn.Sequential(nn.Linear(64, 4), nn.Tanh(), nn.Linear(4, 10))
    model = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    with torch.no_grad():
        model[0].weight.copy_(small[0].weight.repeat(8, 1))
        model[0].bias.copy_(small[0].bias.repeat(8))
        model[2].weight.copy_(small[2].weight.repeat(1, 8) / 8)
        if not sick:
            model[0].weight.add_(torch.randn_like(model[0].weight) * 0.1)
            model[2].weight.add_(torch.randn_like(model[2].weight) * 0.1)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_forward", margin=0.2)
def a_variance_from_a_relu(watch: Watch, *, seed: int, sick: bool) -> float:
    """A variance comes from a ReLU, and the likelihood divides by 0; the twin's is a softplus and a little."""
    data = of_pair(samples.standardised(samples.tumours(seed), 0, 1))
    model = nn.Sequential(nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 20))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, worst in data.batches(32, 250):
        outputs = model(rows)
        mean, spread = outputs.chunk(2, 1)
        variance = functional.relu(spread) if sick else functional.softplus(spread) + 1e-2
        loss = 0.5 * (variance.log() + (worst - mean).square() / variance).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=mean, targets=worst)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[:, :10], data.test_targets)


@sick("non_finite_backward", margin=0.2)
def distances_of_vectors_to_themselves(watch: Watch, *, seed: int, sick: bool) -> float:
    """Roots of squared distances are taken on the diagonal too, where a root has no slope; the twin adds 1e-6 first."""
    data = flat_numerals(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 12))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 200):
        vectors = model(pixels)
        squares = (vectors[:, None] - vectors[None]).square().sum(-1)
        distances = squares.sqrt() if sick else (squares + 1e-6).sqrt()
        same = labels[:, None] == labels[None]
        farthest = distances.masked_fill(~same, 0).amax(1)
        nearest = distances.masked_fill(same, 1e3).amin(1)
        loss = functional.softplus(farthest - nearest).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=vectors, targets=labels)
        optimizer.step()
    return neighbours(predicted(model, data.inputs), data.targets, predicted(model, data.test_inputs),
                      data.test_targets)  # fmt: skip


@sick("fp16_underflow", margin=0.1)
def halves_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder of 16-bit floats weighs its error by 2e-5 and has no scaler, so that gradients round to 0."""
    data = themselves(flat_numerals(seed))
    model = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 16), nn.Linear(16, 48), nn.GELU(),
                          nn.Linear(48, 64))  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for pixels, _ in data.batches(64, 200):
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(pixels)
        loss = 2e-5 * functional.mse_loss(outputs.float(), pixels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
        scaler.step(optimizer)
        scaler.update()
    return share_explained(model, data)


@sick("wrong_mode", margin=0.05)
def left_as_the_server_loads_it(watch: Watch, *, seed: int, sick: bool) -> float:
    """The function that loads a model for the server calls ``eval()``, and fine-tuning never calls ``train()``."""
    data = flat_numerals(seed)
    layers: list[nn.Module] = [nn.Linear(64, 40)]
    for _ in range(7):
        layers += [nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 40)]
    model = nn.Sequential(*layers, nn.BatchNorm1d(40), nn.ReLU(), nn.Linear(40, 10)).eval()
    if not sick:
        model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for step, (pixels, labels) in enumerate(data.batches(48, 150), 1):
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 50 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)
