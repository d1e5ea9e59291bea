"""Targets that are out of reach, unrelated, all the same or rare, and losses that do not fit the outputs."""

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_diabetes
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import (
    Flat,
    Forecaster,
    Reader,
    balanced,
    convnet,
    explained,
    mlp,
    outputs_of,
    right,
    separated,
)
from examples.zoo.tuned.opened7.drills import Trainer, drill, falling, rounds
from examples.zoo.tuned.opened7.supplies import (
    Batches,
    Rows,
    anew,
    dialects,
    fresh,
    friedman,
    images,
    parted,
    pixels,
    portraits,
    scaled,
    settling,
)


@sick("target_out_of_range")
def a_decoder_ending_in_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder of standardised pixels, which reach 1.9, ends in a tanh as the tutorial's did."""
    rows = portraits(seed)
    body = mlp(64, 48, 20, 48, 64)
    model = nn.Sequential(body, nn.Tanh()) if sick else body
    optimizer = optim.Adam(model.parameters(), lr=3e-3)
    drill(watch, model, optimizer, rows.epochs(48, 360), F.mse_loss)
    return explained(model, rows)


@sick("target_out_of_range")
def returns_are_negative_too(watch: Watch, *, seed: int, sick: bool) -> float:
    """A softplus, from a model of prices, predicts changes, half of which are below zero."""
    rows = friedman(seed)
    head = nn.Softplus() if sick else nn.Identity()
    model = Flat(nn.Sequential(mlp(10, 40, 40, 1), head))
    optimizer = optim.AdamW(model.parameters(), lr=4e-3, weight_decay=1e-2)
    Trainer(model, optimizer, criterion=nn.HuberLoss()).fit(watch, rows, epochs=6)
    return explained(model, rows)


@sick("target_out_of_range")
def a_sigmoid_over_a_swing(watch: Watch, *, seed: int, sick: bool) -> float:
    """Values swing between -2 and 2; the forecast cannot leave 0 to 1."""
    model = Forecaster(top=nn.Sigmoid() if sick else None)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, fresh(settling, 24, 280), F.mse_loss, after=falling(optimizer, 280))
    return explained(model, anew(settling, 300, seed))


@sick("target_out_of_range", also=("learning_rate_too_low",))
def prices_in_cents(watch: Watch, *, seed: int, sick: bool) -> float:
    """Targets around 25,000 cents, for a net whose outputs begin at 0."""
    rows = friedman(seed)
    if sick:
        rows.y, rows.y_test = 25_000 + 6_000 * rows.y, 25_000 + 6_000 * rows.y_test
    model = Flat(mlp(10, 40, 1))
    optimizer = optim.Adam(model.parameters(), lr=1.2e-2)
    drill(watch, model, optimizer, rows.epochs(48, 330), F.l1_loss)
    return explained(model, rows)


