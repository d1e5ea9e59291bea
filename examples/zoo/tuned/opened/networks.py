"""Networks of other kinds: graphs of pixels, codebooks, statistics of sequences, latent variables, students."""

import torch
from torch import nn
from torch.nn import functional as fun

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data


def _neighbours() -> torch.Tensor:
    """Returns the mean over a pixel's neighbours as a matrix (64, 64)."""
    row, column = torch.arange(64) // 8, torch.arange(64) % 8
    apart = (row[:, None] - row).abs() + (column[:, None] - column).abs()
    near = (apart == 1).float()
    return near / near.sum(1, keepdim=True)


class PixelGraph(nn.Module):
    """Messages go between neighbouring pixels twice; what the pixels know is added up in four quarters."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.register_buffer("mean", _neighbours())
        self.lift = nn.Linear(1, width)
        self.own = nn.ModuleList(nn.Linear(width, width) for _ in range(2))
        self.theirs = nn.ModuleList(nn.Linear(width, width, bias=False) for _ in range(2))
        self.out = nn.Linear(16 * width, 10)
        self.cut = False

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        nodes = fun.silu(self.lift(pixels[..., None]))
        for own, theirs in zip(self.own, self.theirs, strict=True):
            if self.cut:
                nodes = nodes.data
            nodes = fun.silu(own(nodes) + theirs(self.mean @ nodes))
        blocks = nodes.view(len(nodes), 4, 2, 4, 2, -1).mean((2, 4))
        return self.out(blocks.flatten(1))


def _classify(
    watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, data: Data, *, steps: int, size: int = 40
) -> float:
    session = watch(model, optimizer)
    for inputs, labels in data.batches(size, steps):
        model.zero_grad()
        logits = model(inputs)
        loss = fun.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=logits, targets=labels)
        optimizer.step()
    model.eval()
    with torch.no_grad():
        return (model(data.test_inputs).argmax(1) == data.test_targets).float().mean().item()


@sick("learning_rate_too_high")
def messages_with_adam_at_a_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """Messages between pixels, Adam at a rate of 0.5."""
    model = PixelGraph()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.5 if sick else 5e-3)
    return _classify(watch, model, optimizer, datasets.digits(seed), steps=90)


@sick("detached_parameters")
def messages_by_their_data(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nodes.data`` was a way to get rid of an error about an in-place change; it got rid of the gradient."""
    model = PixelGraph(3)
    model.cut = sick
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    return _classify(watch, model, optimizer, datasets.digits(seed), steps=150)


@sick("unbroken_symmetry", also=("poor_initialization",))
def one_row_for_all_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """A weight is made by ``expand`` from one row: all units of a layer are one unit, in three layers."""
    model = nn.Sequential(nn.Linear(64, 40), nn.Tanh(), nn.Linear(40, 40), nn.Tanh(), nn.Linear(40, 10))
    if sick:
        for layer in model[::2]:
            row = torch.randn(1, layer.in_features) * layer.in_features**-0.5
            layer.weight = nn.Parameter(row.expand(layer.out_features, -1).clone())
            layer.bias = nn.Parameter(torch.zeros(layer.out_features))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
    return _classify(watch, model, optimizer, datasets.digits(seed), steps=150)


@sick("learning_rate_too_low")
def rmsprop_at_a_millionth(watch: Watch, *, seed: int, sick: bool) -> float:
    """A one-dimensional CNN with RMSprop at 3e-6, by a closure."""
    model = nn.Sequential(
        nn.Unflatten(1, (8, 8)), nn.Conv1d(8, 24, 3, padding=1), nn.SiLU(), nn.Conv1d(24, 24, 3), nn.SiLU(),
        nn.Flatten(), nn.Linear(144, 10),
    )  # fmt: skip
    optimizer = torch.optim.RMSprop(model.parameters(), lr=3e-6 if sick else 1e-3)
    data = datasets.digits(seed)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(40, 150):

        def closure(inputs: torch.Tensor = inputs, labels: torch.Tensor = labels) -> torch.Tensor:
            optimizer.zero_grad()
            logits = model(inputs)
            loss = fun.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=labels)
            return loss

        optimizer.step(closure)
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs), data.test_targets)


class _Codebook(nn.Module):
    """An autoencoder whose codes are the nearest of 32 vectors; the gradient may go past the choice."""

    def __init__(self, *, straight: bool) -> None:
        super().__init__()
        self.straight = straight
        self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 4 * 6))
        self.book = nn.Parameter(torch.randn(32, 6) * 0.3)
        self.decoder = nn.Sequential(nn.Linear(24, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        code = self.encoder(pixels).view(-1, 4, 6)
        chosen = self.book[torch.cdist(code.detach(), self.book.detach()).argmin(-1)]
        commitment = (chosen - code.detach()).square().mean()
        if self.straight:
            commitment = commitment + 0.25 * (code - chosen.detach()).square().mean()
            chosen = code + (chosen - code).detach()
        return self.decoder(chosen.flatten(1)), commitment


@sick("detached_parameters", margin=0.05)
def a_codebook_without_a_way_past(watch: Watch, *, seed: int, sick: bool) -> float:
    """The nearest vector is picked by an index, through which no gradient reaches the encoder."""
    data = datasets.digits(seed)
    model = _Codebook(straight=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 250):
        painted, commitment = model(pixels)
        loss = fun.mse_loss(painted, pixels) + commitment
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=painted, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs)[0], data.test_inputs)


