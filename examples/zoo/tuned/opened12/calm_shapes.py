"""Sound trainings of models of many shapes."""

import math

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, predicted


class Packed(nn.Module):
    """A GRU that reads the letters of a name without its padding."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.rnn = nn.GRU(24, 40, batch_first=True)
        self.head = nn.Linear(40, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        lengths = (codes != 0).sum(1).clamp(min=1)
        letters = pack_padded_sequence(self.embed(codes), lengths, batch_first=True, enforce_sorted=False)
        return self.head(self.rnn(letters)[1][0])


@healthy(at_least=0.45)
def names_of_many_lengths_packed(watch: Watch, *, seed: int) -> float:
    """Sequences of many lengths, packed; the norm of the gradients is limited, as usual for recurrent nets."""
    train, test = samples.names(seed, length=14)
    model = Packed()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for codes, scripts in DataLoader(train, batch_size=48, shuffle=True):
            logits = model(codes)
            loss = functional.cross_entropy(logits, scripts)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=codes, outputs=logits, targets=scripts)
            optimizer.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


class Causal(nn.Module):
    """One block of causal attention over characters, whose head shares its weights with the embedding."""

    def __init__(self, width: int = 32, length: int = 12) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS, width)
        nn.init.normal_(self.embed.weight, std=0.05)
        self.places = nn.Parameter(torch.zeros(length, width))
        self.norm, self.norm2, self.norm3 = (nn.LayerNorm(width) for _ in range(3))
        self.attend = nn.MultiheadAttention(width, 2, batch_first=True)
        self.feed = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.register_buffer("mask", torch.triu(torch.ones(length, length, dtype=torch.bool), 1))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        x = self.embed(codes) + self.places
        y = self.norm(x)
        x = x + self.attend(y, y, y, attn_mask=self.mask, need_weights=False)[0]
        x = x + self.feed(self.norm2(x))
        return functional.linear(self.norm3(x), self.embed.weight)


@healthy(at_least=0.35)
def small_gpt_with_tied_weights(watch: Watch, *, seed: int) -> float:
    """A language model with a ramp, a cosine, clipping, and no decay for vectors."""
    data = datasets.text(seed, length=12, count=3000)
    model = Causal()
    matrices = [weight for weight in model.parameters() if weight.dim() > 1]
    vectors = [weight for weight in model.parameters() if weight.dim() < 2]
    optimizer = torch.optim.AdamW(
        [{"params": matrices, "weight_decay": 0.1}, {"params": vectors, "weight_decay": 0.0}], lr=6e-3
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda step: min((step + 1) / 20, 0.5 + 0.5 * math.cos(math.pi * step / 240))
    )
    session = watch(model, optimizer)
    for codes, following in data.batches(24, 240):
        logits = model(codes)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        schedule.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


class Experts(nn.Module):
    """Four experts of which each digit gets two, and a loss that spreads the digits among them."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Linear(64, 4)
        self.experts = nn.ModuleList(nn.Sequential(nn.Linear(64, 24), nn.ReLU(), nn.Linear(24, 10)) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        shares = self.gate(x).softmax(1)
        best, chosen = shares.topk(2, 1)
        weights = torch.zeros_like(shares).scatter(1, chosen, best / best.sum(1, keepdim=True))
        self.spread = 4 * ((weights > 0).float().mean(0) * shares.mean(0)).sum()
        return torch.einsum("ne,enc->nc", weights, torch.stack([expert(x) for expert in self.experts]))


@healthy(at_least=0.9)
def two_of_four_experts(watch: Watch, *, seed: int) -> float:
    """A mixture of experts with a small balancing loss."""
    data = datasets.digits(seed)
    model = Experts()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 220):
        logits = model(pixels)
        loss = functional.cross_entropy(logits, labels) + 0.01 * model.spread
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class Neighbours(nn.Module):
    """Two layers of graph convolution over a fixed graph."""

    def __init__(self, graph: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("graph", graph)
        self.first, self.second = nn.Linear(13, 16), nn.Linear(16, 3)

    def forward(self, features: torch.Tensor) -> torch.Tensor:
        hidden = functional.dropout(functional.relu(self.graph @ self.first(features)), 0.3, self.training)
        return self.graph @ self.second(hidden)


@healthy(at_least=0.85)
def wines_on_a_graph_with_thirty_labels(watch: Watch, *, seed: int) -> float:
    """The whole graph is every batch: 30 wines are labelled, and the others are what it is judged by."""
    data = datasets.wine(seed)
    features, kinds = torch.cat([data.inputs, data.test_inputs]), torch.cat([data.targets, data.test_targets])
    near = torch.cdist(features, features).topk(8, largest=False).indices
    links = torch.zeros(len(features), len(features)).scatter(1, near, 1.0)
    links = ((links + links.T) > 0).float()
    scale = links.sum(1).rsqrt()
    model = Neighbours(scale[:, None] * links * scale)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
    session = watch(model, optimizer)
    for _ in range(150):
        model.train()
        logits = model(features)
        loss = functional.cross_entropy(logits[:30], kinds[:30])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss)
        optimizer.step()
    return samples.accuracy(predicted(model, features)[30:], kinds[30:])


@healthy(at_least=0.9)
def convolutions_under_bfloat16(watch: Watch, *, seed: int) -> float:
    """Autocast to bfloat16 around the forward pass and the loss, with weights in float32 and no scaler."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.GroupNorm(4, 16),
        nn.SiLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(256, 10),
    )
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 120):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)