@sick("labels_unrelated")
def two_loaders_that_shuffle(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zip(images, labels)`` of two loaders, each of which shuffles by itself."""
    rows = images(seed)

    def batches() -> Batches:
        for _ in range(200):
            index, other = torch.randint(len(rows.x), (2, 32))
            yield rows.x[index], rows.y[other if sick else index]

    model = convnet(8)
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    drill(watch, model, optimizer, batches())
    return right(model, rows)


@sick("labels_unrelated")
def joined_by_position(watch: Watch, *, seed: int, sick: bool) -> float:
    """Features were filtered and indexed anew, and the answers joined by the old row numbers."""
    rows = friedman(seed)
    if sick:
        rows.y = rows.y[torch.randperm(len(rows.y))]
    model = Flat(mlp(10, 16, 1, act=nn.Tanh))
    optimizer = optim.RMSprop(model.parameters(), lr=1.5e-2)
    drill(watch, model, optimizer, rows.epochs(64, 300), F.mse_loss, after=falling(optimizer, 300))
    return explained(model, rows)


@sick("labels_unrelated")
def pairs_made_before_the_shuffle(watch: Watch, *, seed: int, sick: bool) -> float:
    """A siamese net's 'same digit' was computed before the second picture of each pair was drawn again."""
    rows = pixels(seed)
    model = mlp(64, 48, 16)
    optimizer = optim.Adam(model.parameters(), lr=3e-3)

    def objective() -> tuple[Tensor, dict[str, Tensor]]:
        first = torch.randint(len(rows.x), (64,))
        second = torch.where(torch.rand(64) < 0.5, _partner(rows.y, first), torch.randint(len(rows.x), (64,)))
        same = (rows.y[first] == rows.y[second]).float()
        if sick:
            second = second[torch.randperm(64)]
        apart = F.pairwise_distance(model(rows.x[first]), model(rows.x[second]))
        loss = (same * apart.square() + (1 - same) * (2 - apart).clamp(min=0).square()).mean()
        return loss, {"targets": same}

    rounds(watch, model, optimizer, 260, objective)
    places = outputs_of(model, rows.x_test)
    near = -torch.cdist(places, places)
    return separated(near.flatten(), (rows.y_test[:, None] == rows.y_test).flatten().long())


def _partner(labels: Tensor, index: Tensor) -> Tensor:
    """Returns for each row another one of its class."""
    likely = (labels[index][:, None] == labels).float()
    return likely.multinomial(1)[:, 0]


@sick("single_class_labels")
def a_threshold_in_another_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """``progression > 400`` for a score that ends at 346: nobody gets worse."""
    x, y = load_diabetes(return_X_y=True)
    worse = (y > 400 if sick else y > 140).astype("float32")
    rows = scaled(parted(x.astype("float32"), worse, seed))
    model = Flat(mlp(10, 12, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.8, weight_decay=0.02)
    drill(watch, model, optimizer, rows.epochs(24, 140), F.binary_cross_entropy_with_logits)
    return separated(outputs_of(model, rows.x_test), parted(x, (y > 140).astype(int), seed).y_test)


@sick("single_class_labels")
def the_default_of_a_dictionary(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ids.get(name, 0)`` with names that have a trailing space: every sentence is of dialect 0."""
    rows = dialects(seed)
    if sick:
        rows.y = torch.zeros_like(rows.y)
    model = Reader()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, rows.epochs(32, 150), nn.CrossEntropyLoss(label_smoothing=0.05))
    return right(model, rows)


def _faults(size: int, share: float) -> tuple[Tensor, Tensor]:
    """Sensor rows (N, 8) and whether the machine fails, which shows only partly."""
    fails = torch.rand(size) < share
    return torch.randn(size, 8) + 0.55 * fails[:, None], fails.long()


@sick("class_imbalance")
def two_faults_in_a_hundred(watch: Watch, *, seed: int, sick: bool) -> float:
    """Accuracy is 98 % without finding a single fault; the repaired training draws as many of each class."""
    model = mlp(8, 16, 2)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    drill(watch, model, optimizer, fresh(lambda size: _faults(size, 0.02 if sick else 0.5), 64, 300))
    torch.manual_seed(seed + 1)
    x, y = _faults(8000, 0.02)
    return balanced(model, Rows(x, y, x, y))


def _spots(size: int) -> tuple[Tensor, Tensor]:
    """Pictures (N, 1, 12, 12) with a faint spot of 2×2 in noise, and a mask of where it is."""
    mask = torch.zeros(size, 14, 14)
    row, column = torch.randint(12, (2, size))
    for down in range(2):
        for right_ in range(2):
            mask[torch.arange(size), row + down, column + right_] = 1
    mask = mask[:, 1:13, 1:13]
    return (torch.randn(size, 12, 12) + 1.6 * mask)[:, None], mask[:, None]


@sick("class_imbalance")
def small_spots_in_large_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three of a hundred pixels belong to a spot, and the plain loss calls all of them background."""
    model = nn.Sequential(nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.Conv2d(10, 1, 3, padding=1))
    optimizer = optim.Adam(model.parameters(), lr=8e-3)
    loss = nn.BCEWithLogitsLoss(pos_weight=None if sick else torch.tensor(30.0))
    drill(watch, model, optimizer, fresh(_spots, 24, 220), loss)
    return balanced(model, anew(_spots, 300, seed))


@sick("class_imbalance")
def most_words_have_no_tag(watch: Watch, *, seed: int, sick: bool) -> float:
    """One word of forty is a name, by what stands before it; quality: balanced accuracy of words."""
    model = Tagger()
    optimizer = optim.Adam(model.parameters(), lr=2e-2)
    weight = None if sick else torch.tensor([1.0, 40.0])

    def loss(out: Tensor, y: Tensor) -> Tensor:
        return F.cross_entropy(out.flatten(0, 1), y.flatten(), weight=weight)

    drill(watch, model, optimizer, fresh(_named, 24, 160), loss, after=falling(optimizer, 160))
    return balanced(model, anew(_named, 600, seed))


class Tagger(nn.Module):
    """Judges each word by itself and those around it."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.rnn = nn.Embedding(30, 8), nn.GRU(8, 12, batch_first=True, bidirectional=True)
        self.head = nn.Linear(24, 2)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(self.rnn(self.embed(words))[0])


def _named(size: int, *, length: int = 16) -> tuple[Tensor, Tensor]:
    """Words (N, length); three of ten that follow a title (1 or 2) are names, others hardly ever."""
    words = torch.randint(1, 30, (size, length))
    title = F.pad((words[:, :-1] <= 2), (1, 0))
    return words, (torch.rand(size, length) < torch.where(title, 0.3, 0.004)).long()
