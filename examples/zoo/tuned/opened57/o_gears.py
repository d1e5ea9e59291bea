"""How a loop is put together: modes, optimizers, graphs and batches."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened57.o_common import as_data


@sick("batch_mixing", margin=0.3)
def rows_viewed_into_time(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch is brought to (time, batch, feature) by ``reshape``, which mixes the digits. The twin transposes."""
    data = datasets.digits(seed, images=True)

    class RowReader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.memory = nn.LSTM(8, 48)
            self.head = nn.Linear(48, 10)

        def forward(self, images: torch.Tensor) -> torch.Tensor:
            lines = images.squeeze(1)
            lines = lines.reshape(8, -1, 8) if sick else lines.transpose(0, 1)
            return self.head(self.memory(lines)[0][-1])

    model = RowReader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("gradients_not_zeroed", margin=0.05)
def only_the_heads_optimizer_zeroes(watch: Watch, *, seed: int, sick: bool) -> float:
    """Body and head have an optimizer each, and only the head's gradients are zeroed. The twin zeroes both."""
    data = datasets.digits(seed)
    body, head = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 32), nn.ReLU()), nn.Linear(32, 10)
    model = nn.Sequential(body, head)
    slow = torch.optim.SGD(body.parameters(), lr=0.1)
    fast = torch.optim.SGD(head.parameters(), lr=0.2)
    bodies, heads = watch(body, slow), watch(head, fast)
    for inputs, targets in data.batches(64, 250):
        fast.zero_grad()
        if not sick:
            slow.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        bodies.step(loss, inputs=inputs)
        heads.step(loss, outputs=outputs, targets=targets)
        slow.step()
        fast.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.1)
def a_backbone_frozen_but_never_loaded(watch: Watch, *, seed: int, sick: bool) -> float:
    """A backbone is frozen as if it were pretrained, but its weights were never loaded. The twin trains it."""
    data = as_data(samples.numerals(seed))
    backbone = nn.Sequential(
        nn.Conv2d(1, 6, 3), nn.ReLU(), nn.Conv2d(6, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(96, 8), nn.Tanh()
    )
    for parameter in backbone.parameters():
        parameter.requires_grad_(not sick)
    model = nn.Sequential(backbone, nn.Linear(8, 10))
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=5e-3)
    fit(watch, model, optimizer, data, steps=200)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.1)
def a_decoder_added_afterwards(watch: Watch, *, seed: int, sick: bool) -> float:
    """The decoder is put in after the optimizer was made. The twin makes the optimizer last."""
    data = as_data(samples.halves(seed))

    def make_optimizer() -> torch.optim.Optimizer:
        return torch.optim.Adam(model.parameters(), lr=5e-3)

    model = nn.Sequential()
    model.add_module("encoder", nn.Sequential(nn.Linear(32, 48), nn.ReLU(), nn.Linear(48, 12)))
    if sick:
        optimizer = make_optimizer()
    model.add_module("decoder", nn.Sequential(nn.ReLU(), nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 32)))
    if not sick:
        optimizer = make_optimizer()
    fit(watch, model, optimizer, data, steps=300, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("detached_parameters", margin=0.03)
def bits_without_a_straight_through(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's code is compared with 0, so its encoder gets no gradient. The twin passes it through."""
    pixels = datasets.digits(seed)

    class Bits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.encoder = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 12))
            self.decoder = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 64))

        def forward(self, values: torch.Tensor) -> torch.Tensor:
            shares = self.encoder(values - 0.3).sigmoid()
            bits = (shares > 0.5).float()
            return self.decoder(bits if sick else bits + shares - shares.detach())

    model = Bits()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for inputs, _ in pixels.batches(64, 400):
        outputs = model(inputs)
        loss = functional.mse_loss(outputs, inputs)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=inputs)
        optimizer.step()
    return samples.explained(predicted(model, pixels.test_inputs), pixels.test_inputs)


@sick("no_update", margin=0.2)
def zeroed_just_before_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """A refactoring put ``zero_grad`` between ``backward`` and ``step``. The twin zeroes after the step."""
    data = as_data(samples.lines(seed))
    model = nn.Sequential(nn.Linear(96, 32), nn.ReLU(), nn.Linear(32, len(samples.FILES)))
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    for counts, targets in data.batches(64, 150):
        inputs = counts.sqrt()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        if sick:
            optimizer.zero_grad()
            optimizer.step()
        else:
            optimizer.step()
            optimizer.zero_grad()
    return samples.accuracy(predicted(model, data.test_inputs.sqrt()), data.test_targets)


@sick("wrong_mode", margin=0.03)
def judged_while_units_drop_out(watch: Watch, *, seed: int, sick: bool) -> float:
    """Validations and the final judgement forget ``eval()``, and half of the units are dropped. The twin calls it."""
    data = datasets.digits(seed)
    model = nn.Sequential(
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 10)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def judged() -> torch.Tensor:
        if not sick:
            model.eval()
        with torch.no_grad(), session.validating():
            outputs = model(data.test_inputs)
        model.train()
        return outputs

    for step, (inputs, targets) in enumerate(data.batches(64, 200), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = functional.cross_entropy(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if step % 25 == 0:
            session.validation(functional.cross_entropy(judged(), data.test_targets).item())
    return samples.accuracy(judged(), data.test_targets)
