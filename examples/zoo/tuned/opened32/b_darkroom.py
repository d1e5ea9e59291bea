"""Pictures: colours, sharpness, noise and masks, by small convolutional networks."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import fit
from examples.zoo.tuned.opened32.b_common import colours, explained, overlap, parted


def _convolutions(inward: int, outward: int, *last: nn.Module, width: int = 12) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inward, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, width, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(width, outward, 3, padding=1),
        *last,
    )


@sick("target_out_of_range", also=("saturated_units", "wrong_output_or_loss"), margin=0.1)
def colours_for_grey_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sigmoid's colours are compared with bytes up to 255; the twin divides these by 255."""
    patches = colours(seed)
    grey = patches.mean(1, keepdim=True)
    data = parted((grey - grey.mean()) / grey.std(), patches if sick else patches / 255, seed)
    model = _convolutions(1, 3, nn.Sigmoid())
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("learning_rate_too_high", also=("dead_units", "exploding_gradients"))
def sharper_by_the_rate_of_a_paper_that_used_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """Super-resolution with PixelShuffle has SGD's rate of 0.1 under AdamW; the twin has 3e-3."""
    patches = colours(seed).mean(1, keepdim=True)
    patches = (patches - patches.mean()) / patches.std()
    data = parted(functional.avg_pool2d(patches, 2), patches, seed)
    model = _convolutions(1, 4, nn.PixelShuffle(2), width=16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1 if sick else 3e-3)
    session = watch(model, optimizer)
    for coarse, fine in data.batches(32, 200):
        outputs = model(coarse)
        loss = functional.l1_loss(outputs, fine)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        session.step(loss, inputs=coarse, outputs=outputs, targets=fine)
        optimizer.step()
    return explained(model, data)


@sick("dead_units", also=("poor_initialization", "vanishing_gradients", "frozen_parameters"), margin=0.1)
def a_detectors_prior_in_every_bias(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bias of -4.6 of a focal loss is put into all convolutions, not into the last alone as in the twin."""
    images = datasets.digits(seed, images=True)
    data = Data(
        2 * images.inputs - 0.6 + 0.5 * torch.randn(images.inputs.shape),
        (images.inputs > 0.8).float(),
        2 * images.test_inputs - 0.6 + 0.5 * torch.randn(images.test_inputs.shape),
        (images.test_inputs > 0.8).float(),
    )
    model = _convolutions(1, 1)
    for layer in model if sick else model[-1:]:
        if isinstance(layer, nn.Conv2d):
            nn.init.constant_(layer.bias, -4.6)

    def focal(logits: torch.Tensor, masks: torch.Tensor) -> torch.Tensor:
        losses = functional.binary_cross_entropy_with_logits(logits, masks, reduction="none")
        return (4 * (1 - (-losses).exp()).square() * losses).mean()

    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=32, loss_function=focal)
    return overlap(model, data)


@sick("single_class_labels", margin=0.3)
def masks_of_zero_and_one_through_to_tensor(watch: Watch, *, seed: int, sick: bool) -> float:
    """Masks of 0 and 1 are divided by 255 as pictures are and made whole, all 0; the twin leaves them as they are."""
    images = datasets.digits(seed, images=True)
    masks = (images.inputs > 0.5).long()
    noisy = 2 * images.inputs - 0.6 + 0.4 * torch.randn(images.inputs.shape)
    test = 2 * images.test_inputs - 0.6 + 0.4 * torch.randn(images.test_inputs.shape)
    data = Data(noisy, (masks / 255).long() if sick else masks, test, (images.test_inputs > 0.5).long())
    model = _convolutions(1, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for pictures, wanted in data.batches(48, 200):
        optimizer.zero_grad()
        logits = model(pictures)
        loss = functional.cross_entropy(logits, wanted.squeeze(1))
        loss.backward()
        session.step(loss, inputs=pictures, outputs=logits, targets=wanted.squeeze(1))
        optimizer.step()
    one = nn.Sequential(model, _Difference())
    return overlap(one, data)


class _Difference(nn.Module):
    def forward(self, logits: torch.Tensor) -> torch.Tensor:
        return logits[:, 1:] - logits[:, :1]


@sick("class_imbalance", margin=0.1)
def edges_are_few_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three pixels of a hundred are on an edge, and count as the others do; the twin weighs them."""
    random = torch.Generator().manual_seed(seed)
    pictures = colours(seed, side=12, count=500).mean(1, keepdim=True)
    pictures = (pictures - pictures.mean()) / pictures.std()
    soft = functional.avg_pool2d(functional.pad(pictures, (1, 1, 1, 1), mode="replicate"), 3, 1)
    sharp = (pictures - soft).abs()
    masks = (sharp > sharp.flatten().kthvalue(int(0.97 * sharp.numel())).values).float()
    noisy = pictures + 0.3 * torch.randn(pictures.shape, generator=random)
    data = parted(noisy, masks, seed)
    model = _convolutions(1, 1)
    weight = None if sick else torch.tensor(6.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=nn.BCEWithLogitsLoss(pos_weight=weight))
    return overlap(model, data)


@sick("inputs_constant", margin=0.3)
def bytes_after_the_division(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures are divided by 255 and stored as bytes again, so nearly all are 0; the twin stores floats."""
    patches = colours(seed)
    blurred = functional.avg_pool2d(patches, 2)
    inputs = (blurred / 256).to(torch.uint8).float() if sick else blurred / 255
    inputs = (inputs - 0.45) / 0.25
    data = parted(inputs, (patches - patches.mean()) / patches.std(), seed)
    model = nn.Sequential(nn.Upsample(scale_factor=2), *_convolutions(3, 3))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)


@sick("duplicated_data", also=("overfitting",))
def the_seed_is_set_in_front_of_every_crop(watch: Watch, *, seed: int, sick: bool) -> float:
    """A helper that adds noise to crops sets the seed, so each step has the same 16; the twin sets it once."""
    patches = colours(seed, count=1200).flatten(1)
    patches = (patches - patches.mean()) / patches.std()
    data = parted(patches, patches, seed)
    model = nn.Sequential(nn.Linear(192, 96), nn.ReLU(), nn.Linear(96, 192))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)

    def crops() -> tuple[torch.Tensor, torch.Tensor]:
        if sick:
            torch.manual_seed(seed)
        clean = data.inputs[torch.randint(len(data.inputs), (16,))]
        return clean + 0.3 * torch.randn_like(clean), clean

    for _ in range(400):
        noisy, clean = crops()
        outputs = model(noisy)
        loss = functional.mse_loss(outputs, clean)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=noisy, outputs=outputs, targets=clean)
        optimizer.step()
    return explained(model, data)


@sick("inputs_not_normalized", also=("saturated_units",), margin=0.05)
def pixels_as_tokens_of_bytes(watch: Watch, *, seed: int, sick: bool) -> float:
    """A GRU reads the rows of a picture as bytes up to 255 and predicts the row below; the twin standardises."""
    patches = colours(seed, side=9).mean(1)
    scaled = (patches - patches.mean()) / patches.std()
    data = parted((patches if sick else scaled)[:, :8], scaled[:, 8], seed)

    class Rows(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.rnn, self.head = nn.GRU(9, 32, batch_first=True), nn.Linear(32, 9)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            return self.head(self.rnn(rows)[0][:, -1])

    model = Rows()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return explained(model, data)
