"""What is fed to a model, and in what order."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import ConcatDataset, DataLoader, Dataset, Subset, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened58.p_common import of, stack


def by_loader(
    watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader, data: Data, *, epochs: int
) -> float:
    """Trains a classifier by a loader, validates after each epoch, and returns its accuracy."""
    session = watch(model, optimizer)
    for _ in range(epochs):
        model.train()
        for inputs, labels in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("inputs_not_normalized")
def scaler_returned_but_not_kept(watch: Watch, *, seed: int, sick: bool) -> float:
    """The standardised columns are returned and thrown away, so features up to 4,000 come in; the twin keeps them."""
    pair = samples.diagnoses(seed)
    scaled = samples.standardised(pair, 0)
    data = of(pair if sick else scaled)
    model = stack(10, 32, 16, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=1e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("inputs_constant")
def whole_number_quotient_of_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixels from 0 to 255 are divided by 256 as integers, which leaves 0; the twin makes floats of them first."""
    train, test = samples.scenes(seed)
    pictures = torch.cat([train.tensors[0], test.tensors[0]])
    low, high = pictures.min(), pictures.max()

    def prepared(part: TensorDataset) -> torch.Tensor:
        raw = ((part.tensors[0] - low) / (high - low) * 255).to(torch.int32)
        return (raw // 256).float() if sick else (raw.float() / 256 - 0.5) * 4

    data = Data(prepared(train), train.tensors[1], prepared(test), test.tensors[1])
    model = nn.Sequential(nn.Conv2d(3, 12, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(108, 2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, validate_every=50)
    return accuracy(model, data)


@sick("non_finite_inputs")
def logarithm_of_an_absent_concavity(watch: Watch, *, seed: int, sick: bool) -> float:
    """Logarithms are taken of measurements that can be 0; the twin's are of one more."""
    pair = samples.tumours(seed)
    train, test = samples.standardised(pair, 1)
    first, later = ((part.tensors[0].log() if sick else part.tensors[0].log1p()) for part in pair)
    if sick:
        usable = torch.where(first.isfinite(), first, torch.zeros(()))
        mean, std = usable.mean(0), usable.std(0)
    else:
        mean, std = first.mean(0), first.std(0)
    data = Data((first - mean) / std, train.tensors[1], (later - mean) / std, test.tensors[1])
    model = stack(10, 32, 10, activation=nn.SiLU)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("unshuffled_data")
def class_after_class_from_the_loader(watch: Watch, *, seed: int, sick: bool) -> float:
    """Digits lie sorted by class, as from folders, and the loader does not shuffle; the twin's does."""
    data = of(samples.numerals(seed))
    order = data.targets.argsort(stable=True)
    model = nn.Sequential(nn.Flatten(), *stack(64, 64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(TensorDataset(data.inputs[order], data.targets[order]), batch_size=32, shuffle=not sick)
    return by_loader(watch, model, optimizer, loader, data, epochs=5)


@sick("duplicated_data", also=("overfitting",))
def every_shard_is_the_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twenty-eight shards are joined, but the loop reads the first each time; the twin reads each."""
    data = datasets.digits(seed)
    whole = TensorDataset(data.inputs, data.targets)
    shards: list[Dataset] = []
    for index in range(28):
        rows = range(len(whole))[0 if sick else index :: 28]
        shards.append(Subset(whole, rows))
    model = stack(64, 32, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.05)
    return by_loader(watch, model, optimizer, DataLoader(ConcatDataset(shards), 64, shuffle=True), data, epochs=10)


@sick("batch_mixing")
def names_read_across_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU takes the samples of a batch for steps of time, as batch_first is not given; the twin gives it."""
    data = of(samples.names(seed))

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 16, padding_idx=0)
            self.body = nn.GRU(16, 48, batch_first=not sick)
            self.head = nn.Linear(48, 8)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            states, _ = self.body(self.letters(codes.flip(1)))
            return self.head(states[:, -1])

    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=150, batch_size=32)
    return accuracy(model, data)


@sick("class_imbalance")
def one_digit_in_sixty(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eights are one in sixty of the samples, and all weigh alike; the twin weighs eights by how rare they are."""
    data = datasets.digits(seed)
    eights = (data.targets == 8).nonzero()[:, 0]
    rows = torch.cat([eights[: len(data.inputs) // 60], (data.targets != 8).nonzero()[:, 0]])
    data = Data(
        data.inputs[rows],
        (data.targets[rows] == 8).float()[:, None],
        data.test_inputs,
        (data.test_targets == 8).float()[:, None],
    )
    weight = (1 - data.targets.mean()) / data.targets.mean()
    criterion = nn.BCEWithLogitsLoss(pos_weight=None if sick else weight)
    model = stack(64, 16, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=150, loss_function=criterion)
    found = (predicted(model, data.test_inputs) > 0).float()
    recalls = [(found[data.test_targets == value] == value).float().mean().item() for value in (0, 1)]
    return sum(recalls) / 2


@sick("labels_unrelated")
def two_loaders_each_with_its_own_order(watch: Watch, *, seed: int, sick: bool) -> float:
    """Inputs and targets come from two loaders that shuffle on their own; the twin has one loader of pairs."""
    data = of(samples.standardised(samples.proline(seed), 0, 1))
    model = stack(12, 16, 1, activation=nn.Tanh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    pairs = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=32, shuffle=True)
    wines = DataLoader(data.inputs, batch_size=32, shuffle=True)
    prolines = DataLoader(data.targets, batch_size=32, shuffle=True)
    for _ in range(40):
        for inputs, targets in zip(wines, prolines, strict=True) if sick else pairs:
            outputs = model(inputs)
            loss = functional.smooth_l1_loss(outputs, targets)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
            optimizer.step()
    return r_squared(model, data)


@sick("single_class_labels")
def head_of_a_sorted_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rows to train on are the first hundred of a table sorted by label; the twin draws as many."""
    whole = datasets.digits(seed)
    order = whole.targets.argsort(stable=True)
    inputs, labels = whole.inputs[order], whole.targets[order]
    rows = torch.arange(100) if sick else torch.randperm(len(inputs))[:100]
    data = Data(inputs[rows], labels[rows], whole.test_inputs, whole.test_targets)
    model = nn.Linear(64, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, weight_decay=1e-2)
    fit(watch, model, optimizer, data, steps=80, batch_size=20)
    return accuracy(model, data)
