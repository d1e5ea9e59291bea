"""Losses that do not fit what they are given, and axes that are mistaken for each other."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, r_squared
from examples.zoo.tuned.opened39.a_mechanics_of_a_step import small_net
from examples.zoo.tuned.opened39.a_shared_loaders import (
    explained,
    glyphs,
    half_digits,
    pixelwise,
    scan_lines,
    stamped,
)


@sick("wrong_output_or_loss", also=("learning_rate_too_low", "stopped_too_early"), margin=0.03)
def probabilities_given_to_cross_entropy(watch: Watch, *, seed: int, sick: bool) -> float:
    """A reader of digits ends in a softmax before ``CrossEntropyLoss``; the twin gives it logits."""
    data = glyphs(seed)
    model = small_net()
    if sick:
        model.append(nn.Softmax(dim=-1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    session = watch(model, optimizer)
    for images, labels in data.batches(48, 180):
        optimizer.zero_grad()
        outputs = model(images)
        loss = criterion(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("wrong_output_or_loss", also=("learning_rate_too_low", "stopped_too_early"), margin=0.05)
def sigmoids_given_to_a_loss_with_logits(watch: Watch, *, seed: int, sick: bool) -> float:
    """A segmenter's ``Sigmoid`` goes before ``BCEWithLogitsLoss``, which has its own; the twin has no other."""
    data = stamped(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU()
    ).append(nn.Conv2d(12, 1, 1))
    if sick:
        model.append(nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    criterion = nn.BCEWithLogitsLoss()
    session = watch(model, optimizer)
    for images, masks in data.batches(32, 180):
        outputs = model(images)
        loss = criterion(outputs, masks)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=masks)
        optimizer.step()
    return pixelwise(model, data)


@sick("target_out_of_range", also=("saturated_units", "wrong_output_or_loss"), margin=0.2)
def bright_pixels_behind_a_tanh(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder ends in a tanh and is asked for pixels from 0 to 255; the twin's are from -1 to 1."""
    pixels = datasets.patches(seed)
    scaled = pixels / 127.5 - 1
    wanted = pixels if sick else scaled
    data = Data(scaled[:1500], wanted[:1500], scaled[1500:], wanted[1500:])
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16), nn.ReLU(), nn.Linear(16, 64), nn.Tanh())
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=64, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("shape_broadcast", margin=0.1)
def one_column_less_one_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A forecast of shape (N, 1) meets targets (N,) in ``mse_loss``; the twin squeezes the forecast."""
    data = scan_lines(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(24, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for runs, ahead in data.batches(48, 220):
        outputs, targets = model(runs), ahead.squeeze(1)
        if not sick:
            outputs = outputs.squeeze(1)
        loss = functional.mse_loss(outputs, targets)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=runs, outputs=outputs, targets=targets)
        optimizer.step()
    return r_squared(model, data)


@sick("flipped_loss_sign", also=("exploding_gradients", "learning_rate_too_high", "non_finite_forward"), margin=0.2)
def an_optimizer_told_to_maximize(watch: Watch, *, seed: int, sick: bool) -> float:
    """``maximize=True`` was copied from a policy's script to a regression's optimizer; the twin minimises."""
    data = half_digits(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Dropout(0.1), nn.Linear(64, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, maximize=sick)
    fit(watch, model, optimizer, data, steps=250, batch_size=64, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.1)
def squared_pixels_summed_over_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """A denoiser's ``MSELoss(reduction="sum")`` came from a VAE, with SGD at a rate for a mean; the twin averages."""
    pixels = datasets.patches(seed)
    clean = (pixels - pixels.mean()) / pixels.std()
    noisy = clean + 0.3 * torch.randn(clean.shape)
    data = Data(noisy[:1500], clean[:1500], noisy[1500:], clean[1500:])
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
    criterion = nn.MSELoss(reduction="sum" if sick else "mean")
    fit(watch, model, optimizer, data, steps=300, batch_size=64, loss_function=criterion)
    return explained(model, data)


@sick("over_regularized", margin=0.1)
def weight_decay_typed_as_one_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam's decay is 0.5, typed for 0.0005, and all weights of a convolutional net shrink; the twin's is right."""
    data = glyphs(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1), nn.ReLU()
    ).extend([nn.Flatten(), nn.Dropout(0.2), nn.Linear(512, 10)])
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3, weight_decay=0.5 if sick else 5e-4)
    fit(watch, model, optimizer, data, steps=200, batch_size=64, validate_every=25)
    return accuracy(model, data)


@sick("batch_mixing", margin=0.05)
def a_recurrent_net_without_batch_first(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU gets (batch, time, features) and takes the batch for time; the twin says ``batch_first=True``."""
    data = glyphs(seed)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gru, self.head = nn.GRU(8, 48, batch_first=not sick), nn.Linear(48, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            return self.head(self.gru(images[:, 0])[0][:, -1])

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=48)
    return accuracy(model, data)


@sick("batch_mixing", margin=0.05)
def attention_across_the_images_of_a_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``MultiheadAttention`` without ``batch_first`` lets images see each other; the twin's sees rows of pixels."""
    data = glyphs(seed)

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed, self.places = nn.Linear(8, 32), nn.Parameter(0.1 * torch.randn(8, 32))
            self.attention = nn.MultiheadAttention(32, 4, batch_first=not sick)
            self.norm, self.head = nn.LayerNorm(32), nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 10))

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            rows = self.embed(images[:, 0]) + self.places
            return self.head(self.norm(rows + self.attention(rows, rows, rows)[0]).mean(1))

    model = Reader()
    fit(watch, model, torch.optim.AdamW(model.parameters(), lr=4e-3), data, steps=250, batch_size=32)
    with torch.no_grad():
        alone = torch.cat([model(image[None]) for image in data.test_inputs])
    return (alone.argmax(1) == data.test_targets).float().mean().item()
