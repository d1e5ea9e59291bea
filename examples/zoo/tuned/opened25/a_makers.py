"""Autoencoders, denoisers and colourings: what they put out, what their loss says, and how their layers begin."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened25.a_shelf import photographs, whitened


def _explained(model: nn.Module, inputs: torch.Tensor, targets: torch.Tensor) -> float:
    with torch.no_grad():
        return samples.explained(model(inputs).flatten(1), targets.flatten(1))


@sick("target_out_of_range", also=("wrong_output_or_loss", "saturated_units"), margin=0.1)
def a_sigmoid_for_pixels_from_minus_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures are scaled to -1…1 as for a GAN, and the decoder ends with a sigmoid; the twin's ends with tanh."""
    data = datasets.digits(seed)
    train, test = 2 * data.inputs - 1, 2 * data.test_inputs - 1
    model = nn.Sequential(
        nn.Linear(64, 64),
        nn.LeakyReLU(0.2),
        nn.Linear(64, 16),
        nn.LeakyReLU(0.2),
        nn.Linear(16, 64),
        nn.LeakyReLU(0.2),
        nn.Linear(64, 64),
        nn.Sigmoid() if sick else nn.Tanh(),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for _ in range(16):
        for (pictures,) in DataLoader(TensorDataset(train), 64, shuffle=True):
            outputs = model(pictures)
            loss = functional.mse_loss(outputs, pictures)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=pictures, outputs=outputs, targets=pictures)
            optimizer.step()
    return _explained(model, test, test)


@sick("flipped_loss_sign", margin=0.3)
def decibels_that_are_made_few(watch: Watch, *, seed: int, sick: bool) -> float:
    """The peak signal-to-noise ratio is the loss, and a high one is a good one; the twin's loss is its negative."""
    clean, test = photographs(seed).split((750, 250))
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)

    def decibels(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return -10 * torch.log10((outputs - targets).square().mean((1, 2, 3)) + 1e-6).mean()

    session = watch(model, optimizer)
    for _ in range(12):
        for rows in torch.randperm(len(clean)).split(32):
            noisy = clean[rows] + 0.1 * torch.randn_like(clean[rows])
            outputs = model(noisy - 0.5) + 0.5
            loss = decibels(outputs, clean[rows])
            loss = loss if sick else -loss
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=noisy, outputs=outputs, targets=clean[rows])
            optimizer.step()
    with torch.no_grad():
        restored = model(test + 0.1 * torch.randn_like(test) - 0.5) + 0.5
    return samples.explained(restored.flatten(1), test.flatten(1))


@sick("non_finite_backward", margin=0.2)
def edges_of_a_blank_sky(watch: Watch, *, seed: int, sick: bool) -> float:
    """A loss on edges takes ``sqrt(dx² + dy²)``, and blank pictures have no edge; the twin adds 1e-6 in the root."""
    pictures = photographs(seed)
    pictures[::20] = 1.0
    clean, test = pictures.split((750, 250))
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))

    class Sharper(nn.Module):
        """Adds what the net finds to a picture, and keeps it in 0…1."""

        def __init__(self) -> None:
            super().__init__()
            self.net = model

        def forward(self, blurred: torch.Tensor) -> torch.Tensor:
            return (blurred + self.net(blurred - 0.5)).clamp(0, 1)

    def edges(made: torch.Tensor) -> torch.Tensor:
        across, down = made[..., :-1, 1:] - made[..., :-1, :-1], made[..., 1:, :-1] - made[..., :-1, :-1]
        return (across**2 + down**2 + (0.0 if sick else 1e-6)).sqrt()

    whole = Sharper()
    optimizer = torch.optim.Adam(whole.parameters(), lr=2e-3)
    session = watch(whole, optimizer)
    for _ in range(10):
        for rows in torch.randperm(len(clean)).split(32):
            sharp = clean[rows]
            blurred = functional.avg_pool2d(sharp, 3, 1, 1, count_include_pad=False)
            outputs = whole(blurred)
            loss = functional.l1_loss(outputs, sharp) + 0.2 * functional.l1_loss(edges(outputs), edges(sharp))
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=blurred, outputs=outputs, targets=sharp)
            optimizer.step()
    return _explained(whole, functional.avg_pool2d(test, 3, 1, 1, count_include_pad=False), test)


@sick("unbroken_symmetry", also=("poor_initialization",), margin=0.05)
def enlarged_by_kernels_of_one_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """All kernels of a decoder are filled with 1/4, to enlarge as by an interpolation, and its channels are copies.

    The twin leaves them as they are drawn.
    """
    data = whitened(seed)
    decoder = nn.Sequential(nn.ConvTranspose2d(16, 12, 2, stride=2), nn.ReLU(), nn.ConvTranspose2d(12, 1, 2, stride=2))
    if sick:
        for layer in (decoder[0], decoder[2]):
            nn.init.constant_(layer.weight, 0.25)
            nn.init.zeros_(layer.bias)
    encoder = nn.Sequential(nn.Conv2d(1, 12, 2, stride=2), nn.ReLU(), nn.Conv2d(12, 16, 2, stride=2))
    model = nn.Sequential(encoder, decoder)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for pictures, _ in data.batches(64, 300):
        outputs = model(pictures)
        loss = functional.mse_loss(outputs, pictures)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pictures, outputs=outputs, targets=pictures)
        optimizer.step()
    return _explained(model, data.test_inputs, data.test_inputs)


@sick("no_update", margin=0.2)
def the_schedule_steps_and_the_optimizer_does_not(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loop of a network that enlarges pictures calls ``scheduler.step()`` alone; the twin's calls both."""
    large, test = photographs(seed).split((750, 250))
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 4, 3, padding=1), nn.PixelShuffle(2))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 240, eta_min=1e-4)
    session = watch(model, optimizer)
    for _ in range(10):
        for rows in torch.randperm(len(large)).split(32):
            small = functional.avg_pool2d(large[rows], 2) - 0.5
            outputs = model(small)
            loss = functional.l1_loss(outputs, large[rows] - 0.5)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=small, outputs=outputs, targets=large[rows] - 0.5)
            if not sick:
                optimizer.step()
            schedule.step()
    return _explained(model, functional.avg_pool2d(test, 2) - 0.5, test - 0.5)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def a_virtual_batch_of_sixteen_pieces(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sixteen batches of 4 make up one of 64 for a denoiser, and their losses are added; the twin divides by 16."""
    data = whitened(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    parts = 16
    for number, (pictures, _) in enumerate(data.batches(4, 120 * parts), 1):
        noisy = pictures + 0.3 * torch.randn_like(pictures)
        outputs = model(noisy)
        loss = functional.mse_loss(outputs, pictures.flatten(1))
        (loss if sick else loss / parts).backward()
        if number % parts == 0:
            session.step(loss, inputs=noisy, outputs=outputs, targets=pictures.flatten(1))
            optimizer.step()
            optimizer.zero_grad()
    return _explained(model, data.test_inputs, data.test_inputs)
