"""Lines of Python, of which a net says from what file they come."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened20.b_stock import FILES, WORDS, balanced, tokens


@sick("learning_rate_too_high", margin=0.03)
def five_from_the_tutorial_with_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """The tutorial's SGD has a rate of 5, which stays as Adam takes its place; the twin has 0.01."""
    train, test = tokens(seed)
    model = nn.Sequential(nn.EmbeddingBag(WORDS, 32, padding_idx=0), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=5.0 if sick else 1e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        for lines, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(lines)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=lines, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("saturated_units", also=("poor_initialization",), margin=0.03)
def a_sum_of_embeddings_into_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """An ``EmbeddingBag`` sums a line's normal vectors, and tanh is flat there; the twin has ``mode="mean"``."""
    train, test = tokens(seed, each=400)
    bag = nn.EmbeddingBag(WORDS, 64, padding_idx=0, mode="sum" if sick else "mean")
    model = nn.Sequential(bag, nn.Tanh(), nn.Linear(64, 32), nn.Tanh(), nn.Linear(32, 6))
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for _ in range(5):
        for lines, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(lines)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=lines, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


class _Reader(nn.Module):
    """A small transformer encoder, whose mean over a line's tokens is classified."""

    def __init__(self, classes: int = 6, width: int = 32) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width, padding_idx=0)
        self.places = nn.Parameter(0.02 * torch.randn(16, width))
        self.encoder = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.1, batch_first=True, norm_first=True)
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, classes)

    def forward(self, lines: torch.Tensor) -> torch.Tensor:
        padding = lines == 0
        values = self.encoder(self.embedding(lines) + self.places, src_key_padding_mask=padding)
        kept = (~padding)[..., None]
        return self.head(self.norm((values * kept).sum(1) / kept.sum(1)))


@sick("over_regularized", margin=0.1)
def the_decay_of_adamw_in_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """``weight_decay=0.1`` was meant for AdamW, and Adam adds it to the gradients; the twin has AdamW."""
    train, test = tokens(seed)
    model = _Reader()
    kind = torch.optim.Adam if sick else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=3e-3, weight_decay=0.1)
    session = watch(model, optimizer)
    for _ in range(7):
        model.train()
        for lines, labels in DataLoader(train, 32, shuffle=True):
            outputs = model(lines)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=lines, outputs=outputs, targets=labels)
            optimizer.step()
        model.eval()
        with torch.no_grad(), session.validating():
            outputs = model(test.tensors[0])
        session.validation(functional.cross_entropy(outputs, test.tensors[1]).item())
    return samples.accuracy(outputs, test.tensors[1])


@sick("schedule_collapsed", margin=0.05)
def epochs_where_the_schedule_wants_steps(watch: Watch, *, seed: int, sick: bool) -> float:
    """A linear schedule counts epochs, but steps with each batch: its rate is soon 0; the twin counts batches."""
    train, test = tokens(seed)
    model, epochs = _Reader(), 8
    loader = DataLoader(train, 32, shuffle=True)
    total = epochs if sick else epochs * len(loader)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: max(0.0, 1 - step / total))
    session = watch(model, optimizer)
    for _ in range(epochs):
        for lines, labels in loader:
            outputs = model(lines)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=lines, outputs=outputs, targets=labels)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("single_class_labels", margin=0.15)
def a_name_compared_with_its_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """Files are looked for by ``label == "optparse.py"``, but labels are numbers; the twin compares numbers."""
    train, test = tokens(seed)
    wanted = "optparse.py" if sick else FILES.index("optparse.py")
    marks = torch.tensor([float(label == wanted) for label in train.tensors[1].tolist()])
    model = _Reader(classes=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for rows in torch.randperm(len(marks)).split(32):
            lines, targets = train.tensors[0][rows], marks[rows]
            outputs = model(lines)[:, 0]
            loss = functional.binary_cross_entropy_with_logits(outputs, targets, pos_weight=torch.tensor(5.0))
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=lines, outputs=outputs, targets=targets)
            optimizer.step()
    model.eval()
    with torch.no_grad():
        return balanced(model(test.tensors[0]), test.tensors[1] == FILES.index("optparse.py"))


class _Pooled(nn.Module):
    """Attention reads a line with four learned questions; its tokens' vectors may come without gradients."""

    def __init__(self, extracts: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, 24, padding_idx=0)
        self.context = nn.Conv1d(24, 24, 3, padding=1)
        self.questions = nn.Linear(24, 4, bias=False)
        self.head = nn.Linear(96, 6)
        self._extracts = extracts

    def features(self, lines: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.context(self.embedding(lines).transpose(1, 2))).transpose(1, 2)

    def forward(self, lines: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self._extracts):
            values = self.features(lines)
        weights = self.questions(values).masked_fill((lines == 0)[..., None], -1e9).softmax(1)
        return self.head((weights.transpose(1, 2) @ values).flatten(1))


@sick("detached_parameters", margin=0.03)
def features_under_no_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """``no_grad`` is left around features that once were pretrained, so they stay random; the twin's learn."""
    train, test = tokens(seed)
    model = _Pooled(extracts=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    session = watch(model, optimizer)
    for _ in range(7):
        for lines, labels in DataLoader(train, 32, shuffle=True):
            optimizer.zero_grad()
            outputs = model(lines)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=lines, outputs=outputs, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])
