"""Sound trainings on text that look odd: weights of two uses, and zeros that stay."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened31.a_parts import each, loader, of, right


@healthy(at_least=0.37)
def a_writer_with_tied_weights(watch: Watch, *, seed: int) -> float:
    """A GRU's embedding is its head as well, warmed up and then slowed by a cosine."""
    data = datasets.text(seed, length=16)

    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(datasets.CHARACTERS, 56)
            nn.init.normal_(self.embed.weight, std=0.1)
            self.rnn = nn.GRU(56, 56, batch_first=True)
            self.head = nn.Linear(56, datasets.CHARACTERS)
            self.head.weight = self.embed.weight

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(self.embed(codes))[0])

    model = Tied()
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    warm = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=25)
    slow = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 275, eta_min=1e-4)
    schedule = torch.optim.lr_scheduler.SequentialLR(optimizer, [warm, slow], milestones=[25])
    fit(watch, model, optimizer, data, steps=300, batch_size=32, loss_function=each, scheduler=schedule)
    return right(model, data)


@healthy(at_least=0.6)
def names_padded_to_length(watch: Watch, *, seed: int) -> float:
    """Names are padded with 0, whose embedding stays zero, and the mean is over the letters alone."""
    data = of(samples.names(seed))

    class Bag(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(samples.LETTERS, 32, padding_idx=0)
            self.conv = nn.Conv1d(32, 64, 3, padding=1)
            self.drop, self.head = nn.Dropout(0.3), nn.Linear(64, len(samples.SCRIPTS))

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            real = (codes > 0)[:, None]
            letters = self.conv(self.embed(codes).mT).relu() * real
            return self.head(self.drop(letters.sum(-1) / real.sum(-1)))

    model = Bag()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for _ in range(14):
        for codes, labels in loader(data, 32):
            optimizer.zero_grad()
            logits = model(codes)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)
