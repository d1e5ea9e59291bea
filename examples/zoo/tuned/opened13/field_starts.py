"""Nets that start badly: with weights of a wrong scale, or with equal units."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, rods


@sick("poor_initialization", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def every_weight_from_the_standard_normal(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.apply`` draws a convolutional net's weights from N(0, 1); the twin's have Kaiming's scale."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 32, 3, stride=2, padding=1), nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 64), nn.ReLU(),
        nn.Linear(64, 10),
    )  # fmt: skip

    def weights_init(module: nn.Module) -> None:
        if isinstance(module, nn.Conv2d | nn.Linear):
            if sick:
                nn.init.normal_(module.weight)
            else:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu")
            nn.init.zeros_(module.bias)  # type: ignore[arg-type]

    model.apply(weights_init)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
    return judged(model, test)


class _Mixer(nn.Module):
    """A mixer over the rows of a digit: one net for places, one for channels, added to the stream."""

    def __init__(self, tiny: bool, width: int = 32, depth: int = 3) -> None:
        super().__init__()
        self.stem = nn.Linear(8, width)
        self.places = nn.ModuleList(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8)) for _ in range(depth))
        self.channels = nn.ModuleList(nn.Sequential(nn.Linear(width, 64), nn.Tanh()) for _ in range(depth))
        self.back = nn.ModuleList(nn.Linear(64, width) for _ in range(depth))
        self.head = nn.Linear(width, 10)
        if tiny:
            for parameter in self.parameters():
                nn.init.normal_(parameter, std=1e-3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        stream = self.stem(images.squeeze(1))
        for places, channels, back in zip(self.places, self.channels, self.back, strict=True):
            stream = stream + places(stream.transpose(1, 2)).transpose(1, 2)
            stream = back(channels(stream))
        return self.head(stream.mean(1))


@sick("poor_initialization", also=("vanishing_gradients",), margin=0.1)
def a_mixer_that_starts_at_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """All parameters have a deviation of 0.001, so that hardly anything gets through; the twin keeps torch's."""
    train, test = samples.numerals(seed)
    model = _Mixer(sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(13):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return judged(model, test)


@sick("unbroken_symmetry", margin=0.1)
def constant_weights_for_reproducible_results(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights are 0.05, for reproducible runs; the twin draws them from a generator with a fixed seed."""
    train, test = rods(seed)
    model = nn.Sequential(nn.Linear(16, 48), nn.Softplus(), nn.Linear(48, 48), nn.Softplus(), nn.Linear(48, 16))
    generator = torch.Generator().manual_seed(42)
    with torch.no_grad():
        for layer in model:
            if isinstance(layer, nn.Linear):
                layer.bias.zero_()
                if sick:
                    layer.weight.fill_(0.05)
                else:
                    nn.init.xavier_uniform_(layer.weight, generator=generator)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for before, after in DataLoader(train, batch_size=42, shuffle=True):
            outputs = model(before)
            loss = (outputs - after).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=before, outputs=outputs, targets=after)
            optimizer.step()
    return judged(model, test, samples.explained)


class _Experts(nn.Module):
    """Filters of one pixel-wise convolution in parallel, pooled; the filters may start as copies of the first."""

    def __init__(self, copied: bool) -> None:
        super().__init__()
        self.filters = nn.Conv2d(1, 16, 5, padding=2)
        self.head = nn.Sequential(nn.MaxPool2d(4), nn.Flatten(), nn.Linear(64, 10))
        if copied:
            with torch.no_grad():
                self.filters.weight.copy_(self.filters.weight[:1].expand_as(self.filters.weight))
                self.filters.get_parameter("bias").zero_()
                self.head.get_parameter("2.weight").fill_(0.02)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(functional.relu(self.filters(images)))


@sick("unbroken_symmetry", margin=0.1)
def sixteen_copies_of_one_filter(watch: Watch, *, seed: int, sick: bool) -> float:
    """All sixteen filters start as the first one, with equal weights in the head; the twin draws each of them."""
    train, test = samples.numerals(seed)
    model = _Experts(copied=sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            scores = model(images)
            loss = functional.cross_entropy(scores, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=scores, targets=labels)
            optimizer.step()
    return judged(model, test)
