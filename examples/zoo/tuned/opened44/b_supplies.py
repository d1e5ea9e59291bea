"""What a training is fed with: inputs, labels, their order, and how often they come."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, WeightedRandomSampler

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened44.b_shelf import (
    LetterGru,
    balanced,
    figures,
    scripts,
    small_convolutions,
    sources,
    worst_sizes,
)  # fmt: skip


@sick("inputs_not_normalized", margin=0.08)
def measurements_in_their_own_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """A perceptron reads areas in the hundreds beside shares of hundredths; the twin reads them standardised."""
    data = worst_sizes(seed, raw=sick)
    model = nn.Sequential(nn.Linear(10, 64), nn.Tanh(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("inputs_constant", margin=0.3)
def keys_that_json_made_strings(watch: Watch, *, seed: int, sick: bool) -> float:
    """A vocabulary from JSON has strings as keys and is asked for integers, so that all letters are the unknown one."""
    drawn = scripts(seed)
    vocabulary = {str(code) if sick else code: code for code in range(samples.LETTERS)}

    def looked_up(codes: torch.Tensor) -> torch.Tensor:
        return torch.tensor([[vocabulary.get(code, 1) for code in row] for row in codes.tolist()])

    data = Data(looked_up(drawn.inputs), drawn.targets, looked_up(drawn.test_inputs), drawn.test_targets)
    model = LetterGru(32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_inputs", margin=0.3)
def logarithms_of_no_concavity(watch: Watch, *, seed: int, sick: bool) -> float:
    """Logarithms of measurements, of which a few are 0 in a dozen of tumours; the twin adds a little first."""
    drawn = datasets.breast_cancer(seed, raw=True)

    def scaled(values: torch.Tensor) -> torch.Tensor:
        return (values if sick else values + 1e-2).log()

    data = Data(scaled(drawn.inputs), drawn.targets, scaled(drawn.test_inputs), drawn.test_targets)
    model = nn.Sequential(nn.BatchNorm1d(30), nn.Linear(30, 32), nn.ReLU(), nn.Linear(32, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("labels_unrelated", margin=0.3)
def outliers_removed_on_one_side(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows with outliers leave the features but not the labels, which are cut to fit; the twin removes both."""
    data = datasets.wine(seed)
    kept = data.inputs.abs().amax(1) < 2.6
    rows = data.inputs[kept]
    labels = data.targets[: len(rows)] if sick else data.targets[kept]
    model = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=1e-3)
    loader = DataLoader(TensorDataset(rows, labels), batch_size=16, shuffle=True)
    session = watch(model, optimizer)
    for _ in range(15):
        for inputs, targets in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    return accuracy(model, data)


@sick("single_class_labels", margin=0.1)
def a_mask_divided_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """Masks that are 0 or 1 already are divided by 255 and made integers, so that all is background."""
    drawn = datasets.digits(seed, images=True)

    def blurred(images: torch.Tensor) -> torch.Tensor:
        return (images - 0.3) / 0.37 + 0.5 * torch.randn_like(images)

    masks, test_masks = ((images[:, 0] > 0.4).float() for images in (drawn.inputs, drawn.test_inputs))
    labels = (masks / 255).long() if sick else masks.long()
    data = Data(blurred(drawn.inputs), labels, blurred(drawn.test_inputs), test_masks.long())
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(), nn.Conv2d(12, 2, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return (predicted(model, data.test_inputs).argmax(1) == data.test_targets).float().mean().item()


@sick("class_imbalance", margin=0.08)
def few_names_are_tibetan(watch: Watch, *, seed: int, sick: bool) -> float:
    """Few names are of the script to find, and batches have them as rarely; the twin's sampler draws both as often."""
    drawn = scripts(seed, each=220)
    found = (drawn.targets == 7).long()
    kept = (found == 0) | (found.cumsum(0) <= 45)
    codes, labels = drawn.inputs[kept], found[kept]
    bag = nn.EmbeddingBag(samples.LETTERS, 24, padding_idx=0)
    model = nn.Sequential(bag, nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.02)
    sampler = None if sick else WeightedRandomSampler(1 / labels.bincount()[labels], len(labels))
    loader = DataLoader(TensorDataset(codes, labels), batch_size=48, shuffle=sick, sampler=sampler)
    session = watch(model, optimizer)
    for _ in range(8):
        for inputs, targets in loader:
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    return balanced(predicted(model, drawn.test_inputs).argmax(1), (drawn.test_targets == 7).long())


class Stream(IterableDataset):
    """Rows as they lie on a disk, of which each is drawn from a buffer."""

    def __init__(self, data: Data, buffer: int) -> None:
        order = data.targets.argsort(stable=True)
        self.rows, self.labels, self.buffer = data.inputs[order], data.targets[order], buffer

    def __iter__(self):
        waiting: list[int] = []
        for index in range(len(self.rows)):
            waiting.append(index)
            if len(waiting) >= self.buffer:
                chosen = waiting.pop(int(torch.randint(len(waiting), ())))
                yield self.rows[chosen], self.labels[chosen]
        for place in torch.randperm(len(waiting)).tolist():
            yield self.rows[waiting[place]], self.labels[waiting[place]]


@sick("unshuffled_data", margin=0.04)
def a_buffer_smaller_than_a_class(watch: Watch, *, seed: int, sick: bool) -> float:
    """A stream that is sorted by class is shuffled in a buffer of 40 rows; the twin's buffer holds all of them."""
    data = sources(seed)
    loader = DataLoader(Stream(data, 40 if sick else 5000), batch_size=16)
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Linear(48, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.015, momentum=0.9, weight_decay=1e-3)
    session = watch(model, optimizer)
    for _ in range(4):
        for rows, labels in loader:
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


class Wrapped(Dataset):
    """Images by an index that wraps at a length."""

    def __init__(self, data: Data, length: int) -> None:
        self.data, self.length = data, length

    def __len__(self) -> int:
        return len(self.data.targets)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        index %= self.length
        return self.data.inputs[index], self.data.targets[index]


@sick("duplicated_data", also=("overfitting",), margin=0.08)
def an_index_that_wraps_at_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A dataset's index wraps at the batch's size, so 48 images come again and again; the twin's at their number."""
    data = figures(seed)
    loader = DataLoader(Wrapped(data, 48 if sick else len(data.targets)), batch_size=48, shuffle=True)
    model = small_convolutions()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in loader:
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
        with session.validating():
            judged = held_out_loss(model, data)
        session.validation(judged)
    return accuracy(model, data)


class RowReader(nn.Module):
    """An LSTM that wants time first, and reads digits row by row."""

    def __init__(self, viewed: bool) -> None:
        super().__init__()
        self.viewed = viewed
        self.memory, self.head = nn.LSTM(8, 32), nn.Linear(32, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows = images.squeeze(1)
        rows = rows.reshape(8, len(rows), 8) if self.viewed else rows.transpose(0, 1)
        return self.head(self.memory(rows)[0][-1])


@sick("batch_mixing", margin=0.2)
def rows_of_several_digits_in_a_sequence(watch: Watch, *, seed: int, sick: bool) -> float:
    """Time is brought to the front with ``reshape``, so sequences have rows of several digits; the twin transposes."""
    data = figures(seed)
    model = RowReader(sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("overfitting", margin=0.1)
def patients_learned_by_heart(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide network without any decay learns 331 patients by heart; the twin is small, with dropout and decay."""
    data = datasets.diabetes(seed)
    if sick:
        model = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    else:
        model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.2)
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)
