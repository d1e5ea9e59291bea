"""Parts of a model or of the data that a training never reaches."""

import itertools

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened13.field_tools import judged, rods


class _Blocks(nn.Module):
    """A net of several blocks, which are kept in a list that is plain or not."""

    def __init__(self, plain: bool) -> None:
        super().__init__()
        self.stem = nn.Linear(16, 24)
        blocks = [nn.Sequential(nn.Linear(24, 24), nn.Tanh()) for _ in range(4)]
        self.blocks = blocks if plain else nn.ModuleList(blocks)
        self.head = nn.Linear(24, 16)

    def forward(self, rods: torch.Tensor) -> torch.Tensor:
        state = self.stem(rods)
        for block in self.blocks:
            state = block(state)
        return self.head(state)


@sick("parameters_not_in_optimizer", margin=0.05)
def hidden_blocks_in_a_plain_list(watch: Watch, *, seed: int, sick: bool) -> float:
    """The blocks lie in a Python list, so that ``parameters()`` does not know them; the twin has a ``ModuleList``."""
    train, test = rods(seed)
    squares = [TensorDataset(part.tensors[0], part.tensors[1].square()) for part in (train, test)]
    train, test = samples.standardised((squares[0], squares[1]), 1)
    model = _Blocks(plain=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for before, after in DataLoader(train, batch_size=42, shuffle=True):
            outputs = model(before)
            loss = functional.mse_loss(outputs, after)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=before, outputs=outputs, targets=after)
            optimizer.step()
    return judged(model, test, samples.explained)


@sick("parameters_not_in_optimizer", margin=0.1)
def a_head_for_new_classes_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head of a net for odd and even is replaced after the optimizer was made; the twin makes that anew."""
    train, test = samples.numerals(seed)
    model = nn.Sequential()
    model.add_module("body", nn.Sequential(nn.Flatten(), nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 6), nn.Tanh()))
    model.add_module("head", nn.Linear(6, 2))
    before = torch.optim.Adam(model.parameters(), lr=5e-3)
    for images, labels in DataLoader(train, batch_size=50, shuffle=True):
        before.zero_grad()
        functional.cross_entropy(model(images), labels % 2).backward()
        before.step()

    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    model.add_module("head", nn.Linear(6, 10))
    if not sick:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(9):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


class _Pieces(nn.Module):
    """A convolutional encoder, whose features may pass through numpy on their way to the classifier."""

    def __init__(self, through_numpy: bool) -> None:
        super().__init__()
        self.through_numpy = through_numpy
        self.encoder = nn.Sequential(nn.Conv2d(1, 4, 3, stride=2), nn.ReLU(), nn.Flatten())
        self.classifier = nn.Sequential(nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 10))

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        features = self.encoder(images)
        if self.through_numpy:
            features = torch.from_numpy(features.detach().numpy())
        return self.classifier(features)


@sick("detached_parameters", margin=0.03)
def features_that_pass_through_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """``forward`` turns the encoder's features into an array and back, which cuts the graph; the twin hands them on."""
    train, test = samples.numerals(seed)
    model = _Pieces(through_numpy=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    for _ in range(10):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("detached_parameters", margin=0.1)
def an_encoder_under_no_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """A bottleneck of three is found under ``no_grad``, left from an evaluation; the twin has gradients there."""
    data = datasets.breast_cancer(seed)
    encoder = nn.Sequential(nn.Linear(30, 16), nn.Tanh(), nn.Linear(16, 3))
    decoder = nn.Sequential(nn.Linear(3, 16), nn.Tanh(), nn.Linear(16, 30))
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(20):
        for rows, _ in DataLoader(TensorDataset(data.inputs, data.targets), batch_size=32, shuffle=True):
            with torch.set_grad_enabled(not sick):
                codes = encoder(rows)
            rebuilt = decoder(codes)
            loss = functional.mse_loss(rebuilt, rows)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=rebuilt, targets=rows)
            optimizer.step()
    return judged(nn.Sequential(encoder, decoder), TensorDataset(data.test_inputs, data.test_inputs), samples.explained)


@sick("frozen_parameters", margin=0.05)
def a_filter_of_names_that_fits_every_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names with "1" are frozen, which are to be a pretrained layer 1 but also 10 to 12; the twin freezes layer 1."""
    train, test = samples.numerals(seed)
    layers = {"1": nn.Conv2d(1, 8, 3), "act": nn.ReLU(), "flat": nn.Flatten()}
    for number, (width_in, width_out) in enumerate(((288, 32), (32, 32), (32, 32)), 10):
        layers |= {f"{number}": nn.Linear(width_in, width_out), f"act{number}": nn.ReLU()}
    model = nn.Sequential()
    for name, layer in (layers | {"head": nn.Linear(32, 10)}).items():
        model.add_module(name, layer)
    parity = torch.optim.Adam(model.parameters(), lr=3e-3)
    for images, labels in itertools.chain(*(DataLoader(train, batch_size=50, shuffle=True) for _ in range(2))):
        parity.zero_grad()
        functional.cross_entropy(model(images), labels % 2).backward()
        parity.step()

    model.add_module("head", nn.Linear(32, 10))
    for name, parameter in model.named_parameters():
        if "1" in name if sick else name.startswith("1."):
            parameter.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(9):
        for images, labels in DataLoader(train, batch_size=50, shuffle=True):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return judged(model, test)


@sick("duplicated_data", margin=0.05)
def the_first_batch_of_a_new_iterator(watch: Watch, *, seed: int, sick: bool) -> float:
    """The seed is set before each ``next(iter(loader))``, which gives one batch for ever; the twin sets it once."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    loader = DataLoader(train, batch_size=40, shuffle=True)
    torch.manual_seed(seed)
    session = watch(model, optimizer)
    for _ in range(150):
        if sick:
            torch.manual_seed(seed)
        images, labels = next(iter(loader))
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return judged(model, test)
