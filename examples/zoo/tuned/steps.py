"""Steps that come out too small or too large: clipping, regularisation, warm-up."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.reading import Sight


@sick("clipping_too_strong", also=("learning_rate_too_low",))
def a_norm_of_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped to a norm of 0.001, a thousandth of what they have."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 150):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",))
def values_of_a_hundred_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each element of the gradient is clipped to 1e-5."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for inputs, targets in data.batches(32, 150):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_value_(model.parameters(), 1e-5 if sick else 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


class _RowByRow(nn.Module):
    """Reads a digit as a series of a few pixels each; its recurrence may amplify."""

    def __init__(self, steps: int, gain: float) -> None:
        super().__init__()
        self.steps = steps
        self.cell = nn.RNN(64 // steps, 32, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(32, 10)
        nn.init.orthogonal_(self.cell.weight_hh_l0, gain)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(images.view(len(images), self.steps, -1))
        return self.head(states[:, -1])


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"))
def clipped_after_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrent net needs its gradients clipped, and the loop clips them when the step has been made."""
    data = datasets.digits(seed)
    model = _RowByRow(16, gain=1.5)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 240):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        if not sick:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        if sick:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    return accuracy(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"))
def a_limit_that_nothing_reaches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped to a norm of a billion, which is no limit."""
    data = datasets.digits(seed)
    model = _RowByRow(8, gain=2.0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(48, 120):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1e9 if sick else 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class _PixelByPixel(nn.Module):
    """Reads a digit as a long series of pairs of pixels."""

    def __init__(self) -> None:
        super().__init__()
        self.cell = nn.RNN(2, 32, nonlinearity="relu", batch_first=True)
        self.head = nn.Linear(32, 10)
        nn.init.orthogonal_(self.cell.weight_hh_l0, 1.3)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        states, _ = self.cell(images.view(len(images), -1, 2))
        return self.head(states[:, -1])


@sick("exploding_gradients", also=("learning_rate_too_high",))
def a_recurrence_that_needs_clipping(watch: Watch, *, seed: int, sick: bool) -> float:
    """All is well until the recurrence has grown: then gradients grow a hundredfold, and what was learnt is lost."""
    data = datasets.digits(seed)
    model = _PixelByPixel()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 200):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        if not sick:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("exploding_gradients", also=("poor_initialization", "learning_rate_too_high"))
def a_recurrence_that_amplifies(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recurrent net of 16 steps whose recurrence doubles at each of them."""
    data = datasets.digits(seed)
    model = _RowByRow(16, gain=2.0 if sick else 1.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("over_regularized")
def decay_of_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """A weight decay of 1 with SGD pulls all weights to zero."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9, weight_decay=1.0 if sick else 1e-4)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


@sick("over_regularized")
def a_penalty_that_outweighs_the_loss(watch: Watch, *, seed: int, sick: bool) -> float:
    """An L1 penalty summed over all weights with a factor of 0.1."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 24), nn.ReLU(), nn.Linear(24, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(32, 160):
        outputs = model(inputs)
        penalty = sum(weight.abs().sum() for weight in model.parameters())
        loss = functional.cross_entropy(outputs, labels) + (0.1 if sick else 1e-4) * penalty
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("over_regularized")
def nearly_everything_dropped(watch: Watch, *, seed: int, sick: bool) -> float:
    """Two dropouts of 0.95, where 0.05 was meant."""
    data = datasets.digits(seed)
    chance = 0.95 if sick else 0.05
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(chance), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(chance),
        nn.Linear(64, 10),
    )  # fmt: skip
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, validate_every=50)
    return accuracy(model, data)


class _Transformer(nn.Module):
    """A small transformer on characters, with the norm after each block as in its first publication."""

    def __init__(self, width: int = 32, blocks: int = 6) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS, width)
        self.position = nn.Parameter(torch.randn(16, width) * 0.1)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 2 * width, dropout=0.0, batch_first=True) for _ in range(blocks)
        )
        self.head = nn.Linear(width, datasets.CHARACTERS)

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        mask = nn.Transformer.generate_square_subsequent_mask(codes.shape[1])
        values = self.embedding(codes) + self.position
        for block in self.blocks:
            values = block(values, src_mask=mask, is_causal=True)
        return self.head(values)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.02)
def full_rate_from_the_first_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A transformer with the norm after each block gets Adam's full rate at once; the twin gets to it in 60 steps."""
    data = datasets.text(seed, length=16)
    model = _Transformer()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0 if sick else 0.01, total_iters=60)
    session = watch(model, optimizer)
    for codes, following in data.batches(16, 140):
        logits = model(codes)
        loss = functional.cross_entropy(logits.flatten(0, 1), following.flatten())
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=following)
        optimizer.step()
        scheduler.step()
    return accuracy(model, data)


@sick("missing_warmup", also=("learning_rate_too_high",))
def a_vision_transformer_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """Norms behind the blocks and AdamW at full rate at once: outputs become constant. The twin's is lower, too."""
    data = datasets.digits(seed, images=True)
    model = Sight(blocks=6, norm_first=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2 if sick else 4e-3)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0 if sick else 0.02, total_iters=60)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, scheduler=scheduler)
    return accuracy(model, data)
