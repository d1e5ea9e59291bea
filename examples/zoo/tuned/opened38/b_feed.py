"""Optimizers that lack weights, frozen ones, gradients that stay, and what a loader feeds."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened38.b_common import WORDS, chapters, pairs, weighed


@sick("parameters_not_in_optimizer", margin=0.03)
def thawed_but_in_no_group(watch: Watch, *, seed: int, sick: bool) -> float:
    """Convolutions of a simpler task are thawed after the optimizer took what could be trained; the twin adds them."""
    train, test = samples.numerals(seed)
    data = Data(*train.tensors, *test.tensors)
    body = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten()
    )
    before = nn.Sequential(body, nn.Linear(64, 1))
    earlier = torch.optim.Adam(before.parameters(), lr=2e-3)
    for images, labels in data.batches(64, 60):
        loss = functional.binary_cross_entropy_with_logits(before(images)[:, 0], (labels == 0).float())
        earlier.zero_grad()
        loss.backward()
        earlier.step()
    model = nn.Sequential(body.requires_grad_(False), nn.Linear(64, 10))
    optimizer = torch.optim.SGD([one for one in model.parameters() if one.requires_grad], lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for step, (images, labels) in enumerate(data.batches(64, 240)):
        if step == 40:
            body.requires_grad_(True)
            if not sick:
                optimizer.add_param_group({"params": body.parameters(), "lr": 0.02})
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        model.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.05)
def random_vectors_from_pretrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Embedding.from_pretrained`` freezes its vectors, which are random here; the twin says ``freeze=False``."""
    data = chapters(seed)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding.from_pretrained(torch.randn(WORDS, 16) * 0.3, freeze=sick)
            self.state, self.head = nn.GRU(16, 32, batch_first=True), nn.Sequential(nn.Dropout(0.3), nn.Linear(32, 6))

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            return self.head(self.state(self.words(words))[0].mean(1))

    model = Reader()
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def zeroed_on_another_path_only(watch: Watch, *, seed: int, sick: bool) -> float:
    """Only the branch for mixed precision zeroes gradients, and it is off; the twin zeroes before the branches."""
    whole = datasets.digits(seed)
    data = Data((whole.inputs - 0.3) / 0.37, whole.targets, (whole.test_inputs - 0.3) / 0.37, whole.test_targets)
    code, back = nn.Sequential(nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 12)), nn.Linear(12, 64)
    model = nn.Sequential(code, back)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    loader = DataLoader(TensorDataset(data.inputs), batch_size=64, shuffle=True)
    mixed = False
    for _ in range(14):
        for (pixels,) in loader:
            if not sick:
                optimizer.zero_grad()
            if mixed:
                optimizer.zero_grad()
                with torch.autocast("cpu", dtype=torch.bfloat16):
                    outputs = model(pixels)
            else:
                outputs = model(pixels)
            loss = functional.mse_loss(outputs, pixels)
            loss.backward()
            session.step(loss, inputs=pixels, outputs=outputs, targets=pixels)
            optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@sick("batch_mixing", also=("labels_unrelated",), margin=0.2)
def two_views_taken_apart_wrongly(watch: Watch, *, seed: int, sick: bool) -> float:
    """Both pictures pass a tower as one batch, and ``view(N, 2, -1)`` mixes rows; the twin's is (2, N, -1)."""
    data = pairs(seed)

    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tower = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))
            self.head = nn.Sequential(nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 1))

        def forward(self, both: torch.Tensor) -> torch.Tensor:
            states = self.tower(torch.cat([both[:, 0], both[:, 1]]))
            left, right = states.view(-1, 2, 24).unbind(1) if sick else states.view(2, -1, 24).unbind(0)
            return self.head((left - right).abs())[:, 0]

    model = Twins()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=250, loss_function=functional.binary_cross_entropy_with_logits)
    return weighed(predicted(model, data.test_inputs), data.test_targets)


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def numbers_below_the_size_of_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows are drawn below the size of a batch, and so always from the first 32; the twin draws below their number."""
    data = chapters(seed)
    model = nn.Sequential(nn.EmbeddingBag(WORDS, 24), nn.Dropout(0.2), nn.Linear(24, 6))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    size = 32
    for step in range(300):
        chosen = torch.randint(0, size if sick else len(data.inputs), (size,))
        words, labels = data.inputs[chosen], data.targets[chosen]
        outputs = model(words)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=words, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 50 == 49:
            session.validation(functional.cross_entropy(predicted(model, data.test_inputs), data.test_targets).item())
    return accuracy(model, data)


@sick("unshuffled_data", margin=0.05)
def rows_sorted_by_their_target(watch: Watch, *, seed: int, sick: bool) -> float:
    """A table was sorted by its target for a look at the extremes, and is read in that order; the twin shuffles."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    features, sizes = train.tensors[0], train.tensors[1][:, 3:4]
    order = sizes[:, 0].argsort()
    loader = DataLoader(TensorDataset(features[order], sizes[order]), batch_size=16, shuffle=not sick)
    model = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        for rows, size in loader:
            optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.mse_loss(outputs, size)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=size)
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1][:, 3:4])


@sick("class_imbalance", margin=0.05)
def few_pairs_are_alike(watch: Watch, *, seed: int, sick: bool) -> float:
    """One pair in 20 is alike and noise is strong, so that none is called so; the twin weighs those by 19."""
    data = pairs(seed, same=0.05, noise=0.4, count=3200)
    tower = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 32))

    class Twins(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.tower, self.head = tower, nn.Linear(32, 1)

        def forward(self, both: torch.Tensor) -> torch.Tensor:
            return self.head((self.tower(both[:, 0]) - self.tower(both[:, 1])).square())[:, 0]

    model = Twins()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.1)
    weight = None if sick else torch.tensor(19.0)

    def loss_function(outputs: torch.Tensor, same: torch.Tensor) -> torch.Tensor:
        return functional.binary_cross_entropy_with_logits(outputs, same, pos_weight=weight)

    fit(watch, model, optimizer, data, steps=250, loss_function=loss_function, validate_every=40)
    return weighed(predicted(model, data.test_inputs), data.test_targets)
