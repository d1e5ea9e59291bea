"""Deep and hand-made nets on pictures and texts, whose signals or numbers go wrong on their way."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick


def _right(model: nn.Module, inputs: torch.Tensor, labels: torch.Tensor) -> float:
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(inputs), labels)


class _Deep(nn.Module):
    """Fourteen layers of tanh, each of which may be added to what it takes."""

    def __init__(self, *, added: bool) -> None:
        super().__init__()
        self.first, self.head = nn.Linear(96, 32), nn.Linear(32, 6)
        self.layers = nn.ModuleList([nn.Linear(32, 32) for _ in range(14)])
        self.added = added

    def forward(self, counts: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.first(counts))
        for layer in self.layers:
            new = torch.tanh(layer(hidden))
            hidden = hidden + 0.3 * new if self.added else new
        return self.head(hidden)


@sick("vanishing_gradients", also=("poor_initialization",), margin=0.1)
def fourteen_layers_of_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """Fourteen layers of tanh from their default weights, under SGD; the twin adds each layer to what it takes."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = _Deep(added=not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for counts, files in DataLoader(train, 32, shuffle=True):
            logits = model(counts)
            loss = functional.cross_entropy(logits, files)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
    return _right(model, *test.tensors)


@sick("dead_units", also=("poor_initialization", "vanishing_gradients"), margin=0.2)
def weights_drawn_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """``bound * (rand - 1)`` draws no weight above zero, and pixels are none below; the twin has ``2 * rand - 1``."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32))
    with torch.no_grad():
        for layer in model[::2]:
            bound, drawn = (3 / layer.in_features) ** 0.5, torch.rand_like(layer.weight)
            layer.weight.copy_(bound * (drawn - 1 if sick else 2 * drawn - 1))
            layer.bias.zero_()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for upper, lower in DataLoader(train, 40, shuffle=True):
            outputs = model(upper)
            loss = functional.mse_loss(outputs, lower)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


class _Residual(nn.Module):
    """Residual blocks of convolutions without a norm, which double the variance unless their ends begin small."""

    def __init__(self, *, small: bool, blocks: int = 9) -> None:
        super().__init__()
        self.stem, self.head = nn.Conv2d(1, 12, 3, stride=2, padding=1), nn.Linear(12 * 16, 10)
        self.blocks = nn.ModuleList(
            [
                nn.Sequential(nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1))
                for _ in range(blocks)
            ]
        )
        for block in self.blocks:
            nn.init.kaiming_normal_(block[0].weight, nonlinearity="relu")
            nn.init.kaiming_normal_(block[2].weight, nonlinearity="relu")
            if small:
                nn.init.zeros_(block[2].weight)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        hidden = self.stem(images)
        for block in self.blocks:
            hidden = hidden + block(hidden)
        return self.head(hidden.flatten(1))


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"), margin=0.1)
def nine_blocks_without_a_norm(watch: Watch, *, seed: int, sick: bool) -> float:
    """Norms were taken out of nine residual blocks, and gradients are huge; the twin begins each block at zero."""
    train, test = samples.numerals(seed)
    model = _Residual(small=not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(3):
        for images, labels in DataLoader(train, 40, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, *test.tensors)


class _Normed(nn.Module):
    """Reads a name by the largest of its letters' features, which are normalised by hand."""

    def __init__(self, *, safe: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
        self.pairs = nn.Conv1d(32, 48, 3, padding=1, bias=False)
        self.head = nn.Linear(48, len(samples.SCRIPTS))
        self.safe = safe

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        hidden = self.pairs(self.embedding(names).transpose(1, 2)).transpose(1, 2)
        squares = hidden.square().mean(2, keepdim=True)
        normed = hidden * torch.rsqrt(squares + 1e-6) if self.safe else hidden / (squares.sqrt() + 1e-6)
        return self.head(torch.relu(normed).amax(1))


@sick("non_finite_backward", margin=0.2)
def a_root_of_padding(watch: Watch, *, seed: int, sick: bool) -> float:
    """Padding has features of zero, and the root of their squares no slope: NaN; the twin adds a little below it."""
    train, test = samples.names(seed, length=28)
    model = _Normed(safe=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        for names, scripts in DataLoader(train, 32, shuffle=True):
            logits = model(names)
            loss = functional.cross_entropy(logits, scripts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=scripts)
            optimizer.step()
    return _right(model, *test.tensors)


@sick("fp16_underflow", margin=0.1)
def averaged_twice_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """A mean over pixels is divided by 40 rows and 500 again, in float16 and without a scaler; the twin scales it."""
    train, test = samples.halves(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for _ in range(7):
        for upper, lower in DataLoader(train, 40, shuffle=True):
            with torch.autocast("cpu", torch.float16):
                outputs = model(upper)
                loss = functional.mse_loss(outputs, lower) / len(upper) / 500
            optimizer.zero_grad()
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            session.step(loss, inputs=upper, outputs=outputs, targets=lower)
            scaler.step(optimizer)
            scaler.update()
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])
