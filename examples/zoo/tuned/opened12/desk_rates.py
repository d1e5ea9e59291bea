"""Rates: too high or too low, in a regression, a language model and a fine-tuning."""

import torch
from sklearn.datasets import load_diabetes
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


class NextLetter(nn.Module):
    def __init__(self, hidden: int = 48) -> None:
        super().__init__()
        self.embed = nn.Embedding(datasets.CHARACTERS, 24)
        self.rnn = nn.GRU(24, hidden, batch_first=True)
        self.head = nn.Linear(hidden, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        return self.head(self.rnn(self.embed(codes))[0])


@sick("learning_rate_too_high", margin=0.03)
def gru_on_source_code_at_a_third(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam gets 0.3 where 0.01 would do for a small recurrent net."""
    data = datasets.text(seed, length=12)
    model = NextLetter()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.3 if sick else 1.5e-2)
    decay = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, total_iters=180)
    session = watch(model, optimizer)
    criterion = nn.CrossEntropyLoss()
    for codes, following in data.batches(24, 180):
        optimizer.zero_grad()
        logits = model(codes)
        loss = criterion(logits.flatten(0, 1), following.flatten())
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        decay.step()
    with torch.no_grad():
        return (model(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("learning_rate_too_high", margin=0.05)
def progress_of_diabetes_by_sgd_at_a_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """A regression with momentum, whose rate was taken from an image classifier's start with batch norm."""
    features, progress = load_diabetes(return_X_y=True)
    rows = train_test_split(features, progress[:, None], test_size=0.25, random_state=seed)
    train_x, test_x, train_y, test_y = (
        torch.tensor(scaled, dtype=torch.float32)
        for fit, other in ((rows[0], rows[1]), (rows[2], rows[3]))
        for scaled in (StandardScaler().fit(fit).transform(fit), StandardScaler().fit(fit).transform(other))
    )
    model = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5 if sick else 5e-3, momentum=0.9)
    loader = DataLoader(TensorDataset(train_x, train_y), batch_size=32, shuffle=True)
    session = watch(model, optimizer)
    for _ in range(12):
        for x, y in loader:
            prediction = model(x)
            loss = functional.mse_loss(prediction, y)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=x, outputs=prediction, targets=y)
            optimizer.step()
    with torch.no_grad():
        return samples.explained(model(test_x), test_y)


def _backbone() -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(512, 64), nn.ReLU(),
    )  # fmt: skip


@sick("learning_rate_too_high", margin=0.05)
def fine_tuning_that_forgets_what_was_learnt(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net that knows digits is tuned to mirrored ones at the rate of an SGD from scratch."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(_backbone(), nn.Linear(64, 10))
    first = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(5):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            first.zero_grad()
            functional.cross_entropy(model(images), labels).backward()
            first.step()

    few = TensorDataset(train.tensors[0][:400].flip(3), train.tensors[1][:400])
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1 if sick else 3e-3)
    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(few, batch_size=32, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0].flip(3)), test.tensors[1])


@sick("learning_rate_too_low")
def cnn_from_scratch_at_the_rate_of_bert(watch: Watch, *, seed: int, sick: bool) -> float:
    """2e-5 comes from a notebook that tunes a large language model; this net starts from nothing."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(_backbone(), nn.Dropout(0.1), nn.Linear(64, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 2e-3)
    session = watch(model, optimizer)
    for _ in range(6):
        model.train()
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        model.eval()
        with session.validating(), torch.no_grad():
            session.validation(functional.cross_entropy(model(test.tensors[0]), test.tensors[1]).item())
    model.eval()
    with torch.no_grad():
        return samples.accuracy(model(test.tensors[0]), test.tensors[1])


@sick("learning_rate_too_low", margin=0.1)
def digits_coded_by_an_sgd_that_crawls(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder of digits by plain SGD at 0.001, whose mean squared errors have tiny slopes."""
    data = datasets.digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 12), nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 64)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3) if sick else torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pixels, _ in data.batches(64, 300):
        drawn = model(pixels)
        loss = functional.mse_loss(drawn, pixels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=pixels, outputs=drawn, targets=pixels)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(model(data.test_inputs), data.test_inputs)
