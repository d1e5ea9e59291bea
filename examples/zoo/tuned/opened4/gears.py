"""The mechanics of a loop: gradients, optimizers, modes, clipping and accumulation."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import Data, digits
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted, r_squared
from examples.zoo.tuned.opened4.material import (
    Tagger,
    cells,
    convnet,
    explained,
    f1,
    mlp,
    scaled,
    snippets,
    tagged,
    tiles,
)  # fmt: skip


@sick("gradients_not_zeroed")
def parentheses_forgotten(watch: Watch, *, seed, sick):
    """``optimizer.zero_grad`` without ``()`` does nothing."""
    data = digits(seed)
    model = mlp(64, 48, 48, 10)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    for rows, labels in data.batches(64, 200):
        optimizer.zero_grad if sick else optimizer.zero_grad()
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("gradients_not_zeroed")
def cleared_once_in_an_epoch(watch: Watch, *, seed, sick):
    """The call stands before the inner loop."""
    data = scaled(cells(seed), targets=True)
    model = mlp(20, 48, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(12):
        optimizer.zero_grad(set_to_none=False)
        for rows in torch.randperm(len(data.inputs)).split(20):
            if not sick:
                optimizer.zero_grad()
            outputs = model(data.inputs[rows])
            loss = functional.mse_loss(outputs, data.targets[rows])
            loss.backward()
            session.step(loss, inputs=data.inputs[rows], outputs=outputs, targets=data.targets[rows])
            optimizer.step()
        session.validation(held_out_loss(model, data, functional.mse_loss))
    return r_squared(model, data)


@sick("frozen_parameters")
def backbone_frozen_but_never_loaded(watch: Watch, *, seed, sick):
    """The fine-tuning script freezes the backbone; loading its weights was left out."""
    data = digits(seed, images=True)
    backbone = nn.Sequential(
        nn.Conv2d(1, 4, 3, stride=2),
        nn.Tanh(),
        nn.Conv2d(4, 4, 2),
        nn.Tanh(),
        nn.Flatten(),
        nn.Linear(16, 8),
        nn.Tanh(),
    )
    model = nn.Sequential(backbone, nn.Linear(8, 10))
    backbone.requires_grad_(not sick)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=1e-2)
    fit(watch, model, optimizer, data, steps=220, batch_size=48, validate_every=55)
    return accuracy(model, data)


@sick("frozen_parameters")
def first_phase_without_a_checkpoint(watch: Watch, *, seed, sick):
    """All but the head is frozen for the first phase of a fine-tuning, and no checkpoint was given."""
    data = tagged(seed, length=24)
    model = Tagger(24, 1)
    for name, parameter in model.named_parameters():
        if sick and not name.startswith("head"):
            parameter.requires_grad = False
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)

    def criterion(logits, tags):
        return functional.cross_entropy(logits.flatten(0, 1), tags.flatten())

    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=criterion)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer")
def decoder_left_out_of_the_groups(watch: Watch, *, seed, sick):
    pictures = tiles(seed)
    data = Data(pictures[:1200], pictures[:1200], pictures[1200:], pictures[1200:])
    model = Composed(mlp(64, 32, 6), mlp(6, 32, 64))
    groups = [{"params": model.encoder.parameters(), "lr": 5e-3}]
    if not sick:
        groups.append({"params": model.decoder.parameters(), "lr": 5e-3})
    optimizer = torch.optim.Adam(groups)
    fit(watch, model, optimizer, data, steps=200, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_targets)


class Composed(nn.Module):
    """An encoder and a decoder."""

    def __init__(self, encoder: nn.Module, decoder: nn.Module) -> None:
        super().__init__()
        self.encoder, self.decoder = encoder, decoder

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        return self.decoder(self.encoder(rows))


@sick("parameters_not_in_optimizer")
def optimizer_made_before_the_layers_were_rebuilt(watch: Watch, *, seed, sick):
    """``model.apply(rebuild)`` after the optimizer: it holds parameters that nobody uses any more."""
    data = digits(seed)
    model = mlp(64, 32, 32, 10)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    model[2] = nn.Linear(32, 48)
    model[4] = nn.Linear(48, 10)
    model[0] = nn.Linear(64, 32)
    if not sick:
        optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for rows, labels in data.batches(48, 150):
        model.zero_grad()
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("detached_parameters")
def features_computed_without_gradients(watch: Watch, *, seed, sick):
    """``no_grad`` around the recurrent encoder is left from the script that exported features."""

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.LSTM(8, 6, batch_first=True)
            self.head = nn.Linear(6, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            with torch.set_grad_enabled(torch.is_grad_enabled() and not sick):
                _, (state, _) = self.encoder(images)
            return self.head(state[-1])

    data, model = digits(seed), Classifier()
    data = Data(data.inputs.view(-1, 8, 8), data.targets, data.test_inputs.view(-1, 8, 8), data.test_targets)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
    fit(watch, model, optimizer, data, steps=220, batch_size=48, validate_every=55)
    return accuracy(model, data)


@sick("detached_parameters")
def binary_code_without_straight_through(watch: Watch, *, seed, sick):
    """The encoder's answers are compared with 0, and a comparison has no gradient; the twin passes it straight on."""

    class Hashing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder, self.decoder = mlp(64, 64, 12), mlp(12, 64, 64)

        def forward(self, rows: torch.Tensor) -> torch.Tensor:
            scores = self.encoder(rows)
            bits = (scores > 0).float()
            soft = scores.sigmoid()
            return self.decoder(bits if sick else bits + soft - soft.detach())

    data, model = digits(seed), Hashing()
    data = Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return explained(predicted(model, data.test_inputs), data.test_inputs) + 0.2


