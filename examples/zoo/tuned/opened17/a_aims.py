"""What is asked of a net: signs, penalties and likelihoods, and how much it gets to see."""

import torch
from torch import nn
from torch.distributions import Categorical
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import samples
from examples.zoo.cases import Watch, sick

SCRIPTS = len(samples.SCRIPTS)


def _pictures(classes: int = 10) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 24, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(96, classes),
    )  # fmt: skip


def _right(model: nn.Module, test: TensorDataset) -> float:
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


class _Windows(nn.Module):
    """Reads a name by windows of three letters."""

    def __init__(self, width: int = 32) -> None:
        super().__init__()
        self.embedding, self.windows = nn.Embedding(samples.LETTERS, 16), nn.Conv1d(16, width, 3, padding=1)
        self.dropout, self.head = nn.Dropout(0.2), nn.Linear(width, SCRIPTS)

    def forward(self, names: torch.Tensor) -> torch.Tensor:
        hidden = torch.relu(self.windows(self.embedding(names).transpose(1, 2)))
        return self.head(self.dropout(hidden.amax(2)))


@sick("flipped_loss_sign", margin=0.1)
def the_log_prob_of_a_categorical(watch: Watch, *, seed: int, sick: bool) -> float:
    """The mean of ``log_prob`` is taken for a loss and made as small as can be; the twin takes minus that."""
    train, test = samples.names(seed)
    model = _Windows()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        for names, scripts in DataLoader(train, 32, shuffle=True):
            logits = model(names)
            likelihood = Categorical(logits=logits).log_prob(scripts).mean()
            loss = likelihood if sick else -likelihood
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=names, outputs=logits, targets=scripts)
            optimizer.step()
    return _right(model, test)


@sick("over_regularized", margin=0.1)
def the_decay_of_adamw_given_to_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """A decay of 0.3, mild in AdamW, is a penalty in the gradients of Adam and rules them; the twin has AdamW."""
    train, test = samples.numerals(seed)
    model = _pictures()
    kind = torch.optim.Adam if sick else torch.optim.AdamW
    optimizer = kind(model.parameters(), lr=3e-3, weight_decay=0.3)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 40, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    return _right(model, test)


@sick("overfitting", margin=0.05)
def five_names_of_each_script(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net reads the same 40 names sixty times over and knows them by heart; the twin has fourteen times as many."""
    train, test = samples.names(seed)
    names, scripts = train.tensors
    few = torch.randperm(len(names))[: 40 if sick else 560]
    model = _Windows(64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for epoch in range(60 if sick else 6):
        model.train()
        for some, their in DataLoader(TensorDataset(names[few], scripts[few]), 20 if sick else 28, shuffle=True):
            logits = model(some)
            loss = functional.cross_entropy(logits, their)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=some, outputs=logits, targets=their)
            optimizer.step()
        if epoch % 10 == 9 or not sick:
            model.eval()
            with torch.no_grad(), session.validating():
                held_out = functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item()
            session.validation(held_out)
    return _right(model, test)


@sick("wrong_output_or_loss", margin=0.03)
def a_sigmoid_before_the_cross_entropy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Scores of ten classes end in a sigmoid, so the cross entropy's softmax stays flat; the twin has plain scores."""
    train, test = samples.numerals(seed)
    model = _pictures()
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 40, shuffle=True):
            optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    return _right(model, test)


class _Encoder(nn.Module):
    """Pairs of rows of a digit are four words; norms come after the sums, as in the first transformer."""

    def __init__(self, blocks: int = 4, width: int = 24) -> None:
        super().__init__()
        self.rows, self.places = nn.Linear(16, width), nn.Parameter(0.1 * torch.randn(4, width))
        layer = nn.TransformerEncoderLayer(width, 2, 48, dropout=0.0, batch_first=True, norm_first=False)
        self.blocks, self.head = nn.TransformerEncoder(layer, blocks, enable_nested_tensor=False), nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.blocks(self.rows(images.reshape(-1, 4, 16)) + self.places).mean(1))


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.05)
def the_peak_rate_from_the_first_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """Norms after the sums and Adam at its peak rate at once; the twin's rate rises over 50 steps, then both fall."""
    train, test = samples.numerals(seed)
    model = _Encoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1.5e-2, betas=(0.9, 0.98))
    rise, total = 1 if sick else 50, 160

    def factor(step: int) -> float:
        return min((step + 1) / rise, 1 - step / total)

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    session = watch(model, optimizer)
    for _ in range(5):
        for images, labels in DataLoader(train, 40, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            schedule.step()
    return _right(model, test)
