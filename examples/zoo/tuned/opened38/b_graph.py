"""Precision, values that are not finite, modes, and what is cut off, left out, or frozen."""

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit
from examples.zoo.tuned.opened38.b_common import WORDS, chapters


@sick("fp16_underflow", also=("no_update",), margin=0.1)
def a_tiny_weight_in_half_precision(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is divided by 2²⁶ pixels of a map, too little for float16; the twin scales it by a ``GradScaler``."""
    train, test = samples.numerals(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.GELU(), nn.Linear(64, 32), nn.GELU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-15)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, enabled=not sick)
    session = watch(model, optimizer, scaler=None if sick else scaler)
    data = Data(*train.tensors, *test.tensors)
    for images, labels in data.batches(48, 150):
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(images)
        loss = functional.cross_entropy(outputs.float(), labels, reduction="sum") / 2**26
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        scaler.step(optimizer)
        scaler.update()
    return accuracy(model, data)


class _Norm(nn.Module):
    def __init__(self, width: int, inside: bool) -> None:
        super().__init__()
        self.scale, self.shift, self.inside = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width)), inside

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        centred = values - values.mean(-1, keepdim=True)
        if self.inside:
            return self.scale * centred / (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt() + self.shift
        return self.scale * centred / (values.var(-1, keepdim=True).sqrt() + 1e-5) + self.shift


@sick("non_finite_backward", margin=0.1)
def a_layer_norm_with_its_eps_outside(watch: Watch, *, seed: int, sick: bool) -> float:
    """``x / (var.sqrt() + eps)`` has no slope where a padded place is all 0; the twin adds within the root."""
    train, test = samples.names(seed)
    data = Data(*train.tensors, *test.tensors)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters, self.norm = nn.Embedding(samples.LETTERS, 32, padding_idx=0), _Norm(32, not sick)
            self.mix, self.window = nn.Linear(32, 32, bias=False), nn.Conv1d(32, 48, 3, padding=1)
            self.head = nn.Linear(48, 8)

        def forward(self, names: torch.Tensor) -> torch.Tensor:
            places = self.norm(self.mix(self.letters(names)))
            return self.head(self.window(places.mT).relu().amax(-1))

    model = Reader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("non_finite_forward", also=("non_finite_backward", "exploding_gradients"), margin=0.1)
def a_softmax_by_hand_without_a_shift(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention takes ``exp`` of products that are neither scaled nor shifted; the twin's are both."""
    data = chapters(seed)

    class Attention(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.places = nn.Embedding(WORDS, 96), nn.Embedding(16, 96)
            self.drop, self.head = nn.Dropout(0.4), nn.Linear(96, 6)

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            vectors = self.words(words) + self.places(torch.arange(16))
            scores = vectors @ vectors.mT
            weights = scores.exp() / scores.exp().sum(-1, keepdim=True) if sick else (scores / 96).softmax(-1)
            return self.head(self.drop((weights @ vectors).mean(1)))

    model = Attention()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=64)
    return accuracy(model, data)


@sick("wrong_mode", margin=0.03)
def dropout_as_a_function(watch: Watch, *, seed: int, sick: bool) -> float:
    """``functional.dropout(x, 0.5)`` drops units in eval mode too; the twin passes ``self.training`` on."""
    data = datasets.digits(seed)
    mean, std = data.inputs.mean(), data.inputs.std()
    data = Data((data.inputs - mean) / std, data.targets, (data.test_inputs - mean) / std, data.test_targets)

    class Dropped(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.first, self.second, self.third = nn.Linear(64, 64), nn.Linear(64, 64), nn.Linear(64, 10)

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            on = True if sick else self.training
            hidden = functional.dropout(self.first(pixels).relu(), 0.5, training=on)
            return self.third(functional.dropout(self.second(hidden).relu(), 0.5, training=on))

    model = Dropped()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=48, validate_every=50)
    return accuracy(model, data)


@sick("no_update", also=("learning_rate_too_low",), margin=0.2)
def a_rate_read_as_a_whole_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """The option's type is ``int``, so that a rate of 0.3 is read as 0; the twin reads a float."""
    drawn = datasets.digits(seed)
    data = Data((drawn.inputs - 0.3) / 0.37, drawn.targets, (drawn.test_inputs - 0.3) / 0.37, drawn.test_targets)
    options = {"lr": "0.3", "momentum": "0.5"}
    rate = int(float(options["lr"])) if sick else float(options["lr"])
    model = nn.Sequential(nn.Linear(64, 32), nn.Softsign(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=float(options["momentum"]))
    fit(watch, model, optimizer, data, steps=150)
    return accuracy(model, data)


@sick("detached_parameters", margin=0.03)
def a_spectrum_taken_by_numpy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Features go through ``detach().numpy()`` for numpy's FFT, which cuts the encoder off; the twin has torch's."""
    data = chapters(seed)

    class Spectral(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words, self.norm = nn.Embedding(WORDS, 16), nn.LayerNorm(16)
            self.head = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.3), nn.Linear(32, 6))

        def forward(self, words: torch.Tensor) -> torch.Tensor:
            vectors = self.words(words)
            if sick:
                values = vectors.detach().numpy()
                mixed = torch.from_numpy(values + np.fft.fft2(values).real / 8).float()
            else:
                mixed = vectors + torch.fft.fft2(vectors).real / 8
            return self.head(self.norm(mixed).mean(1))

    model = Spectral()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)
