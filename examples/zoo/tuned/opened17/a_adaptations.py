"""A net that knows some digits or turns of digits is tuned for another task, as a script for transfer does it."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick


class _Net(nn.Module):
    """Three layers of convolution, and a head that is replaced for each task."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.stem, self.middle = self._layer(1, 16), self._layer(16, 24)
        self.top = self._layer(24, 32)
        self.head = nn.Linear(32 * 4, classes)

    @staticmethod
    def _layer(before: int, after: int) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(before, after, 3, stride=1 if before == 1 else 2, padding=1), nn.ReLU())

    def features(self, images: torch.Tensor) -> torch.Tensor:
        return self.top(self.middle(self.stem(images))).flatten(1)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.features(images))


def _epochs(model: nn.Module, optimizer: torch.optim.Optimizer, data: TensorDataset, count: int) -> None:
    for _ in range(count):
        for images, labels in DataLoader(data, 64, shuffle=True):
            optimizer.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            optimizer.step()


def _turned(images: torch.Tensor) -> TensorDataset:
    """Returns pictures turned by multiples of 90 degrees, and by how many."""
    turns = torch.randint(4, (len(images),))
    return TensorDataset(
        torch.stack([image.rot90(int(k), (1, 2)) for image, k in zip(images, turns, strict=True)]), turns
    )


def _pretrained(data: TensorDataset) -> _Net:
    model = _Net(4)
    _epochs(model, torch.optim.Adam(model.parameters(), lr=2e-3), _turned(data.tensors[0]), 3)
    return model


def _right(model: nn.Module, test: TensorDataset) -> float:
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("parameters_not_in_optimizer", margin=0.03)
def layers_thawed_after_the_optimizer_was_made(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer got what required a gradient then, and layers thawed later are not in it; the twin adds them."""
    train, test = samples.numerals(seed)
    model = _pretrained(train)
    model.head = nn.Linear(128, 10)
    for layer in (model.stem, model.middle, model.top):
        layer.requires_grad_(False)
    optimizer = torch.optim.Adam([weight for weight in model.parameters() if weight.requires_grad], lr=1e-3)
    session = watch(model, optimizer)
    for epoch in range(7):
        if epoch == 1:
            for layer in (model.stem, model.middle, model.top):
                layer.requires_grad_(True)
                if not sick:
                    optimizer.add_param_group({"params": list(layer.parameters()), "lr": 2e-3})
        for images, labels in DataLoader(train, 32, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, test)


@sick("frozen_parameters", margin=0.03)
def all_but_what_is_named_head(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights could not be loaded, and all but the head is frozen all the same, at random; the twin freezes none."""
    train, test = samples.scenes(seed, count=1500)
    model = nn.Sequential()
    body = _Net(2)
    body.stem[0] = nn.Conv2d(3, 16, 3, padding=1)
    model.add_module("body", nn.Sequential(body.stem, body.middle, body.top, nn.Flatten()))
    model.add_module("head", body.head)
    for name, weight in model.named_parameters():
        if sick and not name.startswith("head"):
            weight.requires_grad = False
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 32, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, test)


@sick("detached_parameters", margin=0.03)
def features_under_no_grad_for_all_epochs(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ``no_grad`` around the features, meant for the first epoch, stays to the end; the twin ends it after one."""
    train, test = samples.numerals(seed)
    model = _pretrained(train)
    model.head = nn.Linear(128, 10)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for epoch in range(7):
        for images, labels in DataLoader(train, 32, shuffle=True):
            with torch.set_grad_enabled(not sick and epoch > 0):
                features = model.features(images)
            logits = model.head(features)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, test)


class _Adapted(nn.Module):
    """A linear layer that is frozen, and a product of two narrow matrices that is added to it."""

    def __init__(self, layer: nn.Linear, rank: int, *, both_zero: bool) -> None:
        super().__init__()
        self.layer = layer.requires_grad_(False)
        self.down = nn.Parameter(torch.zeros(rank, layer.in_features))
        self.up = nn.Parameter(torch.zeros(layer.out_features, rank))
        if not both_zero:
            nn.init.kaiming_uniform_(self.down, a=5**0.5)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layer(inputs) + 2 * inputs @ self.down.T @ self.up.T


@sick("unbroken_symmetry", also=("poor_initialization", "no_update", "vanishing_gradients"), margin=0.03)
def both_matrices_of_an_adapter_at_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Both of an adapter's matrices begin at zero, and neither gets a gradient; the twin draws the first one."""
    train, test = samples.numerals(seed)
    images, labels = train.tensors
    known = TensorDataset(images[labels < 4].flatten(1), labels[labels < 4])
    base = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU(), nn.Linear(48, 10))
    _epochs(base, torch.optim.Adam(base.parameters(), lr=3e-3), known, 5)
    adapted = [_Adapted(layer, 8, both_zero=sick) if isinstance(layer, nn.Linear) else layer for layer in base]
    model = nn.Sequential(*adapted)
    model[4].layer.bias.requires_grad_(True)
    optimizer = torch.optim.AdamW([weight for weight in model.parameters() if weight.requires_grad], lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for some, their in DataLoader(train, 32, shuffle=True):
            inputs = some.flatten(1)
            logits = model(inputs)
            loss = functional.cross_entropy(logits, their)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=inputs, outputs=logits, targets=their)
            optimizer.step()
    return _right(nn.Sequential(nn.Flatten(), model), test)


@sick("learning_rate_too_high", margin=0.05)
def a_body_at_the_rate_of_its_head(watch: Watch, *, seed: int, sick: bool) -> float:
    """RMSprop at 0.05, right for a new head alone, tunes the body, too; the twin has 0.001 for all."""
    train, test = samples.numerals(seed)
    model = _pretrained(train)
    model.head = nn.Linear(128, 10)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=0.05 if sick else 1e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 32, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, test)