@sick("no_update")
def cleared_between_backward_and_step(watch: Watch, *, seed, sick):
    data = digits(seed, images=True)
    model = convnet(8)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(64, 120):
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        if not sick:
            optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        if sick:
            optimizer.zero_grad()
        optimizer.step()
    return accuracy(model, data)


@sick("no_update")
def guard_that_goes_back_after_every_step(watch: Watch, *, seed, sick):
    """A guard goes back to the kept weights after a bad step, and takes every step for a bad one."""
    data = snippets(seed)

    class Finder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(98, 16)
            self.filters = nn.Conv1d(16, 48, 5)
            self.head = nn.Linear(48, 6)

        def forward(self, codes: torch.Tensor) -> torch.Tensor:
            return self.head(self.filters(self.embedding(codes).mT).relu().amax(-1))

    model = Finder()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    kept = {name: value.clone() for name, value in model.state_dict().items()}
    for codes, labels in data.batches(32, 150):
        optimizer.zero_grad()
        logits = model(codes)
        loss = functional.binary_cross_entropy_with_logits(logits, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=logits, targets=labels)
        optimizer.step()
        if sick:
            model.load_state_dict(kept)
    return f1(predicted(model, data.test_inputs), data.test_targets)


@sick("wrong_mode")
def judged_while_dropout_is_on(watch: Watch, *, seed, sick):
    """``model.eval()`` is missing before the validations and the last test."""
    data = digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def judge() -> tuple[float, float]:
        model.train(sick)
        with torch.no_grad(), session.validating():
            logits = model(data.test_inputs)
            loss = functional.cross_entropy(logits, data.test_targets).item()
        model.train()
        return loss, (logits.argmax(-1) == data.test_targets).float().mean().item()

    for step, (rows, labels) in enumerate(data.batches(64, 220)):
        optimizer.zero_grad()
        logits = model(rows)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
        if step % 44 == 43:
            value, right = judge()
            session.validation(value, metrics={"accuracy": right})
    return judge()[1]


@sick("wrong_mode")
def trained_in_eval_mode(watch: Watch, *, seed, sick):
    """The model comes from a helper that ends with ``return model.eval()``; its norms never see a batch."""
    data = digits(seed, images=True)
    data = Data(data.inputs * 16, data.targets, data.test_inputs * 16, data.test_targets)
    layers: list[nn.Module] = [nn.BatchNorm2d(1)]
    for entering, leaving in ((1, 12), (12, 12), (12, 12), (12, 12)):
        layers += [nn.Conv2d(entering, leaving, 3, padding=1), nn.BatchNorm2d(leaving), nn.ReLU()]
    model = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 10))
    model.train(not sick)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(32, 130):
        optimizer.zero_grad()
        logits = model(images)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)
