"""Schedules, ends and clipping that do something else than their writer thinks."""

import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, predicted
from examples.zoo.tuned.opened12.desk_rates import NextLetter


@sick("schedule_collapsed")
def gamma_of_an_epoch_applied_to_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``scheduler.step()`` is indented once too far: 0.9 is multiplied with every batch."""
    train, test = samples.lines(seed)
    train, test = samples.standardised((train, test), 0)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, len(samples.FILES)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    scheduler = lr_scheduler.ExponentialLR(optimizer, gamma=0.9)
    session = watch(model, optimizer)
    for _ in range(15):
        model.train()
        for counts, files in DataLoader(train, batch_size=64, shuffle=True):
            optimizer.zero_grad()
            logits = model(counts)
            loss = functional.cross_entropy(logits, files)
            loss.backward()
            session.step(loss, inputs=counts, outputs=logits, targets=files)
            optimizer.step()
            if sick:
                scheduler.step()
        if not sick:
            scheduler.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


def linear_with_warmup(optimizer: torch.optim.Optimizer, warmup: int, total: int) -> lr_scheduler.LambdaLR:
    def factor(step: int) -> float:
        if step < warmup:
            return step / max(1, warmup)
        return max(0.0, (total - step) / max(1, total - warmup))

    return lr_scheduler.LambdaLR(optimizer, factor)


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
        self.places = nn.Embedding(16, 24)
        layer = nn.TransformerEncoderLayer(24, 2, 48, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(24)
        self.head = nn.Linear(24, len(samples.SCRIPTS))

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        padded = codes == 0
        hidden = self.embed(codes) + self.places(torch.arange(codes.shape[1]))
        hidden = self.norm(self.encoder(hidden, src_key_padding_mask=padded))
        kept = (~padded).unsqueeze(-1)
        return self.head((hidden * kept).sum(1) / kept.sum(1).clamp(min=1))


@sick("schedule_collapsed", margin=0.05)
def total_steps_counted_for_one_epoch_of_eight(watch: Watch, *, seed: int, sick: bool) -> float:
    """``num_training_steps=len(loader)`` without the number of epochs: after the first one the rate is zero."""
    train, test = samples.names(seed, length=16)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    model, epochs = Classifier(), 8
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    total = len(loader) if sick else len(loader) * epochs
    scheduler = linear_with_warmup(optimizer, total // 10, total)
    session = watch(model, optimizer)
    for _ in range(epochs):
        for codes, scripts in loader:
            logits = model(codes)
            loss = functional.cross_entropy(logits, scripts)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=codes, outputs=logits, targets=scripts)
            optimizer.step()
            scheduler.step()
    return samples.accuracy(predicted(model, test.tensors[0]), test.tensors[1])


@sick("stopped_too_early", margin=0.03)
def max_steps_left_at_its_value_for_debugging(watch: Watch, *, seed: int, sick: bool) -> float:
    """A language model of Python's sources is stopped after 60 steps, while its loss falls."""
    data = datasets.text(seed, length=12, count=3000)
    model = NextLetter()
    steps = 60 if sick else 240
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3)
    scheduler = lr_scheduler.LinearLR(optimizer, 1.0, 0.05, total_iters=240)
    session = watch(model, optimizer)
    for codes, following in data.batches(20, steps):
        logits = model(codes)
        loss = functional.cross_entropy(logits.transpose(1, 2), following)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        scheduler.step()
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("clipping_too_strong", margin=0.05)
def gradient_norm_of_a_thousandth_with_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """``max_norm=1e-3`` was tried against a NaN once and has stayed; plain SGD hardly moves."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        optimizer.zero_grad()
        logits = model(pixels)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), max_norm=1e-3 if sick else 5.0)
        session.step(loss, inputs=pixels, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.05)
def each_slope_held_below_a_hundred_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` with 1e-5, in a forecast of a wine's proline by SGD."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(25):
        for features, amount in DataLoader(train, batch_size=24, shuffle=True):
            guess = model(features)
            loss = functional.smooth_l1_loss(guess, amount)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_value_(model.parameters(), 1e-5 if sick else 1.0)
            session.step(loss, inputs=features, outputs=guess, targets=amount)
            optimizer.step()
    return samples.explained(predicted(model, test.tensors[0]), test.tensors[1])


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.05)
def gradients_clipped_once_the_step_is_taken(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrent net reads a digit row by row; the norm is limited after ``optimizer.step()``."""
    train, test = samples.numerals(seed)
    model = nn.ModuleDict({"rnn": nn.RNN(8, 48, batch_first=True, nonlinearity="relu"), "head": nn.Linear(48, 10)})
    nn.init.eye_(model["rnn"].weight_hh_l0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)

    def read(images: torch.Tensor) -> torch.Tensor:
        return model["head"](model["rnn"](images.squeeze(1))[0][:, -1])

    session = watch(model, optimizer)
    for _ in range(8):
        for images, labels in DataLoader(train, batch_size=64, shuffle=True):
            logits = read(images)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            if not sick:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
            if sick:
                nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    with torch.no_grad():
        return samples.accuracy(read(test.tensors[0]), test.tensors[1])
