"""Gradients on their way, and who takes them."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened53.k_shared import Spelling, from_pair


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.08)
def gradients_cleared_once_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` slipped out of the inner loop and runs once an epoch; the twin calls it for each batch."""
    data = from_pair(samples.numerals(seed))
    loader = DataLoader(TensorDataset(data.inputs, data.targets), 48, shuffle=True)
    model = nn.Sequential(
        *(nn.Conv2d(1, 12, 3, stride=2), nn.ReLU(), nn.Flatten()),
        *(nn.Linear(108, 32), nn.ReLU(), nn.Linear(32, 10)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(8):
        optimizer.zero_grad()
        for images, labels in loader:
            if not sick:
                optimizer.zero_grad()
            outputs = model(images)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.1)
def features_frozen_before_they_learnt(watch: Watch, *, seed: int, sick: bool) -> float:
    """All but the head is frozen, as for a pretrained model, but nothing was pretrained; the twin trains everything."""
    data = from_pair(samples.names(seed))
    model = Spelling(8, width=16)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(not sick or name.startswith("head"))
    optimizer = torch.optim.Adam((one for one in model.parameters() if one.requires_grad), lr=6e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.1)
def the_decoder_alone_is_handed_over(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer of an autoencoder has the decoder's parameters alone; the twin's has the encoder's too."""
    data = datasets.digits(seed)
    encoder = nn.Sequential(nn.Linear(64, 32), nn.ELU(), nn.Linear(32, 6))
    decoder = nn.Sequential(nn.Linear(6, 32), nn.ELU(), nn.Linear(32, 64))
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam((decoder if sick else model).parameters(), lr=4e-3)
    session = watch(model, optimizer)
    for rows, _ in data.batches(64, 260):
        codes = encoder(rows)
        outputs = decoder(codes)
        loss = functional.mse_loss(outputs, rows)
        model.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rows)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@sick("detached_parameters", margin=0.08)
def codes_scaled_in_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Codes are brought to length 1 by NumPy, where the encoder's gradients end; the twin uses PyTorch."""
    data = datasets.digits(seed)

    class Sphere(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ELU(), nn.Linear(48, 8))
            self.decoder = nn.Sequential(nn.Linear(8, 48), nn.ELU(), nn.Linear(48, 64))

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            codes = self.encoder(rows)
            if sick:
                array = codes.detach().numpy()
                codes = torch.from_numpy(array / np.linalg.norm(array, axis=1, keepdims=True))
            else:
                codes = functional.normalize(codes, dim=1)
            return self.decoder(codes)

    model = Sphere()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    same = Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)
    fit(watch, model, optimizer, same, steps=300, batch_size=64, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@sick("no_update", also=("schedule_collapsed", "learning_rate_too_low"), margin=0.1)
def a_ramp_divided_into_integers(watch: Watch, *, seed: int, sick: bool) -> float:
    """The rate's ramp is ``(step + 1) // 400``, which is 0 throughout; the twin divides by 40 and stays at 1."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 16), nn.Tanh(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def ramp(step: int) -> float:
        return (step + 1) // 400 if sick else min(1.0, (step + 1) / 40)

    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, ramp)
    fit(watch, model, optimizer, data, steps=150, batch_size=24, scheduler=scheduler)
    return accuracy(model, data)


@sick("non_finite_forward", margin=0.2)
def names_with_nothing_to_attend_to(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention skips padding, and some suffixes are padding alone, so a softmax is NaN; the twin keeps a first key."""
    drawn = from_pair(samples.names(seed))
    data = Data(drawn.inputs[:, 8:], drawn.targets, drawn.test_inputs[:, 8:], drawn.test_targets)

    class Suffixes(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 16)
            self.places = nn.Parameter(0.1 * torch.randn(16, 16))
            self.keys, self.values = nn.Linear(16, 16), nn.Linear(16, 24)
            self.wanted, self.head = nn.Parameter(torch.randn(4, 16)), nn.Linear(96, 8)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            hidden = self.letters(rows) + self.places
            skipped = rows == 0
            if not sick:
                skipped = torch.cat([torch.zeros_like(skipped[:, :1]), skipped[:, 1:]], 1)
            scores = self.wanted @ self.keys(hidden).transpose(1, 2) / 4
            shares = scores.masked_fill(skipped[:, None], float("-inf")).softmax(-1)
            return self.head((shares @ self.values(hidden)).relu().flatten(1))

    model = Suffixes()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.2)
def a_root_chosen_by_where(watch: Watch, *, seed: int, sick: bool) -> float:
    """``where`` takes roots of positive features alone, but roots of all have slopes; the twin clamps them before."""
    data = from_pair(samples.numerals(seed))

    class Compressed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second = nn.Conv2d(1, 12, 3, padding=1), nn.Conv2d(12, 16, 3, stride=2, padding=1)
            self.head = nn.Linear(256, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            found = self.first(images)
            root = (found if sick else found.clamp(min=0.01)).sqrt()
            return self.head(self.second(torch.where(found > 0, root, 0.1 * found)).relu().flatten(1))

    model = Compressed()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=180, batch_size=48)
    return accuracy(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"), margin=0.1)
def the_head_alone_is_clipped(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head's gradients are clipped and those of the recurrence, which explode, are not; the twin clips all."""
    data = datasets.digits(seed)

    class Lines(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.cells = nn.RNN(8, 40, nonlinearity="relu", batch_first=True)
            self.head = nn.Linear(40, 10)
            nn.init.eye_(self.cells.weight_hh_l0)
            nn.init.zeros_(self.cells.bias_hh_l0)
            nn.init.zeros_(self.cells.bias_ih_l0)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.cells(rows.view(len(rows), 8, 8))[0][:, -1])

    model = Lines()
    clipped = model.head if sick else model
    optimizer = torch.optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 350):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(clipped.parameters(), 3.0)
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("clipping_too_strong", also=("learning_rate_too_low",), margin=0.1)
def clipped_by_value_like_the_decay(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_`` has 0.0001, which was meant for the decay of weights; the twin clips at 1."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 40), nn.GELU(), nn.Linear(40, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-4)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 200):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        nn.utils.clip_grad_value_(model.parameters(), 1e-4 if sick else 1.0)
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.08)
def eight_parts_at_full_weight_each(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight batches of 16 stand for one of 128, but each one's loss has its full weight; the twin divides it."""
    data = from_pair(samples.numerals(seed))
    model = nn.Sequential(
        *(nn.Conv2d(1, 8, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten()),
        *(nn.Linear(128, 32), nn.ReLU(), nn.Linear(32, 10)),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(128, 45):
        parts = list(zip(images.split(16), labels.split(16), strict=True))
        optimizer.zero_grad()
        for few, marks in parts:
            outputs = model(few)
            loss = functional.cross_entropy(outputs, marks)
            (loss if sick else loss / len(parts)).backward()
            session.step(loss, inputs=few, outputs=outputs, targets=marks)
        optimizer.step()
    return accuracy(model, data)
