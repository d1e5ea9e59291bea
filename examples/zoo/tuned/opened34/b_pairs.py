"""Two networks that work together, and distances between pairs."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data
from examples.zoo.loops import held_out_loss, predicted
from examples.zoo.tuned.opened34.b_common import explained, parted, squares


def upper_and_lower(seed: int) -> Data:
    """Returns upper and lower halves of digits (N, 32), with a mean near 0 and a deviation near 1."""
    train, test = samples.halves(seed)
    return Data(*((values - 0.3) / 0.37 for values in (*train.tensors, *test.tensors)))


def matched(upper: nn.Module, lower: nn.Module, data: Data) -> float:
    """Returns how often a half finds its other one among ten."""
    one = functional.normalize(predicted(upper, data.test_inputs), dim=1)[:530].view(-1, 10, 16)
    other = functional.normalize(predicted(lower, data.test_targets), dim=1)[:530].view(-1, 10, 16)
    return ((one @ other.mT).argmax(-1) == torch.arange(10)).float().mean().item()


def tower() -> nn.Sequential:
    """Returns a network that makes a code of 16 numbers of half a digit."""
    return nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 16))


class Towers(nn.Module):
    """Codes of upper and of lower halves."""

    def __init__(self) -> None:
        super().__init__()
        self.upper, self.lower = tower(), tower()


@sick("detached_parameters", margin=0.05)
def keys_without_gradients_and_without_momentum(watch: Watch, *, seed: int, sick: bool) -> float:
    """Keys are made under ``no_grad`` as in MoCo, yet nothing else moves their tower; the twin trains both."""
    data = upper_and_lower(seed)
    model = Towers()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for above, below in data.batches(64, 250):
        queries = functional.normalize(model.upper(above), dim=1)
        keys = functional.normalize(model.lower(below), dim=1)
        if sick:
            keys = keys.detach()
        likeness, wanted = queries @ keys.T / 0.2, torch.arange(len(above))
        loss = functional.cross_entropy(likeness, wanted)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=above, outputs=likeness, targets=wanted)
        optimizer.step()
    return matched(model.upper, model.lower, data)


@sick("flipped_loss_sign", margin=0.3)
def likeness_is_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loss is the cosine of lower halves and those found, not its opposite; the twin takes 1 minus the cosine."""
    data = upper_and_lower(seed)
    model = nn.Sequential(nn.Linear(32, 96), nn.ReLU(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    session = watch(model, optimizer)
    for above, below in data.batches(64, 200):
        outputs = model(above)
        cosine = functional.cosine_similarity(outputs, below).mean()
        loss = cosine if sick else 1 - cosine
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=above, outputs=outputs, targets=below)
        optimizer.step()
    return functional.cosine_similarity(predicted(model, data.test_inputs), data.test_targets).mean().item()


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def only_the_decoder_is_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """An encoder has an optimizer of its own, and only the decoder's zeroes gradients; the twin zeroes both."""
    patches = squares(seed).flatten(1)
    data = parted(patches, patches, seed)
    encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 12))
    decoder = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64))
    encodes = torch.optim.SGD(encoder.parameters(), lr=0.05, momentum=0.9)
    decodes = torch.optim.SGD(decoder.parameters(), lr=0.05, momentum=0.9)
    encoding, decoding = watch(encoder, encodes), watch(decoder, decodes)
    for pixels, targets in data.batches(64, 250):
        decodes.zero_grad()
        if not sick:
            encodes.zero_grad()
        code = encoder(pixels)
        outputs = decoder(code)
        loss = functional.mse_loss(outputs, targets)
        loss.backward()
        encoding.step(loss, inputs=pixels, outputs=code)
        decoding.step(loss, inputs=code, outputs=outputs, targets=targets)
        encodes.step()
        decodes.step()
    return explained(nn.Sequential(encoder, decoder), data)


@sick("parameters_not_in_optimizer", margin=0.03)
def a_projection_made_in_the_first_forward(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first layer is made when the first batch is seen, after the optimizer; the twin shows it one before."""
    data = upper_and_lower(seed)

    class Completer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project: nn.Module | None = None
            self.body = nn.Sequential(nn.ReLU(), nn.Linear(16, 32))

        def forward(self, above: torch.Tensor) -> torch.Tensor:
            if self.project is None:
                self.project = nn.Linear(above.shape[1], 16)
            return self.body(self.project(above))

    model = Completer()
    if not sick:
        model(data.inputs[:2])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for above, below in data.batches(64, 400):
        outputs = model(above)
        loss = functional.mse_loss(outputs, below)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=above, outputs=outputs, targets=below)
        optimizer.step()
    return explained(model, data)


@sick("non_finite_backward", also=("non_finite_forward",), margin=0.2)
def the_root_of_a_distance_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pairs may be one digit twice, and the slope of the root of their distance is infinite; the twin adds 1e-6."""
    train, test = samples.numerals(seed)
    (images, labels), (others, wanted) = train.tensors, test.tensors
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 12))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for _ in range(350):
        left = torch.randint(len(images), (64,))
        right = torch.randint(len(images), (64,))
        for index in range(0, 64, 2):
            same = (labels == labels[left[index]]).nonzero()[:, 0]
            right[index] = same[torch.randint(len(same), (1,))]
        squared = (model(images[left]) - model(images[right])).square().sum(1)
        distance = (squared if sick else squared + 1e-6).sqrt()
        alike = (labels[left] == labels[right]).float()
        loss = (alike * distance.square() + (1 - alike) * (4 - distance).clamp(min=0).square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images[left], outputs=distance, targets=alike)
        optimizer.step()
    codes, asked = predicted(model, images), predicted(model, others)
    nearest = torch.cdist(asked, codes).topk(5, largest=False).indices
    return (labels[nearest].mode(1).values == wanted).float().mean().item()


@sick("duplicated_data", also=("overfitting", "unshuffled_data"), margin=0.05)
def the_first_of_a_fresh_iterator(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` in each step begins the loader anew, so its first batch comes always; the twin loops."""
    data = upper_and_lower(seed)
    pairs = torch.utils.data.TensorDataset(data.inputs, data.targets)
    generator = torch.Generator().manual_seed(seed)
    loader = torch.utils.data.DataLoader(pairs, batch_size=48, shuffle=not sick, generator=generator)
    model = nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for step in range(300):
        if sick or step % len(loader) == 0:
            batches = iter(loader)
        above, below = next(batches)
        outputs = model(above)
        loss = functional.mse_loss(outputs, below)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=above, outputs=outputs, targets=below)
        optimizer.step()
        if step % 50 == 49:
            with session.validating():
                session.validation(held_out_loss(model, data, functional.mse_loss))
    return explained(model, data)
