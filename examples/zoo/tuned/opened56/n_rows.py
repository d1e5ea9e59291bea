"""Rows, labels and their order: what goes into a training."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Dataset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened56.n_common import as_data, balanced_accuracy, explained, standard


@sick("inputs_not_normalized", margin=0.1)
def wines_as_they_were_measured(watch: Watch, *, seed: int, sick: bool) -> float:
    """Alcohol in percent beside proline in the thousands, under SGD; the twin standardises both."""
    data = datasets.wine(seed, raw=sick)
    model = nn.Sequential(nn.Linear(13, 32), nn.Tanh(), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("inputs_constant", margin=0.3)
def pixels_divided_as_integers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Integer pixels up to 16 are divided by 255 with ``//``, so all of them are 0; the twin divides by 16."""
    data = datasets.digits(seed, images=True)
    scaled = []
    for images in (data.inputs, data.test_inputs):
        pixels = (images * 16).round().to(torch.uint8)
        scaled.append((pixels // 255).float() if sick else pixels.float() / 16)
    data = Data(scaled[0], data.targets, scaled[1], data.test_targets)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward",), margin=0.3)
def corner_pixels_have_no_deviation(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each pixel is divided by its deviation, which is 0 in the corners: 0 / 0; the twin has a least deviation."""
    data = datasets.digits(seed)
    std, mean = torch.std_mean(data.inputs, 0)
    if not sick:
        std = std.clamp(min=0.05)
    inputs, test_inputs = ((values - mean) / std for values in (data.inputs, data.test_inputs))
    data = Data(inputs, data.targets, test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(64, 48), nn.ELU(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150)
    chances = predicted(model, data.test_inputs).softmax(-1)
    return chances.gather(1, data.test_targets[:, None]).mean().item()


@sick("labels_unrelated", margin=0.2)
def rows_and_labels_shuffled_apart(watch: Watch, *, seed: int, sick: bool) -> float:
    """Inputs and labels are each put in an order of their own; the twin uses one order for both."""
    data = standard(samples.lines(seed), 0)
    order = torch.randperm(len(data.inputs))
    other = torch.randperm(len(data.inputs)) if sick else order
    data = Data(data.inputs[order], data.targets[other], data.test_inputs, data.test_targets)
    model = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=120, batch_size=64)
    return accuracy(model, data)


@sick("single_class_labels", margin=0.06)
def threshold_in_the_wrong_units(watch: Watch, *, seed: int, sick: bool) -> float:
    """Patients above 120 are ill, but the scores are standardised, so nobody is; the twin asks in raw units."""
    raw, scaled = datasets.diabetes(seed, raw_targets=True), datasets.diabetes(seed)
    scores = scaled.targets if sick else raw.targets
    data = Data(raw.inputs, (scores > 120).float(), raw.test_inputs, (raw.test_targets > 120).float())
    model = nn.Sequential(nn.Linear(10, 12), nn.ReLU(), nn.Linear(12, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.1)
    fit(watch, model, optimizer, data, steps=100, loss_function=functional.binary_cross_entropy_with_logits)
    right = (predicted(model, data.test_inputs) > 0) == (data.test_targets > 0.5)
    return right.float().mean().item()


@sick("unshuffled_data", margin=0.08)
def classes_read_folder_by_folder(watch: Watch, *, seed: int, sick: bool) -> float:
    """Images are sorted as in a folder for each class, and the loader does not shuffle; the twin's does."""
    data = as_data(samples.numerals(seed))
    order = data.targets.argsort(stable=True)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=32, shuffle=not sick)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in loader:
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


class Repeated(Dataset):
    """Several views of each image, which are to be numbered image by image."""

    def __init__(self, data: Data, views: int, *, wrong: bool) -> None:
        self.data, self.views, self.wrong = data, views, wrong

    def __len__(self) -> int:
        return len(self.data.inputs)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        chosen = index // self.views if self.wrong else index
        return self.data.inputs[chosen], self.data.targets[chosen]


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def views_counted_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """``index // 24`` of as many indices as images: the first 24th of them is seen 24 times; the twin sees all."""
    data = datasets.digits(seed)
    loader = DataLoader(Repeated(data, 24, wrong=sick), batch_size=64, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        for images, labels in loader:
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("class_imbalance", margin=0.05)
def few_eights_among_many_digits(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three in a hundred images are eights, and all count the same; the twin weights them, judged by both recalls."""
    digits = datasets.digits(seed)
    eights = (digits.targets == 8).nonzero()[:, 0]
    others = (digits.targets != 8).nonzero()[:, 0]
    rows = torch.cat([others, eights[: len(others) // 32]])
    labels, test_labels = ((values == 8).float()[:, None] for values in (digits.targets, digits.test_targets))
    data = Data(digits.inputs[rows], labels[rows], digits.test_inputs, test_labels)
    model = nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    weight = torch.tensor(1.0 if sick else 32.0)
    criterion = nn.BCEWithLogitsLoss(pos_weight=weight)
    fit(watch, model, optimizer, data, steps=150, loss_function=criterion)
    return balanced_accuracy(predicted(model, data.test_inputs), data.test_targets)


@sick("overfitting", margin=0.15)
def wide_network_for_ninety_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two layers of 256 units learn 90 patients by heart; the twin is a small linear model with a weight decay."""
    data = datasets.diabetes(seed)
    data = Data(data.inputs[:90], data.targets[:90], data.test_inputs, data.test_targets)
    if sick:
        model = nn.Sequential(nn.Linear(10, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 1))
    else:
        model = nn.Sequential(nn.Linear(10, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3 if sick else 5e-3, weight_decay=0.0 if sick else 0.1)
    fit(watch, model, optimizer, data, steps=300, batch_size=30, loss_function=functional.mse_loss, validate_every=20)
    return r_squared(model, data)


@sick("target_out_of_range", margin=0.1)
def rectified_head_for_standardised_cells(watch: Watch, *, seed: int, sick: bool) -> float:
    """A block that ends in ReLU predicts standardised measurements, half of which are below 0; the twin does not."""
    data = standard(samples.tumours(seed), 0, 1)

    def block(inner: int, outer: int) -> nn.Sequential:
        return nn.Sequential(nn.Linear(inner, outer), nn.LayerNorm(outer), nn.ReLU())

    head: list[nn.Module] = [nn.Linear(48, 10)]
    model = nn.Sequential(block(10, 48), *head, *([nn.ReLU()] if sick else []))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.smooth_l1_loss, validate_every=50)
    return explained(model, data)
