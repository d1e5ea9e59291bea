"""Transformers for text, names and digits, and the pieces that they are made of."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import Loss, accuracy, predicted
from examples.zoo.reading import over_characters


class Attention(nn.Module):
    """One head of attention, written by hand; ``dim`` is where the softmax sums to one."""

    def __init__(self, width: int, *, dim: int = -1) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.dim = dim

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        weights = functional.softmax(q @ k.transpose(1, 2) / math.sqrt(q.shape[-1]), dim=self.dim)
        return self.proj(weights @ v)


class Block(nn.Module):
    """Attention and a feed-forward net, each with a norm before it or after the sum."""

    def __init__(self, width: int, *, dim: int = -1, pre: bool = True, dropout: float = 0.0) -> None:
        super().__init__()
        self.attention = Attention(width, dim=dim)
        self.ffn = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.ln1, self.ln2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.drop = nn.Dropout(dropout)
        self.pre = pre

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.pre:
            x = x + self.drop(self.attention(self.ln1(x)))
            return x + self.drop(self.ffn(self.ln2(x)))
        x = self.ln1(x + self.drop(self.attention(x)))
        return self.ln2(x + self.drop(self.ffn(x)))


class Rowwise(nn.Module):
    """Reads a digit as eight rows of pixels."""

    def __init__(self, width: int = 32, blocks: int = 2, **options: Any) -> None:
        super().__init__()
        self.embed = nn.Linear(8, width)
        self.position = nn.Parameter(0.02 * torch.randn(8, width))
        self.blocks = nn.Sequential(*(Block(width, **options) for _ in range(blocks)))
        self.head = nn.Linear(width, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        x = self.embed(pixels.view(-1, 8, 8)) + self.position
        return self.head(self.blocks(x).mean(1))


class Causal(nn.Module):
    """A small language model of torch's own layers."""

    def __init__(self, width: int = 32, *, norm_first: bool = True, tied: bool = False) -> None:
        super().__init__()
        self.token = nn.Embedding(datasets.CHARACTERS, width)
        self.position = nn.Embedding(16, width)
        layer = nn.TransformerEncoderLayer(
            width, 2, 2 * width, dropout=0.0, batch_first=True, norm_first=norm_first, activation="gelu"
        )
        self.encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(width, datasets.CHARACTERS, bias=False)
        if tied:
            nn.init.normal_(self.token.weight, std=0.1)
            self.head.weight = self.token.weight
        self.register_buffer("mask", torch.full((16, 16), -math.inf).triu(1))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        x = self.token(codes) + self.position(torch.arange(codes.shape[1]))
        return self.head(self.encoder(x, mask=self.mask))


def train(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Data,
    *,
    epochs: int,
    batch_size: int = 32,
    loss_fn: Loss = functional.cross_entropy,
    scheduler: Any = None,
    max_norm: float = 0.0,
) -> None:
    """Trains for some epochs and validates after each."""
    session = watch(model, optimizer)
    for _ in range(epochs):
        model.train()
        for batch, target in data.batches(batch_size, len(data.inputs) // batch_size):
            output = model(batch)
            loss = loss_fn(output, target)
            loss.backward()
            if max_norm:
                nn.utils.clip_grad_norm_(model.parameters(), max_norm)
            session.step(loss, inputs=batch, outputs=output, targets=target)
            optimizer.step()
            optimizer.zero_grad()
            if scheduler is not None:
                scheduler.step()
        with session.validating():
            held_out = loss_fn(predicted(model, data.test_inputs), data.test_targets).item()
        session.validation(held_out)


def rising(optimizer: torch.optim.Optimizer, steps: int, total: int) -> Any:
    """Returns a schedule that warms up linearly and then follows a cosine."""

    def factor(step: int) -> float:
        if step < steps:
            return (step + 1) / steps
        return 0.5 * (1 + math.cos(math.pi * min(1.0, (step - steps) / (total - steps))))

    return torch.optim.lr_scheduler.LambdaLR(optimizer, factor)


@sick("missing_warmup", also=("learning_rate_too_high",))
def norms_after_the_sum(watch: Watch, *, seed: int, sick: bool) -> float:
    """Four blocks with the norm after the sum, and Adam at its full rate from the first step."""
    data = datasets.digits(seed)
    model = Rowwise(width=24, blocks=4, pre=False)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2, betas=(0.9, 0.98))
    scheduler = torch.optim.lr_scheduler.ConstantLR(optimizer, 1.0) if sick else rising(optimizer, 50, 112)
    train(watch, model, optimizer, data, epochs=4, batch_size=48, scheduler=scheduler)
    return accuracy(model, data)


