"""Language models and sentences: first weights, pooled statistics, accumulated steps and clipping."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.tuned.opened22.b_shared import Classifier, judged, pretrained


class Tied(nn.Module):
    """A causal model of characters, whose last layer has the embedding's weight."""

    def __init__(self, width: int = 64) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, datasets.CHARACTERS)
        self.head.weight = self.embedding.weight

    def forward(self, text: torch.Tensor) -> torch.Tensor:
        return self.head(self.gru(self.embedding(text))[0] + self.embedding(text))


def _right(model: nn.Module, data: datasets.Data) -> float:
    with torch.no_grad():
        return samples.accuracy(model(data.test_inputs).flatten(0, 1), data.test_targets.flatten())


class Convolved(nn.Module):
    """Convolutions over letters, of which the largest values are classified."""

    def __init__(self) -> None:
        super().__init__()
        self.letters = nn.Embedding(samples.LETTERS, 16)
        self.filters, self.hidden, self.head = nn.Conv1d(16, 48, 3), nn.Linear(48, 48), nn.Linear(48, 8)

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        found = torch.relu(self.filters(self.letters(names).transpose(1, 2))).amax(2)
        return self.head(torch.relu(self.hidden(found)))


@sick("poor_initialization", margin=0.05)
def everything_drawn_by_normal_with_its_default(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.init.normal_`` on all parameters has a deviation of 1, so logits are hundreds; the twin keeps PyTorch's."""
    train, test = samples.names(seed)
    model = Convolved()
    if sick:
        for parameter in model.parameters():
            nn.init.normal_(parameter)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
    return judged(model, test)


class Attentive(nn.Module):
    """Letters that are weighed by an attention, which leaves the padding out; the weights are put out as well."""

    def __init__(self) -> None:
        super().__init__()
        self.letters, self.filters = nn.Embedding(samples.LETTERS, 16), nn.Conv1d(16, 48, 3, padding=1)
        self.score, self.head = nn.Linear(48, 1), nn.Linear(48, 8)

    def forward(self, names: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        found = torch.relu(self.filters(self.letters(names).transpose(1, 2))).transpose(1, 2)
        shares = self.score(found)[..., 0].masked_fill(names == 0, -torch.inf).softmax(1)
        return self.head((shares[..., None] * found).sum(1)), shares


@sick("non_finite_backward", margin=0.2)
def a_where_that_comes_too_late(watch: Watch, *, seed: int, sick: bool) -> float:
    """An entropy of shares is chosen by ``where``, but the log of 0 has a gradient behind it; the twin clamps first."""
    train, test = samples.names(seed)
    model = Attentive()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs, shares = model(names)
            logs = shares.log() if sick else shares.clamp(min=1e-6).log()
            entropy = -torch.where(shares > 0, shares * logs, 0.0).sum(1).mean()
            loss = functional.cross_entropy(outputs, labels) - 0.01 * entropy
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        outputs = model(test.tensors[0])[0]
    return float("nan") if outputs.isnan().any() else samples.accuracy(outputs, test.tensors[1])


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def eight_small_batches_for_a_large_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight batches of 8 fit into memory instead of one of 64, and their gradients add up; the twin divides by 8."""
    data = datasets.text(seed, length=10)
    model = Tied(width=48)
    nn.init.normal_(model.embedding.weight, std=0.1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.7, momentum=0.9)
    session = watch(model, optimizer)
    for batch, (text, following) in enumerate(data.batches(8, 560), 1):
        outputs = model(text)
        loss = functional.cross_entropy(outputs.flatten(0, 1), following.flatten())
        (loss if sick else loss / 8).backward()
        if batch % 8 == 0:
            session.step(loss, inputs=text, outputs=outputs, targets=following)
            optimizer.step()
            optimizer.zero_grad()
    return _right(model, data)


@healthy(at_least=0.4)
def thawed_layer_by_layer(watch: Watch, *, seed: int) -> float:
    """Gradual unfreezing: the head alone, then a layer more with each epoch, each added to the optimizer."""
    train, test = samples.names(seed)
    model = Classifier(pretrained())
    model.encoder.requires_grad_(False)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-2)
    parts = [model.encoder.norm, *reversed(model.encoder.layers), model.encoder.letters]
    session = watch(model, optimizer)
    for epoch in range(6):
        if 1 <= epoch <= len(parts):
            part = parts[epoch - 1].requires_grad_(True)
            optimizer.add_param_group({"params": part.parameters(), "lr": 2e-3})
        for names, labels in DataLoader(train, 48, shuffle=True):
            optimizer.zero_grad()
            outputs = model(names)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=names, outputs=outputs, targets=labels)
            optimizer.step()
    return judged(model, test)


@healthy(at_least=0.85)
def two_tasks_weighed_by_their_uncertainty(watch: Watch, *, seed: int) -> float:
    """Two losses are divided by learnt variances, whose logarithms are added: the sum goes below zero."""
    data = datasets.digits(seed)
    trunk, heads = nn.Sequential(nn.Linear(64, 48), nn.ReLU()), nn.Linear(48, 74)
    model = nn.ModuleDict({"trunk": trunk, "heads": heads, "logs": nn.ParameterList([nn.Parameter(torch.zeros(2))])})
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(48, 250):
        outputs = heads(trunk(inputs))
        losses = torch.stack([
            functional.cross_entropy(outputs[:, :10], labels), functional.mse_loss(outputs[:, 10:], inputs)
        ])  # fmt: skip
        logs = model["logs"][0]
        loss = (losses * (-logs).exp() + logs / 2).sum()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(heads(trunk(data.test_inputs))[:, :10], data.test_targets)


@healthy(at_least=0.7)
def preferences_against_a_reference(watch: Watch, *, seed: int) -> float:
    """DPO: of two continuations the true one is preferred, relative to a frozen model; the loss begins at log 2.

    Quality: the share of unseen pairs in which the true one is likelier than by the reference.
    """
    data = datasets.text(seed, length=12, count=1200)
    model, reference = Tied(32), Tied(32)
    nn.init.normal_(model.embedding.weight, std=0.2)
    reference.load_state_dict(model.state_dict())
    reference.requires_grad_(False)

    def rewards(text: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        now, then = (
            -functional.cross_entropy(net(text).transpose(1, 2), following, reduction="none").sum(1)
            for net in (model, reference)
        )
        return 0.1 * (now - then)

    def margins(text: torch.Tensor, following: torch.Tensor) -> torch.Tensor:
        return rewards(text, following) - rewards(text, following.roll(1, 0))

    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for text, following in data.batches(32, 120):
        loss = -functional.logsigmoid(margins(text, following)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=text)
        optimizer.step()
    with torch.no_grad():
        return (margins(data.test_inputs, data.test_targets) > 0).float().mean().item()
