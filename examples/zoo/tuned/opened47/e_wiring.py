"""How things are connected: modes, gradients, parameters, and the axis of the batch."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.samples import explained
from examples.zoo.tuned.opened47.e_kit import letters, numerals, themselves


class Scan(nn.Module):
    """A recurrence over a digit's rows, which wants time first."""

    def __init__(self, *, viewed: bool) -> None:
        super().__init__()
        self.viewed = viewed
        self.recurrence, self.head = nn.GRU(8, 48), nn.Linear(48, 10)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        first = rows.reshape(8, len(rows), 8) if self.viewed else rows.transpose(0, 1)
        return self.head(self.recurrence(first)[1][-1])


@sick("batch_mixing", margin=0.2)
def time_first_by_reshape(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch becomes time-first by ``reshape``, which mixes its samples; the twin transposes."""
    data = numerals(seed, 8, 8)
    model = Scan(viewed=sick)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=5e-3), data, steps=150, batch_size=48)
    return accuracy(model, data)


@sick("gradients_not_zeroed", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def zeroing_at_an_epochs_begin(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are zeroed at the beginning of an epoch and grow until its end; the twin zeroes in each batch."""
    data = numerals(seed, 1, 8, 8)
    model = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(),
                          nn.Linear(256, 10))  # fmt: skip
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.8)
    session = watch(model, optimizer)
    for _ in range(5):
        optimizer.zero_grad()
        for inputs, labels in data.batches(32, -(-len(data.inputs) // 32)):
            if not sick:
                optimizer.zero_grad()
            outputs = model(inputs)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


class Bag(nn.Module):
    """The mean of some letters' vectors, and a line through it."""

    def __init__(self, vectors: nn.Embedding, width: int) -> None:
        super().__init__()
        self.vectors, self.head = vectors, nn.Linear(width, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.vectors(codes).mean(1))


@sick("frozen_parameters", margin=0.05)
def vectors_from_a_random_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """``from_pretrained`` freezes a table of random vectors, which should be learned; the twin says so."""
    data = letters(seed)
    vectors = nn.Embedding.from_pretrained(torch.randn(samples.LETTERS, 4), freeze=sick)
    model = Bag(vectors, 4)
    fit(watch, model, torch.optim.Adam(model.parameters(), lr=2e-2), data, steps=250, batch_size=48)
    return accuracy(model, data)


class Speller(nn.Module):
    """Letters, a recurrence over them, and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.embed, self.recurrence = nn.Embedding(samples.LETTERS, 16), nn.GRU(16, 24, batch_first=True)
        self.norm, self.head = nn.LayerNorm(24), nn.Linear(24, 8)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns logits."""
        return self.head(self.norm(self.recurrence(self.embed(codes))[0].mean(1)))


@sick("parameters_not_in_optimizer", margin=0.05)
def groups_by_kind_of_layer(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups with and without decay know linear layers and norms, not embeddings and recurrences; the twin's all."""
    data = letters(seed)
    model = Speller()
    decayed, plain = [], []
    for module in model.modules():
        if isinstance(module, nn.Linear) or (not sick and isinstance(module, nn.GRU)):
            decayed += module.parameters(recurse=False)
        elif isinstance(module, nn.LayerNorm) or (not sick and isinstance(module, nn.Embedding)):
            plain += module.parameters(recurse=False)
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": plain, "weight_decay": 0.0}]
    fit(watch, model, torch.optim.AdamW(groups, lr=1e-2), data, steps=160, batch_size=48)
    return accuracy(model, data)


class Bits(nn.Module):
    """An autoencoder with a code of bits."""

    def __init__(self, *, through: bool) -> None:
        super().__init__()
        self.through = through
        self.encode = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 12))
        self.decode = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Returns what was decoded."""
        soft = self.encode(inputs).sigmoid()
        bits = (soft > 0.5).float()
        return self.decode(bits + soft - soft.detach() if self.through else bits)


@sick("detached_parameters", margin=0.05)
def bit_codes_that_are_compared(watch: Watch, *, seed: int, sick: bool) -> float:
    """A code is compared with 0.5, through which no gradient goes; the twin passes it straight through."""
    data = themselves(numerals(seed, 64))
    model = Bits(through=not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=350, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


@sick("wrong_mode", also=("inputs_not_normalized",), margin=0.05)
def notebook_cell_left_in_eval(watch: Watch, *, seed: int, sick: bool) -> float:
    """A cell above left the model in eval mode, so its norms neither measure nor normalise; the twin calls train."""
    data = datasets.wine(seed, raw=True)
    model = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 3))
    model.eval()
    assert model(data.inputs[:2]).shape == (2, 3)
    model.train(not sick)
    fit(watch, model, torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9), data, steps=150, batch_size=34)
    return accuracy(model, data)