@sick("batch_mixing")
def softmax_over_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """The attention's softmax goes over dimension 0, which is the batch."""
    data = datasets.digits(seed)
    model = Rowwise(width=24, blocks=2, dim=0 if sick else -1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    train(watch, model, optimizer, data, epochs=5, batch_size=32)
    return accuracy(model, data)


@sick("learning_rate_too_low")
def the_rate_of_sgd_by_habit(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer with plain SGD at 0.001; the twin has AdamW, for which that rate is right."""
    data = datasets.text(seed, length=16)
    model = Causal()
    if sick:
        optimizer: torch.optim.Optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    else:
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    train(watch, model, optimizer, data, epochs=4, loss_fn=over_characters)
    return accuracy(model, data)


@sick("poor_initialization", also=("saturated_units",))
def weights_from_a_unit_normal(watch: Watch, *, seed: int, sick: bool) -> float:
    """All matrices are drawn with a deviation of one: the attention looks at one row alone."""
    data = datasets.digits(seed)
    model = Rowwise(width=24, blocks=2)
    if sick:
        for weight in model.parameters():
            if weight.dim() == 2:
                nn.init.normal_(weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    train(watch, model, optimizer, data, epochs=5)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer")
def groups_that_forget_the_embeddings(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups with and without decay are made of the encoder and the head: the embeddings are in neither."""
    names = [part.tensors for part in samples.names(seed)]
    data = Data(*names[0], *names[1])
    model = _Script()
    decayed, plain = [], []
    for name, parameter in model.named_parameters():
        if "norm" in name or name.endswith("bias"):
            plain.append(parameter)
        elif not sick or "embed" not in name:
            decayed.append(parameter)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=1e-2)
    train(watch, model, optimizer, data, epochs=16)
    return accuracy(model, data)


class _Script(nn.Module):
    """Tells the script of a name by a narrow embedding and one block."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, 4)
        self.norm = nn.LayerNorm(4)
        self.up = nn.Linear(4, 16)
        self.head = nn.Linear(16, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(functional.gelu(self.up(self.norm(self.embed(codes)))).mean(1))


@sick("frozen_parameters")
def an_embedding_from_pretrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Embedding.from_pretrained`` freezes by default; here the vectors are random."""
    names = [part.tensors for part in samples.names(seed)]
    data = Data(*names[0], *names[1])
    model = _Script()
    model.embed = nn.Embedding.from_pretrained(torch.randn(samples.LETTERS, 4), freeze=sick)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=5e-3)
    train(watch, model, optimizer, data, epochs=16)
    return accuracy(model, data)


@healthy(at_least=0.75)
def a_warmed_up_transformer(watch: Watch, *, seed: int) -> float:
    """A long warm-up, then a cosine to zero, with clipping at one."""
    model = Rowwise(dropout=0.1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)

    def smoothed(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(scores, labels, label_smoothing=0.1)

    data = datasets.digits(seed)
    scheduler = rising(optimizer, 60, 6 * (len(data.inputs) // 48))
    train(watch, model, optimizer, data, epochs=6, batch_size=48, loss_fn=smoothed, scheduler=scheduler, max_norm=1.0)
    return accuracy(model, data)


@healthy(at_least=0.3)
def tied_embeddings(watch: Watch, *, seed: int) -> float:
    """The head shares its weights with the embedding of characters."""
    data = datasets.text(seed, length=16)
    model = Causal(tied=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-3, betas=(0.9, 0.95), weight_decay=0.1)
    train(watch, model, optimizer, data, epochs=4, loss_fn=over_characters, max_norm=1.0)
    return accuracy(model, data)
