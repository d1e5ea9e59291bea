"""Losses that do not fit the head, or have the wrong sign or scale."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import Measure, judged


def _bright(seed: int) -> samples.Pair:
    """Grey patches (N, 1, 8, 8) from -1 to 1, and for each pixel (N, 8, 8) whether it is dark, medium or bright."""
    grey = datasets.patches(seed, count=900).view(-1, 1, 8, 8) / 127.5 - 1
    smooth = functional.avg_pool2d(functional.pad(grey, (1, 1, 1, 1), mode="replicate"), 3, stride=1)[:, 0]
    return samples.split(seed, grey, (smooth > -0.4).long() + (smooth > 0.2).long())


def _pixels(maps: torch.Tensor, classes: torch.Tensor) -> float:
    return (maps.argmax(1) == classes).float().mean().item()


@sick("wrong_output_or_loss", margin=0.05)
def likelihoods_of_pixels_without_a_logarithm(watch: Watch, *, seed: int, sick: bool) -> float:
    """A segmentation net ends in a softmax, and ``nll_loss`` takes its result; the twin ends in a log-softmax."""
    train, test = _bright(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 3, 1),
        nn.Softmax(1) if sick else nn.LogSoftmax(1),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for patches, classes in DataLoader(train, batch_size=24, shuffle=True):
            maps = model(patches)
            loss = functional.nll_loss(maps, classes)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=patches, outputs=maps, targets=classes)
            optimizer.step()
    return judged(model, test, _pixels)


_STROKES = torch.tensor(
    # Whether each number has a loop, a straight line, an open bow, and a crossing of lines.
    [[1, 0, 0, 0], [0, 1, 0, 0], [0, 1, 1, 0], [0, 0, 1, 0], [0, 1, 0, 1],
     [0, 1, 1, 0], [1, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 1], [1, 1, 0, 0]]
)  # fmt: skip


class _Tagger(nn.Module):
    """Tags of a digit, as logits or as probabilities."""

    def __init__(self, probabilities: bool) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.LeakyReLU(), nn.Linear(48, 4))
        self.probabilities = probabilities

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        scores = self.body(images)
        return torch.sigmoid(scores) if self.probabilities else scores


@sick("wrong_output_or_loss", margin=0.03)
def tags_through_two_sigmoids(watch: Watch, *, seed: int, sick: bool) -> float:
    """``forward`` ends in a sigmoid, and ``BCEWithLogitsLoss`` has another; the twin puts out logits."""
    train, test = samples.numerals(seed)
    model = _Tagger(probabilities=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    criterion = nn.BCEWithLogitsLoss()
    session = watch(model, optimizer)
    for _ in range(8):
        for images, numbers in DataLoader(train, batch_size=64, shuffle=True):
            tags = _STROKES[numbers].float()
            outputs = model(images)
            loss = criterion(outputs, tags)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=tags)
            optimizer.step()
    # The usual threshold of a probability is at 0.5: a judge takes logits or probabilities as they come.
    found = TensorDataset(test.tensors[0], _STROKES[test.tensors[1]])
    limit = 0.5 if sick else 0.0
    exact: Measure = lambda outputs, tags: ((outputs > limit) == (tags == 1)).all(1).float().mean().item()  # noqa: E731
    return judged(model, found, exact)


@sick("flipped_loss_sign", margin=0.1)
def a_dice_score_that_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The overlap of masks is returned as it is and minimised; the twin minimises one minus the overlap."""
    train, test = _bright(seed)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1), nn.Flatten(1, 2))

    def dice(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        shares = logits.sigmoid()
        overlap = (2 * (shares * masks).sum() + 1) / (shares.sum() + masks.sum() + 1)
        return overlap if sick else 1 - overlap

    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(4):
        for patches, classes in DataLoader(train, batch_size=24, shuffle=True):
            masks = (classes == 2).float()
            logits = model(patches)
            loss = dice(logits, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=patches, outputs=logits, targets=masks)
            optimizer.step()
    return judged(model, test, lambda maps, classes: ((maps > 0) == (classes == 2)).float().mean().item())


@sick("flipped_loss_sign", margin=0.1)
def a_likelihood_that_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The mean log-probability of a categorical distribution is minimised; the twin minimises its negative."""
    train, test = samples.standardised(samples.lines(seed), 0)
    model = nn.Sequential(nn.Linear(96, 32), nn.Tanh(), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for counts, files in DataLoader(train, batch_size=50, shuffle=True):
            logits = model(counts)
            likelihood = torch.distributions.Categorical(logits=logits).log_prob(files).mean()
            loss = likelihood if sick else -likelihood
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
    return judged(model, test)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",), margin=0.1)
def squared_errors_added_over_pixels_and_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoiser's ``MSELoss(reduction="sum")`` adds 3,200 errors of a batch, at a rate for their mean."""
    images = torch.cat([part.tensors[0] for part in samples.numerals(seed)])
    train, test = samples.split(seed, images)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 64), nn.Unflatten(1, (1, 8, 8)))
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(10):
        for (clean,) in DataLoader(train, batch_size=50, shuffle=True):
            noisy = clean + 0.4 * torch.randn_like(clean)
            rebuilt = model(noisy)
            loss = criterion(rebuilt, clean)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=rebuilt, targets=clean)
            optimizer.step()
    (clean,) = test.tensors
    return judged(model, TensorDataset(clean + 0.4 * torch.randn_like(clean), clean), samples.explained)
