"""Recommenders: rates, scales, symmetry, decay and towers of tables of vectors."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened27.a_stock import BOOKS, READERS, ratings


class Factors(nn.Module):
    """Ratings as the product of a reader's and a book's vector, and a bias of each."""

    def __init__(self, width: int, *, std: float = 0.1) -> None:
        super().__init__()
        self.readers, self.books = nn.Embedding(READERS, width), nn.Embedding(BOOKS, width)
        self.bias_of_reader, self.bias_of_book = nn.Embedding(READERS, 1), nn.Embedding(BOOKS, 1)
        for table in (self.readers, self.books):
            nn.init.normal_(table.weight, std=std)
        for table in (self.bias_of_reader, self.bias_of_book):
            nn.init.zeros_(table.weight)

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        who, what = pairs.unbind(1)
        product = (self.readers(who) * self.books(what)).sum(1)
        return product + self.bias_of_reader(who)[:, 0] + self.bias_of_book(what)[:, 0]


def _rate(
    watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, pair: samples.Pair, *, epochs: int = 5
) -> float:
    train, test = pair
    session = watch(model, optimizer)
    for _ in range(epochs):
        model.train()
        for pairs, stars in DataLoader(train, 256, shuffle=True):
            guessed = model(pairs)
            loss = functional.mse_loss(guessed, stars)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pairs, outputs=guessed, targets=stars)
            optimizer.step()
        model.eval()
        with torch.no_grad():
            session.validation(functional.mse_loss(model(test.tensors[0]), test.tensors[1]).item())
    with torch.no_grad():
        return samples.explained(model(test.tensors[0]), test.tensors[1])


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def ratings_by_plain_descent(watch: Watch, *, seed: int, sick: bool) -> float:
    """Matrix factorisation by SGD at its usual 0.01, of which a row has the 500th part; the twin takes Adam."""
    model = Factors(8)
    optimizer = torch.optim.SGD(model.parameters(), 0.01) if sick else torch.optim.Adam(model.parameters(), 0.01)
    return _rate(watch, model, optimizer, ratings(seed))


@sick("poor_initialization", also=("overfitting",), margin=0.1)
def vectors_of_deviation_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.Embedding`` draws 64 numbers of deviation 1, and their products are of 8; the twin draws them of 0.05."""
    model = Factors(64, std=1.0 if sick else 0.05)
    return _rate(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), ratings(seed), epochs=4)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.03)
def factors_begun_as_ones(watch: Watch, *, seed: int, sick: bool) -> float:
    """All numbers of all vectors begin at 0.3, and the eight factors stay copies; the twin draws them."""
    model = Factors(8)
    if sick:
        nn.init.constant_(model.readers.weight, 0.3)
        nn.init.constant_(model.books.weight, 0.3)
    return _rate(watch, model, torch.optim.Adam(model.parameters(), lr=0.01), ratings(seed))


@sick("over_regularized", margin=0.1)
def decay_of_every_vector(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam's ``weight_decay`` of 0.05 is added to gradients of 1e-4 of each row; the twin's is 1e-5."""
    model = Factors(8)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=0.05 if sick else 1e-5)
    return _rate(watch, model, optimizer, ratings(seed))


class Towers(nn.Module):
    """A tower of readers and one of books, whose ends are multiplied."""

    def __init__(self) -> None:
        super().__init__()
        self.reader = nn.Sequential(nn.Embedding(READERS, 16), nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 12))
        self.book = nn.Sequential(nn.Embedding(BOOKS, 16), nn.Linear(16, 24), nn.ReLU(), nn.Linear(24, 12))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return (self.reader(pairs[:, 0]) * self.book(pairs[:, 1])).sum(1)


@sick("parameters_not_in_optimizer", margin=0.1)
def only_the_tower_of_readers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer is made of the readers' tower, and the books' is forgotten; the twin's is made of both."""
    model = Towers()
    trained = list(model.reader.parameters()) if sick else list(model.parameters())
    return _rate(watch, model, torch.optim.Adam(trained, lr=0.01), ratings(seed))


class NextItem(nn.Module):
    """GRU4Rec: what comes next in a session, from all items before."""

    def __init__(self, *, softmax: bool) -> None:
        super().__init__()
        self.items = nn.Embedding(datasets.CHARACTERS, 32)
        self.past = nn.GRU(32, 64, batch_first=True)
        self.scores = nn.Linear(64, datasets.CHARACTERS)
        self.softmax = softmax

    def forward(self, sessions: torch.Tensor) -> torch.Tensor:
        scores = self.scores(self.past(self.items(sessions))[0])
        return scores.softmax(-1) if self.softmax else scores


@sick("wrong_output_or_loss", margin=0.05)
def shares_of_the_next_item(watch: Watch, *, seed: int, sick: bool) -> float:
    """A model of sessions ends in a softmax, and ``CrossEntropyLoss`` takes another; the twin's gives scores."""
    data = datasets.text(seed, length=16)
    model = NextItem(softmax=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    criterion = nn.CrossEntropyLoss()
    session = watch(model, optimizer)
    for clicks, following in data.batches(48, 180):
        scores = model(clicks)
        loss = criterion(scores.transpose(1, 2), following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=clicks, outputs=scores, targets=following)
        optimizer.step()
    with torch.no_grad():
        return (model(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


class Bag(nn.Module):
    """A mean of letters' vectors, and a layer of classes."""

    def __init__(self, vectors: nn.Embedding) -> None:
        super().__init__()
        self.vectors = vectors
        self.head = nn.Sequential(nn.Linear(vectors.embedding_dim, 32), nn.ReLU(), nn.Linear(32, len(samples.SCRIPTS)))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.vectors(codes).mean(1))


@sick("frozen_parameters", margin=0.03)
def from_pretrained_without_any_training(watch: Watch, *, seed: int, sick: bool) -> float:
    """A table of small random vectors is put in by ``from_pretrained``, which freezes it; the twin's does not."""
    train, test = samples.names(seed)
    model = Bag(nn.Embedding.from_pretrained(0.3 * torch.randn(samples.LETTERS, 6), freeze=sick))
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=0.01)
    session = watch(model, optimizer)
    for _ in range(20):
        for codes, labels in DataLoader(train, 48, shuffle=True):
            logits = model(codes)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])
