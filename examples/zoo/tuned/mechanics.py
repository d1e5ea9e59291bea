"""Loops that do not do what they seem to do: gradients, parameters, modes and steps that go astray."""

import copy

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, binary_accuracy, fit, held_out_loss, r_squared


@sick("gradients_not_zeroed")
def zero_grad_forgotten(watch: Watch, *, seed: int, sick: bool) -> float:
    """The loop never zeroes the gradients: each step follows the sum of all before."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 150):
        if not sick:
            optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("gradients_not_zeroed")
def zeroed_once_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands one indentation too far to the left: in the loop over epochs."""
    data = datasets.diabetes(seed)
    model = nn.Sequential(nn.Linear(10, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    session = watch(model, optimizer)
    for _ in range(8):
        optimizer.zero_grad()
        for rows in torch.randperm(len(data.inputs)).split(16):
            outputs = model(data.inputs[rows])
            loss = functional.mse_loss(outputs, data.targets[rows])
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
            if not sick:
                optimizer.zero_grad()
    return r_squared(model, data)


@sick("gradients_not_zeroed")
def only_the_head_zeroed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.head.zero_grad()`` instead of ``model.zero_grad()``."""
    data = datasets.digits(seed, images=True)
    model = _WithHead()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(50, 150):
        (model.head if sick else model).zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class _WithHead(nn.Module):
    """A small CNN: a body and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(1, 12, 3), nn.ReLU(), nn.Conv2d(12, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(256, 8), nn.Tanh()
        )
        self.head = nn.Linear(8, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.body(images))


@sick("parameters_not_in_optimizer")
def a_head_replaced_after_the_optimizer_was_made(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head is replaced for ten classes when the optimizer already has the old one."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 100))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    model[2] = nn.Linear(12, 10)
    if not sick:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.2)
    fit(watch, model, optimizer, data, steps=250, validate_every=50)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer")
def only_the_head_in_the_optimizer(watch: Watch, *, seed: int, sick: bool) -> float:
    """The optimizer was given the head's parameters only, though the body starts from nothing."""
    data = datasets.digits(seed, images=True)
    model = _WithHead()
    optimizer = torch.optim.AdamW((model.head if sick else model).parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=50)
    return accuracy(model, data)


class _Blocks(nn.Module):
    """A net whose hidden layers lie in a list, of Python or of torch."""

    def __init__(self, *, plain: bool) -> None:
        super().__init__()
        layers = [nn.Linear(64, 6), nn.Linear(6, 6), nn.Linear(6, 6)]
        self.layers = layers if plain else nn.ModuleList(layers)
        self.head = nn.Linear(6, 10)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            values = torch.tanh(layer(values))
        return self.head(values)


@sick("parameters_not_in_optimizer")
def layers_in_a_plain_list(watch: Watch, *, seed: int, sick: bool) -> float:
    """Hidden layers lie in a list of Python: ``model.parameters()`` does not have them."""
    data = datasets.digits(seed)
    model = _Blocks(plain=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("detached_parameters")
def features_detached(watch: Watch, *, seed: int, sick: bool) -> float:
    """``.detach()`` between body and head, left from an experiment."""
    data = datasets.digits(seed, images=True)
    model = _WithHead()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for images, labels in data.batches(50, 150):
        features = model.body(images)
        logits = model.head(features.detach() if sick else features)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class _Encoded(nn.Module):
    """An encoder and a decoder of characters; the encoder may run without gradients."""

    def __init__(self, *, without_gradients: bool) -> None:
        super().__init__()
        self.embedding = nn.Embedding(datasets.CHARACTERS, 12)
        self.encoder = nn.GRU(12, 24, batch_first=True)
        self.head = nn.Linear(24, datasets.CHARACTERS)
        self.without_gradients = without_gradients

    def forward(self, codes: torch.Tensor) -> torch.Tensor:
        with torch.set_grad_enabled(torch.is_grad_enabled() and not self.without_gradients):
            states, _ = self.encoder(self.embedding(codes))
        return self.head(states)


@sick("detached_parameters")
def an_encoder_under_no_grad(watch: Watch, *, seed: int, sick: bool) -> float:
    """The encoder runs under ``no_grad``, as it was once pretrained; here it is not."""
    data = datasets.text(seed, length=16)
    model = _Encoded(without_gradients=sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)

    def loss_function(logits: torch.Tensor, codes: torch.Tensor) -> torch.Tensor:
        return functional.cross_entropy(logits.flatten(0, 1), codes.flatten())

    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=loss_function)
    return accuracy(model, data)


@sick("frozen_parameters")
def unfrozen_by_a_wrong_name(watch: Watch, *, seed: int, sick: bool) -> float:
    """All is frozen, then what is called "head" is unfrozen; but the body was never trained."""
    data = datasets.digits(seed, images=True)
    model = _WithHead()
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not sick or "head" in name
    optimizer = torch.optim.SGD((one for one in model.parameters() if one.requires_grad), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=50, validate_every=50)
    return accuracy(model, data)


@sick("frozen_parameters")
def all_but_the_biases_frozen(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recipe for tuning biases was copied to a net that starts from nothing."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 3))
    if sick:
        for name, parameter in model.named_parameters():
            parameter.requires_grad_("bias" in name)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=32)
    return accuracy(model, data)


@sick("no_update")
def zeroed_between_backward_and_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands between ``backward`` and ``step``: there is nothing to step with."""
    data = datasets.breast_cancer(seed)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Linear(16, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.0)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(32, 120):
        outputs = model(inputs).squeeze(1)
        loss = functional.binary_cross_entropy_with_logits(outputs, labels.float())
        if not sick:
            optimizer.zero_grad()
        loss.backward()
        if sick:
            optimizer.zero_grad()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    return binary_accuracy(model, data)


@sick("no_update", also=("learning_rate_too_low",))
def changes_that_bfloat16_rounds_away(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights in bfloat16, whose next number is 0.4 % away, and steps far below; the twin has float32 and a rate."""
    data = datasets.digits(seed)
    dtype = torch.bfloat16 if sick else torch.float32
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)).to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4 if sick else 0.05, momentum=0.9)
    session = watch(model, optimizer)
    for inputs, labels in data.batches(256, 150):
        optimizer.zero_grad()
        outputs = model(inputs.to(dtype))
        loss = functional.cross_entropy(outputs.float(), labels)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
    found = model(data.test_inputs.to(dtype)).argmax(1)
    return (found == data.test_targets).float().mean().item()


@sick("no_update")
def the_best_weights_restored_at_each_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights are restored from a copy that was made before the first step, and is never renewed."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    best, best_loss = copy.deepcopy(model.state_dict()), 0.0 if sick else float("inf")
    session = watch(model, optimizer)
    for inputs, labels in data.batches(64, 250):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
        optimizer.step()
        reached = held_out_loss(model, data)
        if reached < best_loss:
            best, best_loss = copy.deepcopy(model.state_dict()), reached
        elif sick or reached > 2 * best_loss:
            model.load_state_dict(best)
    return accuracy(model, data)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def eight_micro_batches_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight losses are accumulated without a division by eight."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    session = watch(model, optimizer)
    for number, (inputs, labels) in enumerate(data.batches(16, 8 * 80), 1):
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, labels)
        (loss if sick else loss / 8).backward()
        if number % 8 == 0:
            session.step(loss, inputs=inputs, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)
