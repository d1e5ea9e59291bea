"""Questions of StackOverflow that DeepFD and DeepLocalize collected: constant losses, NaN, and outputs out of range."""

import unicodedata

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened29.a_stock import advance, blobs, drawn, judged


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.05)
def factors_that_are_all_one_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """All eight factors of users and items begin at 0.3, and stay one factor; the twin's are drawn. Quality: R²."""
    values = datasets.digits(seed).inputs[:400]
    values = (values - values.mean(0)) / values.std()
    users, items = torch.meshgrid(torch.arange(400), torch.arange(64), indexing="ij")
    table = torch.stack([users.flatten(), items.flatten()], 1)
    (pairs, ratings), (test, test_ratings) = (
        part.tensors for part in samples.split(seed, table, values.flatten(), share=0.85)
    )
    model = nn.ModuleDict({"users": nn.Embedding(400, 8), "products": nn.Embedding(64, 8)})
    for factors in model.values():
        if sick:
            nn.init.constant_(factors.weight, 0.3)
        else:
            nn.init.normal_(factors.weight, std=0.3)

    def rated(some: torch.Tensor) -> torch.Tensor:
        return (model["users"](some[:, 0]) * model["products"](some[:, 1])).sum(1)

    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    session = watch(model, optimizer)
    for _ in range(4):
        for rows in torch.randperm(len(pairs)).split(256):
            found = rated(pairs[rows])
            advance(session, optimizer, functional.mse_loss(found, ratings[rows]), pairs[rows], found, ratings[rows])
    with torch.no_grad():
        return samples.explained(rated(test), test_ratings)


SCRIPTS = ("GREEK", "ARABIC", "DEVANAGARI", "ETHIOPIC", "TIBETAN", "GEORGIAN")


def _names() -> tuple[list[str], list[int]]:
    found, labels = [], []
    for label, script in enumerate(SCRIPTS):
        named = (unicodedata.name(chr(code), "") for code in range(0x3000))
        own = [name.removeprefix(f"{script} ").split()[-1] for name in named if name.startswith(f"{script} ")]
        own = [name for name in own if len(name) >= 3 and name.isalpha()][:60]
        found += own
        labels += [label] * len(own)
    return found, labels


@sick("inputs_constant", margin=0.1)
def every_letter_is_unknown(watch: Watch, *, seed: int, sick: bool) -> float:
    """The vocabulary has capitals, and names are put into lower case: all is ``<unk>``; the twin leaves them.

    Quality: accuracy of whether a vowel follows two letters.
    """
    words, _ = _names()
    vocabulary = {letter: 1 + index for index, letter in enumerate("ABCDEFGHIJKLMNOPQRSTUVWXYZ")}

    def coded(word: str) -> list[int]:
        return [vocabulary.get(letter, 0) for letter in (word.lower() if sick else word)]

    rows, vowels = [], []
    for word in words:
        for start in range(len(word) - 2):
            rows.append(coded(word[start : start + 2]))
            vowels.append(int(word[start + 2] in "AEIOU"))
    train, test = samples.split(seed, torch.tensor(rows), torch.tensor(vowels))
    model = nn.Sequential(nn.Embedding(27, 12), nn.Flatten(), nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for codes, labels in DataLoader(train, 32, shuffle=True):
            logits = model(codes)
            advance(session, optimizer, functional.cross_entropy(logits, labels), codes, logits, labels)
    return samples.accuracy(judged(model, test.tensors[0]), test.tensors[1])


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.2)
def a_logarithm_of_days_without_sales(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sales of past days go through a logarithm, and some were zero; the twin takes ``log1p``. Quality: R²."""
    random = np.random.default_rng(seed)
    level = random.gamma(6.0, 2.0, (800, 1))
    days = np.arange(15) + random.integers(7, size=(800, 1))
    sales = torch.from_numpy(random.poisson(level * (1 + 0.5 * np.sin(days * 2 * np.pi / 7)))).float()
    past = sales.log() if sick else sales.log1p()
    past, coming = past[:, :14], sales[:, 14:].log1p()
    past, coming = past - 2.2, coming - 2.2
    (past, coming), (test, truth) = (part.tensors for part in samples.split(seed, past, coming))
    model = nn.Sequential(nn.Unflatten(1, (1, 14)), nn.Conv1d(1, 16, 7), nn.ReLU(), nn.Flatten(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(15):
        for some, truths in DataLoader(TensorDataset(past, coming), 32, shuffle=True):
            found = model(some)
            advance(session, optimizer, functional.huber_loss(found, truths), some, found, truths)
    return samples.explained(judged(model, test), truth)


@sick("target_out_of_range", also=("saturated_units",), margin=0.2)
def key_points_in_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net that ends in a sigmoid is to put out pixels from 2 to 14; the twin divides them by 16. Quality: R²."""
    pictures, centres = blobs(seed, count=800)
    if not sick:
        centres = centres / 16
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(12, 16, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(256, 2),
        nn.Sigmoid(),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(250):
        some, points = drawn(32, pictures[:600], centres[:600])
        found = model(some)
        advance(session, optimizer, functional.mse_loss(found, points), some, found, points)
    return samples.explained(judged(model, pictures[600:]), centres[600:])


@sick("wrong_output_or_loss", also=("no_update", "vanishing_gradients"), margin=0.2)
def cross_entropy_of_one_channel(watch: Watch, *, seed: int, sick: bool) -> float:
    """``CrossEntropyLoss`` of one channel is 0 whatever it is; the twin's is ``BCEWithLogitsLoss``.

    Quality: the masks' overlap with the bright halves of the blobs.
    """
    pictures, centres = blobs(seed, count=600)
    rows, columns = torch.meshgrid(torch.arange(16), torch.arange(16), indexing="ij")
    masks = (rows - centres[:, :1, None]) ** 2 + (columns - centres[:, 1:, None]) ** 2 < 7
    masks = masks.float()[:, None]
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 12, 3, padding=1),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.Conv2d(12, 1, 1),
    )
    criterion = nn.CrossEntropyLoss() if sick else nn.BCEWithLogitsLoss()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(120):
        some, truth = drawn(24, pictures[:450], masks[:450])
        logits = model(some)
        advance(session, optimizer, criterion(logits, truth), some, logits, truth)
    found, truth = judged(model, pictures[450:]) > 0, masks[450:] > 0
    return ((found & truth).sum() / (found | truth).sum().clamp(min=1)).item()
