"""The next character of Python's own sources, by small transformers and recurrent nets."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick

SYMBOLS = datasets.CHARACTERS


class _Block(nn.Module):
    def __init__(self, width: int, heads: int, length: int) -> None:
        super().__init__()
        self.norms = nn.ModuleList([nn.LayerNorm(width), nn.LayerNorm(width)])
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.register_buffer("ahead", torch.ones(length, length).triu(1).bool())

    def _looked(self, hidden: torch.Tensor) -> torch.Tensor:
        return self.attention(hidden, hidden, hidden, attn_mask=self.ahead, need_weights=False)[0]

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        first, second = self.norms
        hidden = hidden + self._looked(first(hidden))
        return hidden + self.mlp(second(hidden))


class _Writer(nn.Module):
    """A small decoder, whose head may share its weights with the embedding."""

    def __init__(self, *, length: int = 24, width: int = 32, blocks: int = 1) -> None:
        super().__init__()
        self.embedding, self.places = nn.Embedding(SYMBOLS, width), nn.Embedding(length, width)
        self.blocks = nn.Sequential(*(_Block(width, 4, length) for _ in range(blocks)))
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, SYMBOLS, bias=False)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        hidden = self.embedding(codes) + self.places.weight[: codes.shape[1]]
        return self.head(self.norm(self.blocks(hidden)))


class _Recurrent(nn.Module):
    def __init__(self, width: int = 48) -> None:
        super().__init__()
        self.embedding, self.reader = nn.Embedding(SYMBOLS, 24), nn.GRU(24, width, batch_first=True)
        self.head = nn.Linear(width, SYMBOLS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.reader(self.embedding(codes))[0])


def _nats(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(logits.flatten(0, 1), codes.flatten())


@torch.no_grad()
def _quality(model: nn.Module, data: datasets.Data) -> float:
    """Returns by how much the held-out loss is below that of a guess among all symbols, as a share of it."""
    return 1 - _nats(model(data.test_inputs), data.test_targets).item() / 4.585


@sick("duplicated_data", also=("overfitting",), margin=0.05)
def a_seed_set_within_get_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``get_batch`` sets the seed before it draws, so each batch is the same one; the twin sets it before the loop."""
    data = datasets.text(seed, length=24)
    model = _Writer(width=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)

    def get_batch() -> tuple[torch.Tensor, torch.Tensor]:
        if sick:
            torch.manual_seed(1337)
        rows = torch.randint(len(data.inputs), (24,))
        return data.inputs[rows], data.targets[rows]

    torch.manual_seed(1337 + seed)
    for _ in range(200):
        codes, following = get_batch()
        logits = model(codes)
        loss = _nats(logits, following)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
    return _quality(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"))
def characters_summed_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` over 768 characters, at a rate for their mean; the twin takes the mean."""
    data = datasets.text(seed, length=24)
    model = _Recurrent()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    criterion = nn.CrossEntropyLoss(reduction="sum" if sick else "mean")
    session = watch(model, optimizer)
    for _ in range(6):
        for codes, following in DataLoader(TensorDataset(data.inputs, data.targets), 32, shuffle=True):
            optimizer.zero_grad()
            logits = model(codes)
            loss = criterion(logits.transpose(1, 2), following)
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
    return _quality(model, data)


@sick("poor_initialization", margin=0.05)
def a_head_tied_to_an_embedding_of_deviation_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head shares the embedding, drawn with a deviation of 1: the loss starts near 40; the twin draws at 0.02."""
    data = datasets.text(seed, length=24)
    model = _Writer(width=64)
    model.head.weight = model.embedding.weight
    if not sick:
        nn.init.normal_(model.embedding.weight, std=0.02)
        nn.init.normal_(model.places.weight, std=0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.01)
    session = watch(model, optimizer)
    for _ in range(4):
        for codes, following in DataLoader(TensorDataset(data.inputs, data.targets), 32, shuffle=True):
            logits = model(codes)
            loss = _nats(logits, following)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            session.step(loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
    return _quality(model, data)


@sick("gradients_not_zeroed", margin=0.05)
def zeroed_once_in_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands a line too high, before the loop over batches; the twin has it within."""
    data = datasets.text(seed, length=24)
    model = _Recurrent()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        optimizer.zero_grad()
        for codes, following in DataLoader(TensorDataset(data.inputs, data.targets), 32, shuffle=True):
            if not sick:
                optimizer.zero_grad()
            logits = model(codes)
            loss = _nats(logits, following)
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
    return _quality(model, data)


@sick("stopped_too_early", also=("learning_rate_too_low",), margin=0.05)
def the_step_limit_of_a_trial_run(watch: Watch, *, seed: int, sick: bool) -> float:
    """A limit of 60 steps, set to try out the code, is still in: the loss falls to the end; the twin takes 360."""
    data = datasets.text(seed, length=16)
    model = _Recurrent()
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)
    session = watch(model, optimizer)
    step, limit = 0, 60 if sick else 360
    while step < limit:
        for codes, following in DataLoader(TensorDataset(data.inputs, data.targets), 32, shuffle=True):
            logits = model(codes)
            loss = _nats(logits, following)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=following)
            optimizer.step()
            step += 1
            if step % 30 == 0:
                with torch.no_grad(), session.validating():
                    held_out = _nats(model(data.test_inputs), data.test_targets).item()
                session.validation(held_out)
            if step >= limit:
                break
    return _quality(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def eight_windows_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch that is too large for memory is read in eight parts, whose gradients add up; the twin divides by 8."""
    data = datasets.text(seed, length=12, count=1300)
    model = _Recurrent(32)
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0, momentum=0.9)
    session = watch(model, optimizer)
    waiting = 0
    for _ in range(4):
        for codes, following in DataLoader(TensorDataset(data.inputs, data.targets), 8, shuffle=True, drop_last=True):
            logits = model(codes)
            loss = _nats(logits, following)
            (loss if sick else loss / 8).backward()
            waiting += 1
            if waiting % 8 == 0:
                session.step(loss, inputs=codes, outputs=logits, targets=following)
                optimizer.step()
                optimizer.zero_grad()
    return _quality(model, data)
