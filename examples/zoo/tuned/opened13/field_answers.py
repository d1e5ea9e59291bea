"""What the nets are told to answer is wrong: units, ranges, rows of other samples, one class, or rarely the other."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, rods, springs


@sick("target_out_of_range", margin=0.1)
def a_relu_after_the_last_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loop puts a ReLU after the last layer, too, but temperatures are often negative; the twin has none there."""
    train, test = rods(seed)
    layers: list[nn.Module] = []
    for width_in, width_out in ((16, 64), (64, 64), (64, 16)):
        layers += [nn.Linear(width_in, width_out), nn.ReLU()]
    model = nn.Sequential(*layers) if sick else nn.Sequential(*layers[:-1])
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for before, after in DataLoader(train, batch_size=42, shuffle=True):
            outputs = model(before)
            loss = functional.mse_loss(outputs, after)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=before, outputs=outputs, targets=after)
            optimizer.step()
    return judged(model, test, samples.explained)


@sick("target_out_of_range", margin=0.1)
def a_sigmoid_for_pixels_in_deviations(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder ends in a sigmoid, but its pixels have mean 0 and deviation 1; the twin ends without."""
    train, test = samples.numerals(seed)
    encoder = nn.Sequential(nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(256, 16))
    decoder = nn.Sequential(
        nn.Linear(16, 256), nn.ReLU(), nn.Unflatten(1, (16, 4, 4)), nn.ConvTranspose2d(16, 1, 2, stride=2)
    )
    model = nn.Sequential(encoder, decoder, nn.Sigmoid() if sick else nn.Identity())
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, _ in DataLoader(train, batch_size=40, shuffle=True):
            rebuilt = model(images)
            loss = functional.mse_loss(rebuilt, images)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=rebuilt, targets=images)
            optimizer.step()
    return judged(model, TensorDataset(test.tensors[0], test.tensors[0]), samples.explained)


@sick("labels_unrelated", margin=0.1)
def rows_dropped_from_the_table_alone(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows with a missing value are dropped from the features, but not from the targets; the twin drops both."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    features, targets = train.tensors
    complete = torch.rand(len(features)) > 0.1
    complete[0] = False
    features = features[complete]
    targets = targets[: len(features)] if sick else targets[complete]
    model = nn.Sequential(nn.Linear(10, 24), nn.SiLU(), nn.Linear(24, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for means, worst in DataLoader(TensorDataset(features, targets), batch_size=24, shuffle=True):
            outputs = model(means)
            loss = functional.huber_loss(outputs, worst)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=means, outputs=outputs, targets=worst)
            optimizer.step()
    return judged(model, test, samples.explained)


@sick("labels_unrelated", margin=0.1)
def images_shuffled_without_their_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """In each epoch the images are shuffled, and their labels by another permutation; the twin uses one for both."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=2, padding=1), nn.BatchNorm2d(16), nn.SiLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True)
    session = watch(model, optimizer)
    for _ in range(6):
        model.train()
        order = torch.randperm(len(images))
        other = torch.randperm(len(images)) if sick else order
        for pixels, numbers in zip(images[order].split(48), labels[other].split(48), strict=True):
            logits = model(pixels)
            loss = functional.cross_entropy(logits, numbers)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=numbers)
            optimizer.step()
    return judged(model, test)


@sick("single_class_labels", margin=0.03)
def a_threshold_in_another_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wine is good above a proline of 750, but the column is in deviations by then; the twin compares before it."""
    train, test = samples.proline(seed)
    good, test_good = (part.tensors[1] > 750 for part in (train, test))
    train, test = samples.standardised((train, test), 0, 1)
    labels = (train.tensors[1] > 750).float() if sick else good.float()
    model = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, is_good in DataLoader(TensorDataset(train.tensors[0], labels), batch_size=16, shuffle=True):
            logits = model(rows)
            loss = functional.binary_cross_entropy_with_logits(logits, is_good)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=is_good)
            optimizer.step()
    return judged(model, TensorDataset(test.tensors[0], test_good[:, 0].long()))


@sick("single_class_labels", margin=0.1)
def the_argmax_along_the_wrong_axis(watch: Watch, *, seed: int, sick: bool) -> float:
    """One-hot rows become classes by an argmax over an axis of length 1, so that all are 0; the twin's is the last."""
    train, test = samples.standardised(samples.lines(seed), 0)
    one_hot = functional.one_hot(train.tensors[1], 6)[:, None]
    classes = one_hot.argmax(1)[:, 0] if sick else one_hot.argmax(2)[:, 0]
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 6))
    optimizer = torch.optim.Adagrad(model.parameters(), lr=0.02)
    session = watch(model, optimizer)
    for _ in range(8):
        model.train()
        for counts, files in DataLoader(TensorDataset(train.tensors[0], classes), batch_size=50, shuffle=True):
            optimizer.zero_grad()
            logits = model(counts)
            loss = functional.cross_entropy(logits, files)
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
    return judged(model, test)


def _mean_recall(outputs: torch.Tensor, labels: torch.Tensor) -> float:
    guessed = outputs.argmax(-1)
    return sum((guessed[labels == one] == one).float().mean().item() for one in labels.unique()) / len(labels.unique())


@sick("class_imbalance", margin=0.1)
def inspections_with_few_defects(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two in a hundred images are defects, the nines; the twin draws both classes alike. Quality: mean recall."""
    data = datasets.digits(seed)
    kept = (data.targets != 9).nonzero()[:, 0]
    nines = (data.targets == 9).nonzero()[:20, 0]
    rows = torch.cat([kept, nines])
    train = TensorDataset(data.inputs[rows], (data.targets[rows] == 9).long())
    weights = 1 / train.tensors[1].bincount().double()[train.tensors[1]]
    sampler = WeightedRandomSampler(weights.tolist(), len(train))
    model = nn.Sequential(nn.Linear(64, 16), nn.Tanh(), nn.Linear(16, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        loader = DataLoader(train, batch_size=32, shuffle=True) if sick else DataLoader(train, 32, sampler=sampler)
        for pixels, defect in loader:
            logits = model(pixels)
            loss = functional.cross_entropy(logits, defect)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=defect)
            optimizer.step()
    return judged(model, TensorDataset(data.test_inputs, (data.test_targets == 9).long()), _mean_recall)


class _Quantiles(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(nn.Linear(4, 48), nn.Mish(), nn.Linear(48, 48), nn.Mish(), nn.Linear(48, 1))

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.body(rows)


@sick("shape_broadcast", margin=0.1)
def a_pinball_loss_of_a_column_and_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """The pinball loss subtracts outputs (N, 1) from targets (N,), so that all pairs count; the twin squeezes them."""
    train, test = samples.standardised(springs(seed), 0, 1)
    model = _Quantiles()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for rows, places in DataLoader(train, batch_size=50, shuffle=True):
            targets = places[:, 0]
            outputs = model(rows) if sick else model(rows)[:, 0]
            error = targets - outputs
            loss = torch.maximum(0.5 * error, -0.5 * error).mean()
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=targets)
            optimizer.step()
    return judged(model, test, samples.explained)
