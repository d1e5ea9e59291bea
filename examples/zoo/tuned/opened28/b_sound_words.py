"""Sound trainings of letters and words that look odd: hidden letters, growing lengths, and restarts."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened28.b_stock import drawn

HIDDEN = 97


@healthy(at_least=0.3)
def letters_behind_a_mask(watch: Watch, *, seed: int) -> float:
    """A reader of both directions fills in letters, of which 15 of 100 are hidden, and all others are ignored."""
    data = datasets.text(seed, length=20, count=1600)
    model = nn.ModuleDict(
        {
            "letters": nn.Embedding(datasets.CHARACTERS, 32),
            "reader": nn.GRU(32, 32, batch_first=True, bidirectional=True),
            "head": nn.Linear(64, datasets.CHARACTERS),
        }
    )

    def hide(texts: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        hidden = torch.rand(texts.shape) < 0.15
        return texts.masked_fill(hidden, HIDDEN), texts.masked_fill(~hidden, -100)

    def read(texts: torch.Tensor) -> torch.Tensor:
        return model["head"](model["reader"](model["letters"](texts))[0])

    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    for _ in range(130):
        shown, wanted = hide(drawn(32, data.inputs)[0])
        logits = read(shown)
        loss = functional.cross_entropy(logits.flatten(0, 1), wanted.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=shown, outputs=logits, targets=wanted)
        optimizer.step()
    shown, wanted = hide(data.test_inputs)
    with torch.no_grad():
        right = read(shown).argmax(-1) == wanted
    return (right.sum() / (wanted >= 0).sum()).item()


@healthy(at_least=0.55)
def names_cut_to_more_and_more_letters(watch: Watch, *, seed: int) -> float:
    """A curriculum by length: names are cut to 8, 16 and 24 letters, with warm restarts of the rate at each."""
    train, (names, scripts) = (part.tensors for part in samples.names(seed))

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.EmbeddingBag(samples.LETTERS * samples.LETTERS, 32, mode="mean")
            self.drop, self.head = nn.Dropout(0.2), nn.Linear(32, len(samples.SCRIPTS))

        def forward(self, names: torch.Tensor) -> torch.Tensor:
            pairs = names[:, :-1] * samples.LETTERS + names[:, 1:]
            return self.head(self.drop(self.letters(pairs)))

    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-2)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 100, eta_min=1e-3)
    session = watch(model, optimizer)
    for step in range(300):
        batch, of = drawn(32, *train)
        batch = batch[:, : 8 * (1 + step // 100)]
        logits = model(batch)
        loss = functional.cross_entropy(logits, of)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=batch, outputs=logits, targets=of)
        optimizer.step()
        scheduler.step()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(names), scripts)
