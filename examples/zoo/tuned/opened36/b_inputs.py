"""What goes into the first layer."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened36.b_stock import colours, crops, explained, found, parted


@sick("inputs_not_normalized", margin=0.05)
def bytes_into_convolutions(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net that colours pictures gets bytes up to 255 with Adam's usual rate; the twin's are standardised."""
    pictures = crops(seed)
    grey, tints = colours(pictures)
    data = parted(pictures.mean(1, keepdim=True) if sick else grey, tints, seed)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1), nn.Tanh(), nn.Conv2d(16, 16, 3, padding=1), nn.Tanh(), nn.Conv2d(16, 2, 1)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)


@sick("inputs_constant", also=("labels_unrelated",), margin=0.1)
def the_alpha_channel_of_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures of four channels are read by ``[:, -1]``, which is how opaque they are; the twin takes the red one."""
    train, test = samples.scenes(seed, count=1200)
    data = Data(*train.tensors, *test.tensors)

    def channel(pictures: torch.Tensor) -> torch.Tensor:
        opaque = torch.cat([pictures, torch.ones_like(pictures[:, :1])], 1)
        return opaque[:, -1:] if sick else opaque[:, :1]

    data = Data(channel(data.inputs), data.targets, channel(data.test_inputs), data.test_targets)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 32, 3), nn.ReLU(), nn.Flatten(), nn.Linear(512, 2)
    )
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, validate_every=40)
    return accuracy(model, data)


@sick("non_finite_inputs", also=("non_finite_forward", "non_finite_backward"), margin=0.3)
def shares_of_lines_without_capitals(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts of capitals are divided by their sum, which is 0 for many lines; the twin divides by 1 at least."""
    train, test = samples.lines(seed)

    def shares(counts: torch.Tensor) -> torch.Tensor:
        parts = []
        for letters in (counts[:, 33:59], counts[:, 65:91]):
            total = letters.sum(1, keepdim=True)
            parts.append(3 * (letters / (total if sick else total.clamp(min=1))).sqrt())
        return torch.cat(parts, 1)

    data = Data(shares(train.tensors[0]), train.tensors[1], shares(test.tensors[0]), test.tensors[1])
    model = nn.Sequential(nn.Linear(52, 64), nn.SiLU(), nn.Dropout(0.2), nn.Linear(64, 6))
    optimizer = torch.optim.NAdam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step, (rows, files) in enumerate(data.batches(48, 250), 1):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, files)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=files)
        optimizer.step()
        if step % 50 == 0:
            session.validation(held_out_loss(model, data))
    return found(model, data)
