"""Recurrent nets and transformers that tag source code and name the script of a letter."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, Subset

from examples.zoo.cases import Watch, sick
from examples.zoo.samples import accuracy
from examples.zoo.tuned.opened18.b_stock import KINDS, SYMBOLS, tagged


class _Tagger(nn.Module):
    """A transformer of two layers that names the kind of each character."""

    def __init__(self, *, batch_first: bool = True, norm_first: bool = True, width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(SYMBOLS, width)
        self.places = nn.Parameter(0.1 * torch.randn(24, width))
        layer = nn.TransformerEncoderLayer(
            width, 4, 64, dropout=0.0, batch_first=batch_first, norm_first=norm_first
        )  # fmt: skip
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, len(KINDS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.letters(codes) + self.places))


def _train(watch: Watch, model: nn.Module, optimizer: torch.optim.Optimizer, seed: int, *, epochs: int = 5) -> float:
    """Trains a tagger in an ordinary loop, and returns how often it is right."""
    train, test = tagged(seed)
    session = watch(model, optimizer)
    for _ in range(epochs):
        for codes, kinds in DataLoader(train, 32, shuffle=True):
            outputs = model(codes)
            loss = functional.cross_entropy(outputs.flatten(0, 1), kinds.flatten())
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=outputs, targets=kinds)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return accuracy(model(test.tensors[0]), test.tensors[1])


@sick("batch_mixing", margin=0.03)
def a_transformer_without_batch_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """``batch_first=True`` is missing, and letters attend to other rows of the batch; the twin has it."""
    model = _Tagger(batch_first=not sick)
    return _train(watch, model, torch.optim.AdamW(model.parameters(), lr=3e-3), seed)


@sick("learning_rate_too_high")
def the_rate_of_sgd_in_adamw(watch: Watch, *, seed: int, sick: bool) -> float:
    """``SGD(lr=0.1)`` became ``AdamW(lr=0.1)`` for a transformer; the twin's rate is 0.003."""
    model = _Tagger(norm_first=False)
    return _train(watch, model, torch.optim.AdamW(model.parameters(), lr=0.1 if sick else 3e-3), seed, epochs=4)


class _Recurrent(nn.Module):
    """A net of one recurrent layer that reads both ways and names the kind of each character."""

    def __init__(self, cell: type[nn.RNNBase], width: int = 32) -> None:
        super().__init__()
        self.letters = nn.Embedding(SYMBOLS, 16)
        self.layer = cell(16, width, batch_first=True, bidirectional=True)  # type: ignore[call-arg, arg-type]
        self.head = nn.Linear(2 * width, len(KINDS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.layer(self.letters(codes))[0])


@sick("saturated_units", also=("poor_initialization",), margin=0.03)
def uniform_between_minus_one_and_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """All weights of a tanh recurrence are drawn by ``uniform_(-1, 1)``; the twin keeps PyTorch's."""
    model = _Recurrent(nn.RNN, 64)
    if sick:
        for weight in model.layer.parameters():
            nn.init.uniform_(weight, -1, 1)
    return _train(watch, model, torch.optim.Adam(model.parameters(), lr=2e-3), seed)


@sick("over_regularized", margin=0.1)
def the_decay_of_adamw_in_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """``weight_decay=0.1`` comes from AdamW, but SGD at 0.5 takes a twentieth of all in a step; the twin's is 1e-5."""
    model = _Recurrent(nn.GRU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9, weight_decay=0.1 if sick else 1e-5)
    return _train(watch, model, optimizer, seed)


@sick("overfitting", margin=0.1)
def forty_windows_from_debugging(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Subset(train, range(40))`` was left from debugging, and is learnt by heart; the twin reads all windows."""
    train, test = tagged(seed)
    model = _Recurrent(nn.LSTM, 48)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    loader = DataLoader(Subset(train, range(40)) if sick else train, 20, shuffle=True)
    step = 0
    while step < 240:
        for codes, kinds in loader:
            outputs = model(codes)
            loss = functional.cross_entropy(outputs.transpose(1, 2), kinds)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=outputs, targets=kinds)
            optimizer.step()
            step += 1
            if step % 20 == 0:
                with torch.no_grad(), session.validating():
                    held_out = functional.cross_entropy(model(test.tensors[0]).transpose(1, 2), test.tensors[1])
                session.validation(held_out.item())
    with torch.no_grad():
        return accuracy(model(test.tensors[0]), test.tensors[1])


@sick("class_imbalance", margin=0.1)
def which_letters_are_of_a_keyword(watch: Watch, *, seed: int, sick: bool) -> float:
    """Few characters are of a keyword, and all count alike; the twin weighs them by rarity. Quality: mean recall."""
    train, test = tagged(seed)
    model = _Recurrent(nn.GRU, 12)
    model.head = nn.Linear(24, 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    rare = (train.tensors[1] == 2).float().mean()
    weight = torch.ones(()) if sick else (1 - rare) / rare
    for _ in range(4):
        for codes, kinds in DataLoader(train, 32, shuffle=True):
            outputs, targets = model(codes)[..., 0], (kinds == 2).float()
            loss = functional.binary_cross_entropy_with_logits(outputs, targets, pos_weight=weight)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=outputs, targets=targets)
            optimizer.step()
    with torch.no_grad():
        found, true = model(test.tensors[0])[..., 0] > 0, test.tensors[1] == 2
    return ((found[true].float().mean() + (~found[~true]).float().mean()) / 2).item()
