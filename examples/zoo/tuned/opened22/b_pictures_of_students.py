"""Pictures in course work: small convolutional nets, a captioner, an autoencoder, and pictures of a competition."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.loops import accuracy


def _net(classes: int = 10, channels: int = 1) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, classes),
    )  # fmt: skip


@sick("dead_units", margin=0.05)
def pixels_behind_a_last_relu(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder ends in a ReLU, below which some pixels stay at 0 from the start; the twin ends in a sigmoid."""
    data = datasets.digits(seed)
    last = nn.ReLU() if sick else nn.Sigmoid()
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 12), nn.Linear(12, 48), nn.ReLU(),
                          nn.Linear(48, 64), last)  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for inputs, _ in data.batches(64, 250):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, inputs)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=inputs)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs), data.test_inputs)


@sick("wrong_output_or_loss", margin=0.05)
def probabilities_where_logs_are_expected(watch: Watch, *, seed: int, sick: bool) -> float:
    """``NLLLoss`` is given a softmax: the loss is minus a mean probability; the twin has a ``LogSoftmax``."""
    data = datasets.digits(seed, images=True)
    model = _net().append(nn.Softmax(1) if sick else nn.LogSoftmax(1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.NLLLoss()
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 150):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = criterion(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("detached_parameters", margin=0.05)
def a_captioner_whose_eyes_are_under_no_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """``with torch.no_grad()`` around the CNN was copied with a captioner, but this CNN is new; the twin trains it.

    The caption is the digit, its parity, and whether it is above four.
    """
    data = datasets.digits(seed, images=True)
    eyes = nn.Sequential(
        nn.Conv2d(1, 12, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(12, 24, 3),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(24, 16),
    )
    model = nn.ModuleDict({"eyes": eyes, "words": nn.Embedding(15, 16), "gru": nn.GRU(16, 32, batch_first=True),
                           "head": nn.Linear(32, 15)})  # fmt: skip

    def scores(pictures: torch.Tensor, words: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not sick):
            seen = eyes(pictures)
        return model["head"](model["gru"](torch.cat([seen[:, None], model["words"](words)], 1))[0])

    def captions(labels: torch.Tensor) -> torch.Tensor:
        return torch.stack([labels, 10 + labels % 2, 12 + (labels > 4).long()], 1)

    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(48, 260):
        targets = captions(labels)
        outputs = scores(inputs * 2 - 1, targets[:, :2])
        loss = functional.cross_entropy(outputs.flatten(0, 1), targets.flatten())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    with torch.no_grad():
        targets = captions(data.test_targets)
        return samples.accuracy(scores(data.test_inputs * 2 - 1, targets[:, :2])[:, 0], targets[:, 0])


@sick("wrong_mode", margin=0.03)
def never_back_to_training_after_the_first_validation(watch: Watch, *, seed: int, sick: bool) -> float:
    """``validate()`` calls ``eval()``, and ``train()`` stands before all epochs; the twin calls it in each epoch."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16), nn.ReLU(),
        nn.Conv2d(16, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Flatten(), nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)

    def validate() -> float:
        model.eval()
        with torch.no_grad(), session.validating():
            outputs = model(test.tensors[0])
        session.validation(functional.cross_entropy(outputs, test.tensors[1]).item())
        return samples.accuracy(outputs, test.tensors[1])

    validate()
    if sick:
        model.eval()
    quality = 0.0
    for _ in range(3):
        if not sick:
            model.train()
        for inputs, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
        quality = validate()
    return quality


@sick("unshuffled_data", margin=0.05)
def a_shuffled_frame_that_is_not_kept(watch: Watch, *, seed: int, sick: bool) -> float:
    """``frame.sample(frac=1)`` returns a new frame, and the folders' order stays; the twin keeps what it returns."""
    train, test = samples.numerals(seed)
    order = train.tensors[1].argsort()
    model = _net()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        if not sick:
            order = order[torch.randperm(len(order))]
        for inputs, labels in DataLoader(TensorDataset(*(column[order] for column in train.tensors)), 32):
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@healthy(at_least=0.85)
def pictures_and_labels_mixed_in_pairs(watch: Watch, *, seed: int) -> float:
    """Mixup: pictures are averaged with others, and labels as well, so that the loss stays far above zero."""
    data = datasets.digits(seed, images=True)
    model = _net()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 250):
        share = torch.distributions.Beta(1.0, 1.0).sample()
        other = torch.randperm(len(inputs))
        mixed = share * inputs + (1 - share) * inputs[other]
        outputs = model(mixed * 2 - 1)
        loss = share * functional.cross_entropy(outputs, labels)
        loss = loss + (1 - share) * functional.cross_entropy(outputs, labels[other])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=mixed, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs * 2 - 1), data.test_targets)
