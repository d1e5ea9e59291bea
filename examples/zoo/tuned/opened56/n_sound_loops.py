"""Sound trainings that look odd: loops, stages and parts that wait."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened56.n_common import as_data, standard


class LowRank(nn.Module):
    """A frozen layer beside a product of two matrices, of which the second is 0 at first."""

    def __init__(self, layer: nn.Linear) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down, self.up = nn.Linear(layer.in_features, 6, bias=False), nn.Linear(6, layer.out_features, bias=False)
        nn.init.zeros_(self.up.weight)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns the frozen layer's outputs and the change."""
        return self.layer(inputs) + 2 * self.up(self.down(inputs))


@healthy(at_least=0.8)
def low_rank_change_for_mirrored_digits(watch: Watch, *, seed: int) -> float:
    """A classifier of digits is adapted to their negatives by LoRA, whose first factor has no gradient at first."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for pixels, labels in data.batches(64, 150):
        optimizer.zero_grad()
        functional.cross_entropy(model(pixels), labels).backward()
        optimizer.step()
    images = [values.unflatten(1, (8, 8)).flip(2).flatten(1) for values in (data.inputs, data.test_inputs)]
    turned = Data(images[0], data.targets, images[1], data.test_targets)
    model = nn.Sequential(*(LowRank(part) if isinstance(part, nn.Linear) else part for part in model))
    optimizer = torch.optim.AdamW([one for one in model.parameters() if one.requires_grad], lr=4e-3)
    fit(watch, model, optimizer, turned, steps=200, validate_every=50)
    return accuracy(model, turned)


@healthy(at_least=0.8)
def denoising_features_kept_for_numbers(watch: Watch, *, seed: int) -> float:
    """Features from an autoencoder stay frozen and in eval mode, and a head on them is trained."""
    data = datasets.digits(seed)
    body, back = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU()), nn.Linear(48, 64)
    optimizer = torch.optim.Adam([*body.parameters(), *back.parameters()], lr=3e-3)
    for pixels, _ in data.batches(64, 200):
        optimizer.zero_grad()
        functional.mse_loss(back(body(pixels + 0.2 * torch.randn_like(pixels))), pixels).backward()
        optimizer.step()
    body.requires_grad_(False).eval()
    model = nn.Sequential(body, nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model[1].parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@healthy(at_least=0.35)
def one_table_reads_and_writes_letters(watch: Watch, *, seed: int) -> float:
    """The matrix of the embedding is the head's as well."""
    data = datasets.text(seed, length=14, count=900)

    class Shared(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.cell = nn.Embedding(CHARACTERS, 48), nn.GRU(48, 48, batch_first=True)
            self.head = nn.Linear(48, CHARACTERS)
            nn.init.normal_(self.letters.weight, std=0.15)
            self.head.weight = self.letters.weight

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(self.letters(codes))[0])

    model = Shared()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.transpose(1, 2), targets)

    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=loss_function)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@healthy(at_least=0.85)
def eight_small_batches_for_a_step(watch: Watch, *, seed: int) -> float:
    """Losses of eight micro-batches are divided by eight, and the optimizer steps after the last of them."""
    data = as_data(samples.numerals(seed))
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for micro, (images, labels) in enumerate(data.batches(8, 8 * 80), 1):
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels) / 8
        loss.backward()
        if micro % 8 == 0:
            session.step(loss * 8, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@healthy(at_least=0.85)
def scale_halved_until_it_fits(watch: Watch, *, seed: int) -> float:
    """A scaler begins at 2 ** 24, and the first steps in half precision are skipped until its scale fits."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**24)
    session = watch(model, optimizer, scaler=scaler)
    for pixels, labels in data.batches(64, 150):
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(pixels)
        loss = functional.cross_entropy(outputs.float(), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


@healthy(at_least=0.6)
def rates_swept_then_best_one_kept(watch: Watch, *, seed: int) -> float:
    """A finder raises the rate until the loss doubles; then the first weights come back, with a tenth of that rate."""
    data = standard(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.3), nn.Linear(48, 6))
    first = {name: value.clone() for name, value in model.state_dict().items()}
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    session, best, steps = watch(model, optimizer), float("inf"), 0
    finding = True
    for rows, labels in data.batches(64, 260):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
        best, steps = min(best, loss.item()), steps + 1
        if finding and (loss.item() > 2 * best or steps == 80):
            rate = optimizer.param_groups[0]["lr"] / 10
            model.load_state_dict(first)
            optimizer.param_groups[0]["lr"], finding = min(rate, 0.3), False
        elif finding:
            optimizer.param_groups[0]["lr"] *= 1.2
    return accuracy(model, data)


@healthy(at_least=0.8)
def rate_rises_for_a_quarter_then_falls(watch: Watch, *, seed: int) -> float:
    """A linear warm-up over 40 steps and a cosine down to 0 at the last of 160, with attention over rows."""
    data = as_data(samples.numerals(seed))

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.places = nn.Linear(8, 32), nn.Parameter(0.1 * torch.randn(8, 32))
            self.norm, self.attention = nn.LayerNorm(32), nn.MultiheadAttention(32, 4, batch_first=True)
            self.head = nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 10))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            tokens = self.embed(images.flatten(0, 1)) + self.places
            normed = self.norm(tokens)
            return self.head((tokens + self.attention(normed, normed, normed, need_weights=False)[0]).flatten(1))

    model = Rows()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    rising = torch.optim.lr_scheduler.LinearLR(optimizer, 0.02, 1.0, 40)
    falling = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 120)
    scheduler = torch.optim.lr_scheduler.SequentialLR(optimizer, [rising, falling], [40])
    fit(watch, model, optimizer, data, steps=160, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)


@healthy(at_least=0.6)
def names_padded_and_averaged_over_letters(watch: Watch, *, seed: int) -> float:
    """Names are padded to 24 places with a letter whose embedding stays 0, and means are over the true letters."""
    data = as_data(samples.names(seed))

    class Averaged(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(40, 24, padding_idx=0)
            self.conv, self.head = nn.Conv1d(24, 48, 3, padding=1), nn.Linear(48, 8)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            there = (codes > 0).float()[:, None]
            features = self.conv(self.letters(codes).transpose(1, 2)).relu() * there
            return self.head(features.sum(2) / there.sum(2).clamp(min=1))

    model = Averaged()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for step, (codes, labels) in enumerate(data.batches(48, 200), 1):
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 50 == 0:
            session.validation(held_out_loss(model, data))
    return accuracy(model, data)
