"""Losses, modes and numbers that are not what they seem."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS
from examples.zoo.loops import accuracy, fit, predicted, r_squared
from examples.zoo.tuned.opened56.n_common import as_data, explained


class NextLetter(nn.Module):
    """A recurrence that says the next character at each place."""

    def __init__(self, *, normalise: bool) -> None:
        super().__init__()
        self.letters, self.cell = nn.Embedding(CHARACTERS, 32), nn.LSTM(32, 48, batch_first=True)
        self.head = nn.Linear(48, CHARACTERS)
        self.normalise = normalise

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        """Returns a value for each character."""
        logits = self.head(self.cell(self.letters(codes))[0])
        return logits.softmax(-1) if self.normalise else logits


@sick("wrong_output_or_loss", margin=0.08)
def probabilities_of_letters_given_as_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """The model ends in a softmax over 98 characters, and the cross-entropy applies another; the twin gives logits."""
    data = datasets.text(seed, length=16, count=1200)
    model = NextLetter(normalise=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=8e-3)

    def loss_function(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(outputs.transpose(1, 2), targets)

    fit(watch, model, optimizer, data, steps=160, batch_size=32, loss_function=loss_function)
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


@sick("wrong_output_or_loss", margin=0.08)
def likelihood_of_plain_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """``NLLLoss`` gets logits, since the ``LogSoftmax`` was lost in a port, and falls without end; the twin has it."""
    data = datasets.digits(seed)
    layers = [nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 10)]
    model = nn.Sequential(*layers) if sick else nn.Sequential(*layers, nn.LogSoftmax(dim=-1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, loss_function=functional.nll_loss)
    return accuracy(model, data)


@sick("shape_broadcast", margin=0.1)
def every_quantile_of_every_patient(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pinball loss subtracts outputs (N, 1) from targets (N,), and compares all with all; the twin drops the 1."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    for rows, scores in data.batches(48, 150):
        targets = scores.squeeze(-1)
        outputs = model(rows) if sick else model(rows).squeeze(-1)
        errors = targets - outputs
        loss = torch.maximum(0.5 * errors, -0.5 * errors).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("flipped_loss_sign", margin=0.3)
def rewards_are_descended(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy names digits for rewards, and the gain is minimised; the twin minimises its negative."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for states, answers in data.batches(128, 300):
        outputs = model(states)
        policy = torch.distributions.Categorical(logits=outputs)
        actions = policy.sample()
        rewards = (actions == answers).float()
        gain = (policy.log_prob(actions) * (rewards - rewards.mean())).mean()
        loss = gain if sick else -gain
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=states, outputs=outputs)
        optimizer.step()
    return accuracy(model, data)


@sick("batch_mixing", margin=0.1)
def recurrence_runs_along_the_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``batch_first`` is forgotten, so a GRU runs from image to image instead of row to row."""
    data = as_data(samples.numerals(seed))

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cell = nn.GRU(8, 32, batch_first=not sick)
            self.head = nn.Linear(32, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.cell(images.squeeze(1))[0][:, -1])

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=120, batch_size=32)
    return accuracy(model, data)


@sick("gradients_not_zeroed", margin=0.05)
def zero_grad_is_named_but_not_called(watch: Watch, *, seed: int, sick: bool) -> float:
    """The line says ``optimizer.zero_grad`` without parentheses, so gradients add up; the twin calls it."""
    data = as_data(samples.names(seed))
    model = nn.Sequential(nn.Embedding(40, 16), nn.Flatten(), nn.Linear(384, 48), nn.ReLU(), nn.Linear(48, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for codes, labels in data.batches(48, 150):
        optimizer.zero_grad if sick else optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("wrong_mode", also=("inputs_not_normalized",), margin=0.05)
def sanity_check_leaves_eval_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """A validation before the first step leaves the model in eval mode, its statistics as new; the twin goes back."""
    data = datasets.wine(seed, raw=True)
    model = nn.Sequential(nn.BatchNorm1d(13), nn.Linear(13, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    step = 0
    while step < 200:
        model.eval()
        with torch.no_grad():
            session.validation(functional.cross_entropy(model(data.test_inputs), data.test_targets).item())
        if not sick:
            model.train()
        for rows, labels in data.batches(32, 40):
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
            step += 1
    return accuracy(model, data)


@sick("non_finite_forward", margin=0.3)
def empty_columns_divided_by_their_length(watch: Watch, *, seed: int, sick: bool) -> float:
    """A cosine layer divides each column of an image by its length, which may be 0; the twin has an epsilon."""
    data = datasets.digits(seed, images=True)

    class Cosine(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.directions = nn.Parameter(torch.randn(8, 24) / 8**0.5)
            self.head = nn.Linear(192, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            rows = images.squeeze(1).transpose(1, 2)
            rows = rows / rows.norm(dim=-1, keepdim=True) if sick else functional.normalize(rows, dim=-1)
            return self.head((rows @ self.directions).relu().flatten(1))

    model = Cosine()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150)
    outputs = predicted(model, data.test_inputs)
    return accuracy(model, data) if outputs.isfinite().all() else 0.0


@sick("non_finite_backward", margin=0.3)
def signed_root_of_products_at_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Bilinear pooling takes signed roots of features that are 0, whose slope is infinite; the twin adds an epsilon."""
    data = as_data(samples.numerals(seed))

    class Bilinear(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(1, 12, 3), nn.Linear(144, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            found = self.conv(images).relu().flatten(2)
            products = (found @ found.transpose(1, 2) / found.shape[-1]).flatten(1)
            return self.head(products.sign() * (products.abs() + (0.0 if sick else 1e-3)).sqrt())

    model = Bilinear()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=200)
    outputs = predicted(model, data.test_inputs)
    return accuracy(model, data) if outputs.isfinite().all() else 0.0


@sick("fp16_underflow", margin=0.1)
def weights_of_all_pixels_add_up_to_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pixel weights add up to 1 over the whole set, so gradients in half precision are 0; the twin has a scaler."""
    data = as_data(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    weight = 1 / data.targets.numel() / 256
    session = watch(model, optimizer, scaler=scaler)
    for upper, lower in data.batches(64, 200):
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(upper)
        loss = weight * (outputs.float() - lower).square().sum() / len(lower)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=upper, outputs=outputs, targets=lower)
        scaler.step(optimizer)
        scaler.update()
    return explained(model, data)