class _Bilinear(nn.Module):
    """Products of all pairs of features, averaged over the rows of a digit, and their roots with the sign kept."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self.least = least
        self.rows = nn.Sequential(nn.Conv1d(8, 12, 3, padding=1), nn.ReLU())
        self.out = nn.Linear(144, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        rows = self.rows(pixels.view(-1, 8, 8))
        pairs = torch.einsum("bit,bjt->bij", rows, rows) / 8
        roots = pairs.sign() * (pairs.abs() + self.least).sqrt()
        return self.out(fun.normalize(roots.flatten(1), dim=1))


@sick("non_finite_backward")
def signed_roots_of_products(watch: Watch, *, seed: int, sick: bool) -> float:
    """Bilinear pooling takes roots of products, and those with a silent feature are zero: infinity times zero."""
    model = _Bilinear(0.0 if sick else 1e-4)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    return _classify(watch, model, optimizer, datasets.digits(seed), steps=200)


@sick("non_finite_backward")
def the_angle_to_itself(watch: Watch, *, seed: int, sick: bool) -> float:
    """Angles between pairs are ``acos`` of cosines; the angle of a row to itself has an infinite slope."""
    data = datasets.iris(seed)
    model = nn.Sequential(nn.Linear(4, 24), nn.Tanh(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    limit = 1.0 if sick else 0.999
    for rows, labels in data.batches(28, 120):
        codes = fun.normalize(model(rows), dim=1)
        angles = (codes @ codes.T).clamp(-limit, limit).acos()
        same = labels[:, None] == labels
        loss = torch.where(same, angles, (1.5 - angles).relu()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=codes, targets=labels)
        optimizer.step()
    with torch.no_grad():
        known, asked = (fun.normalize(model(one), dim=1) for one in (data.inputs, data.test_inputs))
    return (data.targets[(asked @ known.T).argmax(1)] == data.test_targets).float().mean().item()


class _Unit(nn.Module):
    """Vectors divided by their length."""

    def __init__(self, least: float) -> None:
        super().__init__()
        self.least = least

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        return values / values.norm(dim=1, keepdim=True).clamp(min=self.least)


@sick("non_finite_forward")
def a_length_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hidden vectors are divided by their length, which is zero for a row that no ReLU answers."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 6), nn.ReLU(), _Unit(0.0 if sick else 1e-3), nn.Linear(6, 3))
    nn.init.constant_(model[0].bias, -0.3)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    return _classify(watch, model, optimizer, data, steps=120, size=24)


@sick("over_regularized")
def a_divergence_that_leaves_no_code(watch: Watch, *, seed: int, sick: bool) -> float:
    """A variational autoencoder whose divergence has a weight of 30: its codes say nothing, its output is one mean."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 48), nn.GELU(), nn.Linear(48, 20))
    decoder = nn.Sequential(nn.Linear(10, 48), nn.GELU(), nn.Linear(48, 64))
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    weight = 30.0 if sick else 0.05
    for pixels, _ in data.batches(64, 250):
        center, spread = encoder(pixels).chunk(2, 1)
        painted = decoder(center + spread.exp() * torch.randn_like(center))
        divergence = (0.5 * (center.square() + (2 * spread).exp() - 1) - spread).sum(1).mean()
        loss = (painted - pixels).square().sum(1).mean() + weight * divergence
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=painted, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(decoder(encoder(data.test_inputs)[:, :10]), data.test_inputs)


@sick("wrong_output_or_loss")
def a_divergence_of_two_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``kl_div`` wants the logarithm of what a student says, and gets its probabilities."""
    data = datasets.digits(seed)
    teacher = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    taught = torch.optim.Adam(teacher.parameters(), lr=5e-3)
    for pixels, labels in data.batches(64, 150):
        taught.zero_grad()
        fun.cross_entropy(teacher(pixels), labels).backward()
        taught.step()
    teacher.requires_grad_(False)
    student = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10))
    optimizer = torch.optim.SGD(student.parameters(), lr=0.2, momentum=0.5)
    session = watch(student, optimizer)
    say = fun.softmax if sick else fun.log_softmax
    for pixels, _ in data.batches(64, 200):
        wanted = teacher(pixels).softmax(1)
        said = say(student(pixels), dim=1)
        loss = fun.kl_div(said, wanted, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=said, targets=wanted)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(student(data.test_inputs), data.test_targets)
