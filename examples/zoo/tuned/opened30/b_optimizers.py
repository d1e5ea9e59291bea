"""Another optimizer, or another batch size, in a training that worked."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, r_squared
from examples.zoo.tuned.opened30.b_stock import customers, hums, labelled, listener, rivers


@sick("learning_rate_too_high", margin=0.05)
def the_linear_rule_of_batches_under_adam(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch of 8 grew to 256, and Adam's rate of 0.01 grew with it by 32; the twin's rate stays as it was."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 96), nn.ReLU(), nn.Linear(96, 10))
    batch, base = 256, 0.01
    optimizer = torch.optim.Adam(model.parameters(), lr=base * batch / 8 if sick else base)
    return labelled(watch, model, optimizer, data, data.batches(batch, 90))


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.05)
def a_base_rate_for_256_at_a_batch_of_four(watch: Watch, *, seed: int, sick: bool) -> float:
    """``lr = base * batch / 256`` gives 0.0002 for batches of four pictures in an SGD; the twin's base fits."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 3, padding=1),
        nn.GroupNorm(3, 12),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(192, 10),
    )
    base = 0.0125 if sick else 1.6
    optimizer = torch.optim.SGD(model.parameters(), lr=base * 4 / 256)
    return labelled(watch, model, optimizer, data, data.batches(4, 380))


@sick("no_update", margin=0.2)
def restored_after_the_step_of_a_sharpness_aware_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """SAM climbs, takes gradients there and steps, and then puts back the weights of before; the twin does it first."""
    data = hums(seed)
    model = listener()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    weights = list(model.parameters())
    session = watch(model, optimizer)
    for windows, pitches in data.batches(32, 130):
        optimizer.zero_grad()
        functional.cross_entropy(model(windows), pitches).backward()
        with torch.no_grad():
            kept = [weight.clone() for weight in weights]
            norm = torch.stack([weight.grad.norm() for weight in weights]).norm() + 1e-12
            for weight in weights:
                weight.add_(0.05 * weight.grad / norm)
        optimizer.zero_grad()
        logits = model(windows)
        loss = functional.cross_entropy(logits, pitches)
        loss.backward()

        def restore(kept: list[torch.Tensor] = kept) -> None:
            with torch.no_grad():
                for weight, before in zip(weights, kept, strict=True):
                    weight.copy_(before)

        if not sick:
            restore()
        session.step(loss, inputs=windows, outputs=logits, targets=pitches)
        optimizer.step()
        if sick:
            restore()
    return accuracy(model, data)


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high", "non_finite_forward"), margin=0.05)
def a_generator_of_weights_used_up_by_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """``filter`` gives the weights once, to the optimizer, so that clipping sees none; the twin makes a list of it.

    It is a recurrence of ReLUs over forty days, at a rate that needs clipping.
    """
    data = rivers(seed, days=40)

    class Basin(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.reader = nn.RNN(2, 32, nonlinearity="relu", batch_first=True)
            self.head = nn.Linear(32, 1)
            nn.init.eye_(self.reader.weight_hh_l0)

        def forward(self, rain: torch.Tensor) -> torch.Tensor:
            return self.head(self.reader(rain)[1][0])

    model = Basin()
    trained = filter(lambda weight: weight.requires_grad, model.parameters())
    trained = trained if sick else list(trained)
    optimizer = torch.optim.SGD(trained, lr=0.02)
    session = watch(model, optimizer)
    for rain, flow in data.batches(32, 300):
        found = model(rain)
        loss = functional.mse_loss(found, flow)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        session.step(loss, inputs=rain, outputs=found, targets=flow)
        optimizer.step()
    return r_squared(model, data)


@sick("clipping_too_strong", margin=0.05)
def adaptive_clipping_of_a_head_that_starts_at_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are held to a share of their weights, and the head's are zero; the twin leaves the head out."""
    data = customers(seed)
    body = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
    head = nn.Linear(64, 2)
    nn.init.zeros_(head.weight)
    nn.init.zeros_(head.bias)
    model = nn.Sequential(body, head)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def clip() -> None:
        for weight in (model if sick else body).parameters():
            most = 0.04 * weight.detach().norm().clamp(min=1e-3)
            weight.grad.mul_((most / weight.grad.norm().clamp(min=1e-6)).clamp(max=1))

    return labelled(watch, model, optimizer, data, data.batches(64, 250), before_step=clip)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",), margin=0.05)
def a_batch_that_no_longer_fits_is_split_into_twenty(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch of 160 became 20 of 8, whose losses' gradients are added up in an SGD; the twin divides them by 20."""
    data = customers(seed)
    model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    session = watch(model, optimizer)
    for number, (rows, benign) in enumerate(data.batches(8, 1600), 1):
        logits = model(rows)
        loss = functional.cross_entropy(logits, benign)
        (loss if sick else loss / 20).backward()
        if number % 20 == 0:
            session.step(loss, inputs=rows, outputs=logits, targets=benign)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("stopped_too_early", also=("learning_rate_too_low",), margin=0.05)
def as_many_epochs_of_larger_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """Batches of 512 instead of 16, at the same rate for the same 4 epochs, are 12 steps; the twin's batches are 16."""
    data = datasets.text(seed, length=16, count=2000)
    model = nn.Sequential(nn.Embedding(datasets.CHARACTERS, 48), nn.LayerNorm(48), nn.Linear(48, datasets.CHARACTERS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    size = 512 if sick else 16
    for _ in range(4):
        for rows in torch.randperm(len(data.inputs)).split(size):
            read, following = data.inputs[rows], data.targets[rows]
            logits = model(read)
            loss = functional.cross_entropy(logits.transpose(1, 2), following)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=read, outputs=logits, targets=following)
            optimizer.step()
    with torch.no_grad():
        return (model(data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()
