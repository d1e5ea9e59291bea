"""Slips in a loop: gradients, parameters and modes."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened33.a_parts import (
    Speller,
    centred,
    forever,
    loader,
    masks,
    of,
    of_characters,
    right,
    segmenter,
)


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def zero_grad_without_its_brackets(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.zero_grad`` is named and not called, so all gradients add up; the twin calls it."""
    data = of(samples.scenes(seed))
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten()
    )
    model.append(nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in forever(data, 32, 240):
        optimizer.zero_grad if sick else optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def eight_small_batches_of_pictures(watch: Watch, *, seed: int, sick: bool) -> float:
    """A segmentation adds the gradients of eight small batches under SGD; the twin divides each loss by eight."""
    data = masks(seed)
    model = segmenter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for index, (images, wanted) in enumerate(forever(data, 8, 8 * 60), 1):
        logits = model(images)
        loss = functional.binary_cross_entropy_with_logits(logits, wanted)
        (loss if sick else loss / 8).backward()
        if index % 8 == 0:
            session.step(loss, inputs=images, outputs=logits, targets=wanted)
            optimizer.step()
            optimizer.zero_grad()
    found, truth = predicted(model, data.test_inputs) > 0, data.test_targets > 0.5
    return ((found & truth).sum() / (found | truth).sum()).item()


@sick("no_update", margin=0.3)
def a_step_without_its_brackets(watch: Watch, *, seed: int, sick: bool) -> float:
    """``optimizer.step`` is named and not called, so no weight ever changes; the twin calls it."""
    data = of(samples.standardised(samples.lines(seed), 0))
    model = nn.Sequential(nn.Linear(96, 48), nn.ReLU(), nn.Dropout(0.4), nn.Linear(48, 6))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for counts, files in forever(data, 48, 160):
        optimizer.zero_grad()
        logits = model(counts)
        loss = functional.cross_entropy(logits, files)
        loss.backward()
        session.step(loss, inputs=counts, outputs=logits, targets=files)
        optimizer.step if sick else optimizer.step()
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.03)
def groups_by_the_ends_of_names(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups take what ends in ``.weight`` or ``.bias``, which an RNN's ``weight_hh_l0`` does not; the twin all."""
    data = datasets.text(seed, length=16)
    model = Speller(48, nn.RNN)
    named = list(model.named_parameters())
    if sick:
        decayed = [weight for name, weight in named if name.endswith(".weight")]
        others = [weight for name, weight in named if name.endswith(".bias")]
    else:
        decayed = [weight for _, weight in named if weight.ndim > 1]
        others = [weight for _, weight in named if weight.ndim == 1]
    groups = [{"params": decayed, "weight_decay": 0.01}, {"params": others, "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=5e-3)
    fit(watch, model, optimizer, data, steps=260, batch_size=32, loss_function=of_characters)
    return right(model, data)


@sick("frozen_parameters", margin=0.03)
def thawed_by_a_mistyped_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """An encoder is thawed by ``require_grad = True``, which is no attribute; the twin has ``requires_grad``."""
    data = of(samples.numerals(seed))
    encoder = nn.Sequential(nn.Conv2d(1, 16, 3), nn.ReLU(), nn.Conv2d(16, 4, 3), nn.ReLU(), nn.Flatten())
    odd = nn.Linear(64, 2)
    first = torch.optim.Adam([*encoder.parameters(), *odd.parameters()], lr=2e-3)
    for images, labels in forever(data, 64, 25):
        first.zero_grad()
        functional.cross_entropy(odd(encoder(images)), labels % 2).backward()
        first.step()
    encoder.requires_grad_(False)
    model = nn.Sequential(encoder, nn.Linear(64, 10))
    for weight in encoder.parameters():
        setattr(weight, "require_grad" if sick else "requires_grad", True)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    turned = datasets.Data(
        data.inputs.rot90(1, (2, 3)), data.targets, data.test_inputs.rot90(1, (2, 3)), data.test_targets
    )
    fit(watch, model, optimizer, turned, steps=160, batch_size=64, validate_every=40)
    return accuracy(model, turned)


@sick("detached_parameters", also=("frozen_parameters",), margin=0.05)
def bits_without_a_way_back(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's bits come of a comparison, which has no gradient; the twin passes the slope straight through."""
    images = centred(datasets.digits(seed))

    class Bits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 24))
            self.decoder = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 64))

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            soft = self.encoder(pixels).sigmoid()
            bits = (soft > 0.5).float()
            return self.decoder(bits if sick else bits + soft - soft.detach())

    model = Bits()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    data = datasets.Data(images.inputs, images.inputs, images.test_inputs, images.test_inputs)
    fit(watch, model, optimizer, data, steps=300, batch_size=64, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_inputs)


@sick("wrong_mode", margin=0.03)
def evaluated_once_and_for_all(watch: Watch, *, seed: int, sick: bool) -> float:
    """A look before the training calls ``eval()``, so norms never see a batch; the twin calls ``train()`` again."""
    data = of(samples.numerals(seed))
    layers: list[nn.Module] = []
    for depth in range(5):
        layers += [nn.Conv2d(12 if depth else 1, 12, 3, padding=1), nn.BatchNorm2d(12), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    model.eval()
    with torch.no_grad():
        functional.cross_entropy(model(data.test_inputs), data.test_targets)
    if not sick:
        model.train()
    for _ in range(5):
        for images, labels in loader(data, 64):
            optimizer.zero_grad()
            logits = model(images)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=images, outputs=logits, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)
