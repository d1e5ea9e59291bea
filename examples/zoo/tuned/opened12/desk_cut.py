"""Parameters that no optimizer has, that are frozen, or that the loss does not reach."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted


class Embedded(nn.Module):
    """A bag of letters over given vectors."""

    def __init__(self, vectors: torch.Tensor, *, freeze: bool) -> None:
        super().__init__()
        self.embed = nn.Embedding.from_pretrained(vectors, freeze=freeze, padding_idx=0)
        self.head = nn.Linear(vectors.shape[1], len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        kept = (codes != 0).unsqueeze(-1)
        return self.head((self.embed(codes) * kept).sum(1) / kept.sum(1).clamp(min=1))


def _fit_epochs(
    watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, data: torch.utils.data.Dataset, epochs: int
) -> None:
    session = watch(model, optimizer)
    for _ in range(epochs):
        for x, y in DataLoader(data, batch_size=32, shuffle=True):
            optimizer.zero_grad()
            logits = model(x)
            loss = functional.cross_entropy(logits, y)
            loss.backward()
            session.step(loss, inputs=x, outputs=logits, targets=y)
            optimizer.step()


@sick("frozen_parameters", margin=0.05)
def from_pretrained_freezes_vectors_drawn_at_random(watch: Watch, *, seed: int, sick: bool) -> float:
    """``from_pretrained`` freezes by default, and no vectors were found for these letters, so they are noise."""
    train, test = samples.names(seed)
    model = Embedded(0.3 * torch.randn(samples.LETTERS, 6), freeze=sick)
    _fit_epochs(watch, model, torch.optim.Adam(model.parameters(), lr=2e-2), train, 15)
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("frozen_parameters", margin=0.05)
def body_frozen_for_transfer_without_weights_to_transfer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The recipe for transfer freezes all but the head, but ``pretrained=True`` was lost on the way."""
    train, test = samples.numerals(seed)
    body = nn.Sequential(
        nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(6, 12, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 24), nn.ReLU(),
    )  # fmt: skip
    model = nn.Sequential(body, nn.Linear(24, 10))
    if sick:
        for parameter in body.parameters():
            parameter.requires_grad = False
    _fit_epochs(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), train, 6)
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


class Stack(nn.Module):
    """Hidden layers in a list."""

    def __init__(self, *, registered: bool) -> None:
        super().__init__()
        layers = [nn.Linear(64, 16)] + [nn.Linear(16, 16) for _ in range(2)]
        self.hidden = nn.ModuleList(layers) if registered else layers
        self.out = nn.Linear(16, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.hidden:
            x = functional.relu(layer(x))
        return self.out(x)


@sick("parameters_not_in_optimizer", margin=0.05)
def hidden_layers_in_a_plain_python_list(watch: Watch, *, seed: int, sick: bool) -> float:
    """A list is no ``ModuleList``: ``parameters()`` knows the last layer alone."""
    data = datasets.digits(seed)
    model = Stack(registered=not sick)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=250)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.05)
def ten_classes_instead_of_two_after_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net that told two photographs apart gets a head for ten digits, after the optimizer was made."""
    scenes, _ = samples.scenes(seed, count=600)
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Conv2d(1, 8, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2))
    first = torch.optim.Adam(model.parameters(), lr=2e-3)
    for pictures, of_which in DataLoader(scenes, batch_size=64, shuffle=True):
        first.zero_grad()
        functional.cross_entropy(model(pictures.mean(1, keepdim=True)), of_which).backward()
        first.step()

    if not sick:
        model[-1] = nn.Linear(128, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    if sick:
        model[-1] = nn.Linear(128, 10)
    _fit_epochs(watch, model, optimizer, train, 6)
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("parameters_not_in_optimizer", margin=0.05)
def optimizer_of_the_decoder_without_the_encoder(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Adam(decoder.parameters())``: the encoder stays as it was drawn, and codes a digit in six numbers."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 6))
    decoder = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 64))
    model = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam((decoder if sick else model).parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 250):
        drawn = decoder(encoder(pixels))
        loss = functional.mse_loss(drawn, pixels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=drawn, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(decoder(encoder(data.test_inputs)), data.test_inputs)


class Encoded(nn.Module):
    """A small body whose features are handed on."""

    def __init__(self, *, cut: str) -> None:
        super().__init__()
        self.cut = cut
        self.body = nn.Sequential(nn.Linear(64, 12), nn.Tanh(), nn.Linear(12, 12), nn.Tanh())
        self.head = nn.Linear(12, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.cut == "no_grad":
            with torch.no_grad():
                features = self.body(x)
        else:
            features = self.body(x)
        if self.cut == "numpy":
            features = torch.from_numpy(features.detach().numpy())
        return self.head(features)


@sick("detached_parameters", margin=0.05)
def features_that_take_a_way_over_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """The error said to call ``detach`` first, and so the features go through an array on their way to the head."""
    data = datasets.digits(seed)
    model = Encoded(cut="numpy" if sick else "")
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=250)
    return accuracy(model, data)


@sick("detached_parameters", margin=0.05)
def no_grad_left_around_the_body(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ``with torch.no_grad()`` from the time when the body was a pretrained one."""
    train, test = samples.numerals(seed)
    flat = torch.utils.data.TensorDataset(train.tensors[0].flatten(1), train.tensors[1])
    model = Encoded(cut="no_grad" if sick else "")
    _fit_epochs(watch, model, torch.optim.AdamW(model.parameters(), lr=5e-3), flat, 6)
    return samples.accuracy(predicted(model, test.tensors[0].flatten(1)), test.tensors[1])
