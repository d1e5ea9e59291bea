"""Digits and photographs in small convolutional nets."""

import torch
from sklearn import datasets as sets
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened21.a_stock import balanced, photograph


class _Frames(nn.Module):
    """A convolution sees each strip of a digit, and a recurrent net the strips from top to bottom."""

    def __init__(self, mixed: bool) -> None:
        super().__init__()
        self.mixed = mixed
        self.cnn = nn.Sequential(nn.Conv2d(1, 12, (2, 3), padding=(0, 1)), nn.ReLU(), nn.Flatten())
        self.lstm, self.head = nn.LSTM(96, 48, batch_first=True), nn.Linear(48, 10)

    def forward(self, clips: torch.Tensor) -> torch.Tensor:
        batch, time = clips.shape[:2]
        features = self.cnn(clips.flatten(0, 1))
        if self.mixed:
            features = features.view(time, batch, -1)
            return self.head(self.lstm(features.transpose(0, 1))[0][:, -1])
        features = features.view(batch, time, -1)
        return self.head(self.lstm(features)[0][:, -1])


@sick("batch_mixing", margin=0.2)
def frames_of_a_clip_viewed_time_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """Features (batch * time) are viewed as (time, batch), which puts clips into one another; the twin's are not."""
    train, test = samples.numerals(seed)
    model = _Frames(mixed=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 32, shuffle=True, drop_last=True):
            clips = images.view(-1, 4, 1, 2, 8)
            outputs = model(clips)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=clips, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0].view(-1, 4, 1, 2, 8)), test.tensors[1])


@sick("learning_rate_too_high", margin=0.1)
def one_cycle_up_to_the_rate_of_a_paper(watch: Watch, *, seed: int, sick: bool) -> float:
    """The peak of super-convergence, 1, belongs to SGD and batch norm, and here is AdamW; the twin's is 0.01."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(128, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters())
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=1.0 if sick else 0.01, total_steps=170)
    fit(watch, model, optimizer, data, steps=168, batch_size=48, scheduler=schedule)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.3)
def folders_read_one_level_too_high(watch: Watch, *, seed: int, sick: bool) -> float:
    """Classes are the folders of ``data``, of which there is only ``train``; the twin reads those of ``data/train``."""
    data = datasets.digits(seed, images=True)
    paths = [f"data/train/{label}/{number:04}.png" for number, label in enumerate(data.targets.tolist())]
    folders = [path.split("/")[1 if sick else 2] for path in paths]
    classes = sorted(set(folders))
    labels = torch.tensor([classes.index(folder) for folder in folders])
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, datasets.Data(data.inputs, labels, data.test_inputs, data.test_targets), steps=120)
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.3)
def labels_by_the_place_in_a_subset(watch: Watch, *, seed: int, sick: bool) -> float:
    """Of a random split, labels are looked up by the place in the subset; the twin takes the index in the whole set."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    chosen = torch.randperm(len(images))[: len(images) * 9 // 10]
    rows = TensorDataset(images[chosen], labels[torch.arange(len(chosen)) if sick else chosen])
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(256, 32), nn.ReLU()
    )
    model.append(nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for inputs, targets in DataLoader(rows, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("class_imbalance", margin=0.1)
def contours_are_a_few_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """One pixel in thirty lies on a contour, and the net finds hardly any; the twin weighs these by thirty."""
    picture = torch.from_numpy(photograph()).float()
    steps = (picture[1:, 1:] - picture[:-1, :-1]).abs()
    marks = (steps > steps.quantile(0.967)).float()
    corners = torch.randint(400, (500, 2)).tolist()
    tiles = torch.stack([picture[r : r + 12, c : c + 12] for r, c in corners])[:, None]
    tiles = (tiles - picture.mean()) / picture.std() + 0.4 * torch.randn_like(tiles)
    train, test = samples.split(seed, tiles, torch.stack([marks[r : r + 12, c : c + 12] for r, c in corners])[:, None])
    model = nn.Sequential(nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    criterion = nn.BCEWithLogitsLoss(pos_weight=None if sick else torch.tensor(30.0))
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, targets in DataLoader(train, 25, shuffle=True):
            outputs = model(inputs)
            loss = criterion(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        return balanced(model(test.tensors[0]), test.tensors[1])


BARS = "1110111 0010010 1011101 1011011 0111010 1101011 1101111 1010010 1111111 1111011"
SEGMENTS = torch.tensor([[int(bit) for bit in row] for row in BARS.split()]).float()
"""Which of seven bars a display lights for each digit."""


@sick("loss_sum_not_mean", also=("learning_rate_too_high",), margin=0.03)
def a_focal_loss_summed_over_all_bars(watch: Watch, *, seed: int, sick: bool) -> float:
    """A focal loss comes as a sum, as detectors want it before they divide; the twin takes its mean."""
    pixels, labels = sets.load_digits(return_X_y=True)
    train, test = samples.split(seed, torch.from_numpy(pixels).float() / 16, SEGMENTS[torch.from_numpy(labels)])
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 7))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for inputs, bars in DataLoader(train, 64, shuffle=True):
            outputs = model(inputs)
            entropy = functional.binary_cross_entropy_with_logits(outputs, bars, reduction="none")
            focal = (1 - torch.exp(-entropy)) ** 2 * entropy
            loss = focal.sum() if sick else focal.mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=bars)
            optimizer.step()
    with torch.no_grad():
        return balanced(model(test.tensors[0]), test.tensors[1])
