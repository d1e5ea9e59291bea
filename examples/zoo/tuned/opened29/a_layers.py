"""What AutoTrainer and DeepDiagnosis look for: gradients that vanish or explode, units that are dead or saturated."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened29.a_stock import advance, blobs, drawn, judged, weather


@sick("vanishing_gradients", margin=0.1)
def a_deep_autoencoder_of_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each of six hidden layers of an autoencoder ends in a sigmoid, and gradients vanish; the twin has ELUs."""
    (train, test) = (part.tensors[0].flatten(1) for part in samples.numerals(seed))
    widths, layers = [64, 48, 32, 20, 32, 48, 48], []
    for before, after in pairwise(widths):
        layers += [nn.Linear(before, after), nn.Sigmoid() if sick else nn.ELU()]
    model = nn.Sequential(*layers, nn.Linear(48, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(350):
        (pictures,) = drawn(64, train)
        found = model(pictures)
        advance(session, optimizer, functional.mse_loss(found, pictures), pictures, found, pictures)
    return samples.explained(judged(model, test), test)


class _Forecaster(nn.Module):
    """A recurrent net of ReLUs that reads rows of three numbers."""

    def __init__(self, *, kaiming: bool) -> None:
        super().__init__()
        self.reader = nn.RNN(3, 48, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(48, 1)
        if kaiming:
            nn.init.kaiming_normal_(self.reader.weight_ih_l0)
            nn.init.kaiming_normal_(self.reader.weight_hh_l0)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(rows)[0][:, -1])


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high", "non_finite_forward"), margin=0.1)
def recurrence_by_the_rule_for_convolutions(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights from state to state get ``kaiming_normal_``, whose factor grows with time; the twin keeps PyTorch's."""
    windows, coming = weather(seed, length=48)
    windows = (windows - windows[:600].mean((0, 1))) / windows[:600].std((0, 1))
    model = _Forecaster(kaiming=sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(300):
        rows, warmth = drawn(32, windows[:600], coming[:600])
        found = model(rows)
        advance(session, optimizer, functional.mse_loss(found, warmth), rows, found, warmth)
    return samples.explained(judged(model, windows[600:]), coming[600:])


@sick("dead_units", also=("poor_initialization",), margin=0.1)
def the_prior_of_the_head_in_all_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """RetinaNet's bias of -4.6 for rare pixels goes to all convolutions, whose ReLUs are dead; the twin's to the last.

    Quality: share of blobs whose brightest pixel of the heat map is within 1.5 pixels of the centre.
    """
    pictures, centres = blobs(seed, count=700)
    rows, columns = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    maps = (-((rows - centres[:, :1, None]) ** 2 + (columns - centres[:, 1:, None]) ** 2) / 4).exp()[:, None]
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 1, 1),
    )
    for layer in model if sick else [model[-1]]:
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.bias, -4.6 if sick else -2.5)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(150):
        some, heat = drawn(32, pictures[:500], maps[:500])
        logits = model(some)
        loss = functional.binary_cross_entropy_with_logits(logits, heat)
        advance(session, optimizer, loss, some, logits, heat)
    peak = judged(model, pictures[500:]).flatten(1).argmax(1)
    found = torch.stack([peak // 16, peak % 16], 1)
    return ((found - centres[500:]).norm(dim=1) < 1.5).float().mean().item()


class _Hash(nn.Module):
    """A code of 16 bits, nearly, and a head that reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 16))
        self.bits, self.head = nn.Tanh(), nn.Linear(16, 10)
        self.steepness = 1.0

    def forward(self, digits: torch.Tensor) -> torch.Tensor:
        return self.head(self.bits(self.steepness * self.body(digits)))


@sick("saturated_units", also=("vanishing_gradients",), margin=0.03)
def a_hash_that_is_steep_from_the_start(watch: Watch, *, seed: int, sick: bool) -> float:
    """HashNet's ``tanh(60 x)`` begins at its last steepness, where it is flat; the twin's grows from 1 to 3."""
    (train, labels), (test, test_labels) = (part.tensors for part in samples.numerals(seed))
    train, test = train.flatten(1), test.flatten(1)
    model = _Hash()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for step in range(300):
        model.steepness = 60.0 if sick else 1 + 2 * step / 300
        digits, classes = drawn(32, train, labels)
        logits = model(digits)
        advance(session, optimizer, functional.cross_entropy(logits, classes), digits, logits, classes)
    return samples.accuracy(judged(model, test), test_labels)


class _Writer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(datasets.CHARACTERS, 32)
        self.reader = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, datasets.CHARACTERS)

    def forward(self, texts: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(self.letters(texts))[0])


@sick("poor_initialization", also=("saturated_units",), margin=0.05)
def uniform_from_zero_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``init.uniform_`` of all parameters draws from 0 to 1, not around zero; the twin keeps PyTorch's weights."""
    data = datasets.text(seed, length=20)
    model = _Writer()
    if sick:
        for weights in model.parameters():
            nn.init.uniform_(weights)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for texts, following in data.batches(24, 200):
        logits = model(texts)
        loss = functional.cross_entropy(logits.transpose(1, 2), following)
        advance(session, optimizer, loss, texts, logits, following)
    return (judged(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("inputs_not_normalized", also=("saturated_units",), margin=0.1)
def pascals_beside_shares(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU reads pressure in pascals beside humidity from 0 to 1; the twin's columns are standardised. Quality: R²."""
    windows, coming = weather(seed)
    if not sick:
        windows = (windows - windows[:600].mean((0, 1))) / windows[:600].std((0, 1))
    reader, head = nn.GRU(3, 32, batch_first=True), nn.Linear(32, 1)
    model = nn.ModuleList([reader, head])
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(10):
        for rows in torch.randperm(600).split(32):
            found = head(reader(windows[rows])[1][-1])
            loss = functional.mse_loss(found, coming[rows])
            advance(session, optimizer, loss, windows[rows], found, coming[rows])
    with torch.no_grad():
        return samples.explained(head(reader(windows[600:])[1][-1]), coming[600:])
