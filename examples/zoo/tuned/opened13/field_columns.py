"""What goes into the nets is wrong: units, casts, logarithms, rows that always repeat or come in order."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, throws


@sick("inputs_not_normalized", margin=0.1)
def milligrams_next_to_shares(watch: Watch, *, seed: int, sick: bool) -> float:
    """Wines go in as measured, where proline is a thousand times another column; the twin standardises the columns."""
    data = datasets.wine(seed, raw=sick)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=16, shuffle=True)
    session = watch(model, optimizer)
    for _ in range(15):
        for features, cultivars in loader:
            optimizer.zero_grad()
            logits = model(features)
            loss = functional.cross_entropy(logits, cultivars)
            loss.backward()
            session.step(loss, inputs=features, outputs=logits, targets=cultivars)
            optimizer.step()
    return judged(model, TensorDataset(data.test_inputs, data.test_targets))


def _bright(seed: int, *, scaled: bool) -> samples.Pair:
    """Grey patches (N, 1, 8, 8), and around which of their pixels it is brighter than 120 of 255."""
    grey = datasets.patches(seed, count=900).view(-1, 1, 8, 8)
    smooth = functional.avg_pool2d(functional.pad(grey, (1, 1, 1, 1), mode="replicate"), 3, stride=1)
    return samples.split(seed, grey / 127.5 - 1 if scaled else grey, (smooth > 120).float())


@sick("inputs_not_normalized", also=("learning_rate_too_high",), margin=0.1)
def bytes_into_a_segmentation_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels go in from 0 to 255, as the file has them; the twin maps them to -1 to 1."""
    train, test = _bright(seed, scaled=not sick)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 1)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    criterion = nn.BCEWithLogitsLoss()
    session = watch(model, optimizer)
    for _ in range(6):
        for patches, masks in DataLoader(train, batch_size=16, shuffle=True):
            maps = model(patches)
            loss = criterion(maps, masks)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=patches, outputs=maps, targets=masks)
            optimizer.step()
    return judged(model, test, lambda maps, masks: ((maps > 0) == (masks > 0.5)).float().mean().item())


class _Rows(Dataset[tuple[torch.Tensor, torch.Tensor]]):
    """Measurements and diagnoses of tumours, looked up by their index or, by mistake, by the same one."""

    def __init__(self, train: TensorDataset, same: bool) -> None:
        self.features, self.labels = train.tensors
        self.same = same

    def __len__(self) -> int:
        return len(self.labels)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        return self.features[0 if self.same else index], self.labels[index].float()


@sick("inputs_constant", margin=0.1)
def a_dataset_that_looks_up_row_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """``__getitem__`` has a 0 left from debugging, so that every label comes with one row; the twin uses the index."""
    train, test = samples.standardised(samples.diagnoses(seed), 0)
    model = nn.Sequential(nn.Linear(10, 24), nn.GELU(), nn.Linear(24, 24), nn.GELU(), nn.Linear(24, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for rows, benign in DataLoader(_Rows(train, same=sick), batch_size=32, shuffle=True):
            logits = model(rows)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(logits, benign)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=benign)
            optimizer.step()
    return judged(model, test)


@sick("inputs_constant", margin=0.1)
def shares_cast_to_whole_numbers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels from 0 to below 1 are cast to ``uint8`` to save memory, which leaves zeros; the twin casts them before."""
    pixels, labels = (
        torch.cat(parts) for parts in zip(*(part.tensors for part in samples.numerals(seed)), strict=True)
    )
    pixels = (pixels - pixels.min()) / (pixels.max() - pixels.min()) * 0.99
    stored = pixels.to(torch.uint8).float() if sick else (pixels * 255).to(torch.uint8).float() / 255
    train, test = samples.split(seed, stored, labels)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(144, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        model.train()
        for images, numbers in DataLoader(train, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, numbers)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=numbers)
            optimizer.step()
    return judged(model, test)


@sick("non_finite_inputs", margin=0.1)
def the_logarithm_of_a_concavity_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Skewed columns go in as logarithms, and some concavities are zero; the twin adds 0.001 before it."""
    (features, labels), (test_features, test_labels) = (part.tensors for part in samples.diagnoses(seed))
    offset = 0.0 if sick else 1e-3
    features, test_features = torch.log(features + offset), torch.log(test_features + offset)
    std, mean = torch.std_mean(features, 0)
    features, test_features = (features - mean) / std, (test_features - mean) / std
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(len(labels)).split(32):
            logits = model(features[rows])
            loss = functional.cross_entropy(logits, labels[rows])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=features[rows], outputs=logits, targets=labels[rows])
            optimizer.step()
    return judged(model, TensorDataset(test_features, test_labels))


@sick("non_finite_inputs", margin=0.1)
def a_border_pixel_without_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels are standardised one by one, and those in a corner never vary: 0 / 0; the twin has an epsilon."""
    data = datasets.digits(seed)
    std, mean = torch.std_mean(data.inputs, 0)
    std = std if sick else std.clamp(min=0.05)
    model = nn.Sequential(nn.Linear(64, 64), nn.Hardswish(), nn.Linear(64, 10))
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 160):
        rows = (pixels - mean) / std
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        outputs = model((data.test_inputs - mean) / std)
    return samples.accuracy(outputs.nan_to_num(), data.test_targets)


@sick("unshuffled_data", margin=0.05)
def one_folder_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images are listed folder by folder, a class each, and the loader keeps the order; the twin's loader shuffles."""
    train, test = samples.numerals(seed)
    order = train.tensors[1].argsort(stable=True)
    folders = TensorDataset(train.tensors[0][order], train.tensors[1][order])
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 10)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(6):
        for images, labels in DataLoader(folders, batch_size=32, shuffle=not sick):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("unshuffled_data", margin=0.05)
def throws_in_the_order_of_their_speed(watch: Watch, *, seed: int, sick: bool) -> float:
    """An experiment's rows lie in the order of the speed, and batches are slices; the twin permutes rows per epoch."""
    train, test = samples.standardised(throws(seed), 0, 1)
    order = train.tensors[0][:, 0].argsort()
    rows, distances = train.tensors[0][order], train.tensors[1][order]
    model = nn.Sequential(nn.Linear(3, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        indices = torch.arange(len(rows)) if sick else torch.randperm(len(rows))
        for start in range(0, len(rows), 50):
            batch = indices[start : start + 50]
            outputs = model(rows[batch])
            loss = functional.mse_loss(outputs, distances[batch])
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows[batch], outputs=outputs, targets=distances[batch])
            optimizer.step()
    return judged(model, test, samples.explained)
