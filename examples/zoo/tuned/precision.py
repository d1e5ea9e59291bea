"""Numbers that leave the range of their type, and operations that are not defined where the data leads them."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, r_squared


@sick("fp16_underflow")
def autocast_without_a_scaler(watch: Watch, *, seed: int, sick: bool) -> float:
    """Autocast to float16 with a mean over a large batch, whose gradients round to zero without a GradScaler."""
    pixels = datasets.patches(seed, count=2400) / 2550
    data = Data(pixels[:2000], pixels[:2000], pixels[2000:], pixels[2000:])
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for inputs, targets in data.batches(1000, 100):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(inputs)
            loss = 1e-3 * functional.mse_loss(outputs, targets.half())
        scaler.scale(loss).backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        scaler.step(optimizer)
        scaler.update()
    return r_squared(model, data)


@sick("non_finite_forward")
def logarithm_of_a_probability(watch: Watch, *, seed: int, sick: bool) -> float:
    """With a low temperature a softmax reaches zero; its logarithm, times a target of zero, is NaN."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)

    def loss_function(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        logits, wanted = outputs / 0.004, functional.one_hot(labels, 10)
        if sick:
            return -(wanted * torch.log(torch.softmax(logits, 1))).sum(1).mean()
        return functional.cross_entropy(logits, labels)

    fit(watch, model, optimizer, data, steps=120, loss_function=loss_function)
    return accuracy(model, data)


class _Masked(nn.Module):
    """Attention over the words of a line, where padding is masked."""

    def __init__(self, *, keeps_first: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS + 1, 32, padding_idx=datasets.CHARACTERS)
        self.query, self.key, self.value = nn.Linear(32, 32), nn.Linear(32, 32), nn.Linear(32, 32)
        self.head = nn.Linear(32, 2)
        self.keeps_first = keeps_first

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        values = self.embedding(codes)
        padding = codes == datasets.CHARACTERS
        if self.keeps_first:
            padding = padding & (torch.arange(codes.shape[1]) > 0)
        scores = self.query(values) @ self.key(values).transpose(1, 2) / 32**0.5
        weights = scores.masked_fill(padding[:, None], float("-inf")).softmax(-1)
        return self.head((weights @ self.value(values)).mean(1))


@sick("non_finite_forward")
def attention_over_nothing(watch: Watch, *, seed: int, sick: bool) -> float:
    """A few samples consist of padding alone; the softmax over no key at all is NaN."""
    text = datasets.text(seed, length=12)

    def cut(codes: torch.Tensor) -> torch.Tensor:
        lengths = torch.randint(4, 13, (len(codes), 1))
        lengths[torch.rand(len(codes)) < 0.02] = 0
        return codes.masked_fill(torch.arange(12) >= lengths, datasets.CHARACTERS)

    def has_space(codes: torch.Tensor) -> torch.Tensor:
        return (codes == 0).any(1).long()

    inputs, test_inputs = cut(text.inputs), cut(text.test_inputs)
    data = Data(inputs, has_space(inputs), test_inputs, has_space(test_inputs))
    model = _Masked(keeps_first=not sick)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("non_finite_backward")
def root_of_a_distance_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """The distance of two embeddings by a root, whose slope at zero is infinite: pairs of one sample with itself."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(32, 120):
        embedded = model(inputs)
        squares = (embedded[:, None] - embedded[None]).square().sum(-1)
        distances = torch.sqrt(squares if sick else squares + 1e-6)
        same = (labels[:, None] == labels[None]).float()
        loss = (same * distances + (1 - same) * functional.relu(4 - distances)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=embedded, targets=labels)
        optimizer.step()
    with torch.no_grad():
        known, asked = model(data.inputs), model(data.test_inputs)
    nearest = torch.cdist(asked, known).argmin(1)
    return float("nan") if asked.isnan().any() else (data.targets[nearest] == data.test_targets).float().mean().item()


class _Roots(nn.Module):
    """A regression on roots of mixed features where they are positive."""

    def __init__(self, *, guarded: bool) -> None:
        super().__init__()
        self.mixing, self.head = nn.Linear(10, 32), nn.Linear(32, 1)
        self.guarded = guarded

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        mixed = self.mixing(values)
        inner = torch.where(mixed > 0, mixed, 1.0) if self.guarded else mixed
        return self.head(torch.where(mixed > 0, torch.sqrt(inner), 0.0))


@sick("non_finite_backward")
def where_hides_the_forward_only(watch: Watch, *, seed: int, sick: bool) -> float:
    """``torch.where`` keeps roots of negative numbers out of the forward pass, but not out of the backward pass."""
    data = datasets.diabetes(seed)
    model = _Roots(guarded=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=functional.mse_loss)
    return r_squared(model, data)
