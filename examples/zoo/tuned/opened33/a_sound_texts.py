"""Sound readers of text that look odd."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, predicted
from examples.zoo.tuned.opened33.a_parts import forever, of


@healthy(at_least=0.65)
def bigrams_in_a_sparse_table(watch: Watch, *, seed: int) -> float:
    """Pairs of letters have a large table of embeddings with sparse gradients, most rows of which rest in a step."""
    data = of(samples.names(seed, length=16))

    class Bigrams(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.EmbeddingBag(samples.LETTERS**2, len(samples.SCRIPTS), mode="mean", sparse=True)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.table(codes[:, :-1] * samples.LETTERS + codes[:, 1:])

    model = Bigrams()
    optimizer = torch.optim.SparseAdam(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for codes, scripts in forever(data, 64, 120):
        optimizer.zero_grad()
        logits = model(codes)
        loss = functional.cross_entropy(logits, scripts)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=scripts)
        optimizer.step()
    return accuracy(model, data)


@healthy(at_least=0.33)
def most_targets_are_left_out(watch: Watch, *, seed: int) -> float:
    """A quarter of the characters is hidden and asked for; the targets of the others are -100."""
    data = datasets.text(seed, length=10, count=2400)
    model = _Hider()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for codes, _ in forever(data, 32, 240):
        hidden = torch.rand(codes.shape) < 0.25
        shown, wanted = codes.masked_fill(hidden, datasets.CHARACTERS), codes.masked_fill(~hidden, -100)
        logits = model(shown)
        loss = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=shown, outputs=logits, targets=wanted)
        optimizer.step()
    hidden = torch.rand(data.test_inputs.shape) < 0.15
    guessed = predicted(model, data.test_inputs.masked_fill(hidden, datasets.CHARACTERS)).argmax(-1)
    return (guessed == data.test_inputs)[hidden].float().mean().item()


class _Hider(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS + 1, 32)
        self.rnn = nn.GRU(32, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.embed(codes))[0])
