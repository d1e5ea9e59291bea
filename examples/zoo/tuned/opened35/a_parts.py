"""Parts of a model that do not learn, or that get too little or what they should not see."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss
from examples.zoo.tuned.opened35.a_common import (
    Reading,
    explained,
    images,
    joined,
    parted,
    place_accuracy,
    place_loss,
    seeing,
    tagged,
    tiles,
    turned,
)


@sick("gradients_not_zeroed", also=("learning_rate_too_high", "exploding_gradients"), margin=0.05)
def two_optimizers_of_which_one_is_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """An encoder and a decoder have an optimizer each, and only the decoder's is zeroed; the twin zeroes both."""
    pixels = tiles(seed)
    data = parted(pixels, pixels, seed)
    encoder = nn.Sequential(nn.Linear(64, 48), nn.SiLU(), nn.Linear(48, 12))
    decoder = nn.Sequential(nn.Linear(12, 48), nn.SiLU(), nn.Linear(48, 64))
    model = nn.Sequential(encoder, decoder)
    inner = torch.optim.SGD(encoder.parameters(), lr=0.1, momentum=0.9)
    outer = torch.optim.SGD(decoder.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, [inner, outer])
    for tile, _ in data.batches(64, 300):
        outputs = decoder(encoder(tile))
        loss = functional.mse_loss(outputs, tile)
        outer.zero_grad()
        if not sick:
            inner.zero_grad()
        loss.backward()
        session.step(loss, inputs=tile, outputs=outputs, targets=tile)
        inner.step()
        outer.step()
    return explained(model, data)


@sick("parameters_not_in_optimizer", margin=0.05)
def groups_by_the_kinds_of_layers(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups with and without decay know linear layers and norms, and no GRU; the twin adds the rest."""
    data = tagged(seed)
    model = nn.Sequential(Reading(24))
    model[0].letters = nn.Sequential(nn.Embedding(97, 24), nn.LayerNorm(24))
    decayed = {module.weight for module in model.modules() if isinstance(module, nn.Linear)}
    others = {module.bias for module in model.modules() if isinstance(module, nn.Linear | nn.LayerNorm)}
    others |= {module.weight for module in model.modules() if isinstance(module, nn.LayerNorm)}
    if not sick:
        others |= set(model.parameters()) - decayed
    groups = [
        {"params": [one for one in model.parameters() if one in decayed], "weight_decay": 0.01},
        {"params": [one for one in model.parameters() if one in others], "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups, lr=6e-3)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 200)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=place_loss, scheduler=scheduler)
    return place_accuracy(model, data)


@sick("detached_parameters", margin=0.03)
def a_code_of_zeros_and_ones(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's code is rounded, through which no gradient comes; the twin's passes straight through."""
    pixels = tiles(seed)
    data = parted(pixels, pixels, seed)

    class Binary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
            self.decoder = nn.Sequential(nn.Linear(10, 64), nn.ReLU(), nn.Linear(64, 64))

        def forward(self, tile: torch.Tensor) -> torch.Tensor:
            chances = self.encoder(tile).sigmoid()
            bits = (chances > 0.5).float()
            if not sick:
                bits = chances + (bits - chances).detach()
            return self.decoder(bits)

    model = Binary()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss, validate_every=60)
    return explained(model, data)


@sick("frozen_parameters", margin=0.03)
def a_body_that_thaws_in_epoch_nine(watch: Watch, *, seed: int, sick: bool) -> float:
    """A body that told turns is to thaw in epoch 9, and the last is 8; the twin thaws it in epoch 2."""
    model, old = seeing(4, width=4), turned(seed)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for pixels, labels in old.batches(32, 60):
        optimizer.zero_grad()
        functional.cross_entropy(model(pixels), labels).backward()
        optimizer.step()
    data = images(seed, noise=0.6)
    model[-1] = nn.Linear(128, 10)
    body = model[:-1].requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for epoch in range(9):
        if epoch == (9 if sick else 2):
            body.requires_grad_(True)
        for pixels, labels in data.batches(32, 42):
            optimizer.zero_grad()
            logits = model(pixels)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=labels)
            optimizer.step()
        session.validation(held_out_loss(model, data))
    return accuracy(model, data)


@sick("batch_mixing", margin=0.05)
def reshaped_where_it_should_be_transposed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Names are brought to the length first by ``reshape``, which mixes them; the twin transposes."""
    data = joined(samples.names(seed))

    class Speller(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.letters = nn.Embedding(samples.LETTERS, 24, padding_idx=0)
            self.reader, self.head = nn.GRU(24, 48), nn.Linear(48, 8)

        def forward(self, names: torch.Tensor) -> torch.Tensor:
            count, length = names.shape
            letters = self.letters(names)
            letters = letters.reshape(length, count, 24) if sick else letters.transpose(0, 1)
            return self.head(self.reader(letters)[0].amax(0))

    model = Speller()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48, validate_every=30)
    return accuracy(model, data)


@sick("wrong_mode", margin=0.05)
def validated_in_training_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """Validations, of four digits at a time, are in training mode; the twin's are in eval mode."""
    data = images(seed, noise=0.3)
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(144, 64)
    )
    model.extend([nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 10)])
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=0.05)
    session = watch(model, optimizer)
    right = 0.0
    for _ in range(5):
        model.train()
        for pixels, labels in data.batches(32, 42):
            optimizer.zero_grad()
            logits = model(pixels)
            loss = functional.cross_entropy(logits, labels)
            loss.backward()
            session.step(loss, inputs=pixels, outputs=logits, targets=labels)
            optimizer.step()
        if not sick:
            model.eval()
        with session.validating(), torch.no_grad():
            found = torch.cat([model(few) for few in data.test_inputs.split(4) if len(few) > 1])
        truth = data.test_targets[: len(found)]
        session.validation(functional.cross_entropy(found, truth).item())
        right = (found.argmax(1) == truth).float().mean().item()
    return right


@sick("fp16_underflow", also=("vanishing_gradients",), margin=0.1)
def errors_in_units_of_255(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors are divided by 255, and then squared, under autocast to float16 without a scaler; the twin has one."""
    data = joined(samples.halves(seed))
    model = nn.Sequential(nn.Linear(32, 96), nn.Tanh(), nn.Linear(96, 32))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3, eps=1e-12)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer, scaler=scaler)
    for above, below in data.batches(64, 300):
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.float16):
            outputs = model(above)
        loss = ((outputs.float() - below) / 255).square().mean()
        scaler.scale(loss).backward()
        session.step(loss, inputs=above, outputs=outputs, targets=below)
        scaler.step(optimizer)
        scaler.update()
    return explained(model, data)
