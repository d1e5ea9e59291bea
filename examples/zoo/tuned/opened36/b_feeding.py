"""How samples are drawn, weighed and labelled."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, diabetes, digits
from examples.zoo.loops import accuracy, binary_accuracy, fit, held_out_loss
from examples.zoo.tuned.opened36.b_ends import looker
from examples.zoo.tuned.opened36.b_stock import colours, crops, explained, found, parted, shelves, tags, turned


@sick("duplicated_data", margin=0.1)
def a_sampler_with_a_weight_for_each_class(watch: Watch, *, seed: int, sick: bool) -> float:
    """``WeightedRandomSampler`` gets six classes' weights, so draws six rows; the twin gives each row's."""
    data = shelves(seed)
    shares = 1 / data.targets.bincount().float()
    weights = shares if sick else shares[data.targets]
    sampler = WeightedRandomSampler(weights, 32 * 18)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=32, sampler=sampler)
    model = nn.Sequential(nn.Linear(256, 64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    for _ in range(8):
        for rows, files in loader:
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, files)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=files)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("unshuffled_data", margin=0.05)
def a_split_that_joins_classes(watch: Watch, *, seed: int, sick: bool) -> float:
    """A stratified split joins its classes one behind the other, and the loader keeps that; the twin's shuffles."""
    data = digits(seed, images=True)
    order = torch.cat([(data.targets == one).nonzero()[:, 0] for one in range(10)])
    rows = TensorDataset((data.inputs[order] - 0.3) / 0.37, data.targets[order])
    model = looker(10, area=16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    judged = Data(data.inputs, data.targets, (data.test_inputs - 0.3) / 0.37, data.test_targets)
    for _ in range(5):
        for pictures, labels in DataLoader(rows, batch_size=32, shuffle=not sick):
            optimizer.zero_grad()
            outputs = model(pictures)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, judged))
    return accuracy(model, judged)


@sick("class_imbalance", margin=0.05)
def numbers_among_garbled_characters(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two of 100 characters are of numbers, and a third are garbled, so few are found; the twin weighs these by 25."""
    data = tags(seed, length=16, count=1600)
    random = torch.Generator().manual_seed(seed)
    garbled = [
        torch.where(
            torch.rand(rows.shape, generator=random) < 0.3, rows[torch.randperm(len(rows), generator=random)], rows
        )
        for rows in (data.inputs, data.test_inputs)
    ]
    noisy = Data(garbled[0], (data.targets == 4).long(), garbled[1], (data.test_targets == 4).long())
    model = nn.Sequential(nn.Embedding(128, 16), _Around(16, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    weight = torch.tensor([1.0, 1.0 if sick else 25.0])
    session = watch(model, optimizer)
    for characters, numbers in noisy.batches(64, 320):
        optimizer.zero_grad()
        outputs = model(characters)
        loss = functional.cross_entropy(outputs.flatten(0, 1), numbers.flatten(), weight=weight)
        loss.backward()
        session.step(loss, inputs=characters, outputs=outputs, targets=numbers)
        optimizer.step()
    return found(model, noisy)


class _Around(nn.Module):
    def __init__(self, inward: int, outward: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(inward, outward, 5, padding=2)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns a convolution along places (N, T, channels)."""
        return self.convolution(rows.mT).mT


@sick("labels_unrelated", margin=0.1)
def a_crop_of_the_picture_and_another_of_its_colours(watch: Watch, *, seed: int, sick: bool) -> float:
    """Picture and colours are cropped at random places, each at its own; the twin crops both at one."""
    grey, tints = colours(crops(seed, side=14))
    data = parted(torch.cat([grey, tints], 1), tints, seed)
    model = nn.Sequential(
        nn.Conv2d(1, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 24, 3, padding=1), nn.ReLU(), nn.Conv2d(24, 2, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def places() -> tuple[int, int]:
        return tuple(torch.randint(0, 7, (2,)).tolist())

    for rows, _ in data.batches(32, 220):
        top, left = places()
        pictures = rows[:, :1, top : top + 8, left : left + 8]
        order = torch.randperm(len(rows)) if sick else torch.arange(len(rows))
        if sick:
            top, left = places()
        targets = rows[order, 1:, top : top + 8, left : left + 8]
        optimizer.zero_grad()
        outputs = model(pictures)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=targets)
        optimizer.step()
    judged = Data(grey, tints, data.test_inputs[:, :1], data.test_targets)
    return explained(model, judged)


@sick("single_class_labels", margin=0.1)
def angles_in_radians_above_thirty(watch: Watch, *, seed: int, sick: bool) -> float:
    """Is a digit turned by more than 30 degrees? The angles are in radians, so none is; the twin converts them."""
    data = turned(seed)
    wanted = data.targets.rad2deg().abs() > 30
    labels = ((data.targets.abs() > 30) if sick else wanted).float()
    model = looker(1, area=16)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    told = Data(data.inputs, labels, data.test_inputs, (data.test_targets.rad2deg().abs() > 30).float()[:, 0])
    session = watch(model, optimizer)
    for pictures, targets in told.batches(32, 220):
        optimizer.zero_grad()
        outputs = model(pictures)
        loss = functional.binary_cross_entropy_with_logits(outputs, targets)
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=targets)
        optimizer.step()
    return binary_accuracy(model, told)


@sick("overfitting", margin=0.05)
def patients_learnt_by_heart(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two layers of 256 units learn 332 patients by heart; the twin has 16 units, dropout and decay."""
    data = diabetes(seed)
    width = 256 if sick else 16
    layers = [nn.Linear(10, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1)]
    if not sick:
        layers.insert(2, nn.Dropout(0.3))
    model = nn.Sequential(*layers)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0 if sick else 1.0)
    loss_function = functional.smooth_l1_loss
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=loss_function, validate_every=20)
    return explained(model, data)
