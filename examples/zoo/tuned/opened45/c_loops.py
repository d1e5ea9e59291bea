"""The order of a loop's calls, what an optimizer knows of a model, and how long it goes on."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened45.c_common import Reader, joined, of_columns


@sick("gradients_not_zeroed", margin=0.05)
def piled_up_for_an_epoch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` stands before the loop over batches, so an epoch's gradients pile up; the twin's stands in it."""
    data = datasets.digits(seed)
    loader = DataLoader(TensorDataset(data.inputs, data.targets), batch_size=32, shuffle=True)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    for _ in range(4):
        optimizer.zero_grad()
        for rows, labels in loader:
            if not sick:
                optimizer.zero_grad()
            outputs = model(rows)
            loss = functional.cross_entropy(outputs, labels)
            loss.backward()
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
    return accuracy(model, data)


@sick("frozen_parameters", margin=0.1)
def a_backbone_frozen_untrained(watch: Watch, *, seed: int, sick: bool) -> float:
    """A recipe for pretrained nets froze a backbone that starts at random; the twin trains all of it."""
    data = datasets.digits(seed, images=True)
    backbone = nn.Sequential(
        nn.Conv2d(1, 6, 3, stride=2, padding=1), nn.ReLU(), nn.Conv2d(6, 12, 3, stride=2, padding=1), nn.ReLU(),
        nn.AdaptiveAvgPool2d(1), nn.Flatten(),
    )  # fmt: skip
    for parameter in backbone.parameters():
        parameter.requires_grad = not sick
    model = nn.Sequential(backbone, nn.Linear(12, 10))
    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.Adam(trained, lr=1e-2)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)


@sick("parameters_not_in_optimizer", margin=0.1)
def groups_by_a_name_that_changed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Groups of rates are made of names, but the recurrence isn't called ``lstm`` any more; the twin says ``gru``."""
    data = joined(samples.names(seed))
    model = Reader(12)
    named = dict(model.named_parameters())
    name = "lstm" if sick else "gru"
    groups = [
        {"params": [weight for key, weight in named.items() if key.startswith((name, "letters"))], "lr": 1e-2},
        {"params": [weight for key, weight in named.items() if key.startswith("head")], "lr": 2e-2},
    ]
    optimizer = torch.optim.Adam(groups)
    fit(watch, model, optimizer, data, steps=180, batch_size=64)
    return accuracy(model, data)


class Bits(nn.Module):
    """Encodes a digit into bits, and decodes it."""

    def __init__(self, through: bool) -> None:
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 16))
        self.decoder, self.through = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64)), through

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        soft = torch.sigmoid(self.encoder(pixels))
        bits = (soft > 0.5).float()
        return self.decoder(bits + soft - soft.detach() if self.through else bits)


@sick("detached_parameters", margin=0.05)
def bits_that_cut_the_graph(watch: Watch, *, seed: int, sick: bool) -> float:
    """Bits come from a comparison, which passes no gradient to the encoder; the twin lets it straight through."""
    drawn = datasets.digits(seed)
    data = datasets.Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = Bits(not sick)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=300, batch_size=64, loss_function=functional.mse_loss)
    return of_columns(model, data)


@sick("no_update", margin=0.2)
def gradients_wiped_before_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """``zero_grad`` comes after ``backward``, so that each step has no gradient to go by; the twin's comes before."""
    data = joined(samples.standardised(samples.proline(seed), 0, 1))
    model = nn.Sequential(nn.Linear(12, 32), nn.ELU(), nn.Linear(32, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for rows, targets in data.batches(32, 150):
        if not sick:
            optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.huber_loss(outputs, targets)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=targets)
        if sick:
            optimizer.zero_grad()
        optimizer.step()
    return of_columns(model, data)


@sick("wrong_mode", margin=0.05)
def eval_without_its_brackets(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.eval`` lacks its brackets, so sorted test batches are normalised by themselves; the twin calls it."""
    data = datasets.digits(seed, images=True)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Dropout(0.3),
        nn.Linear(128, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10),
    )  # fmt: skip
    order = data.test_targets.argsort()
    batches = list(zip(data.test_inputs[order].split(15), data.test_targets[order].split(15), strict=True))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)

    def validate() -> float:
        if sick:
            model.eval  # noqa: B018
        else:
            model.eval()
        total, right = 0.0, 0
        with session.validating(), torch.no_grad():
            for images, labels in batches:
                outputs = model(images)
                total += functional.cross_entropy(outputs, labels, reduction="sum").item()
                right += (outputs.argmax(1) == labels).sum().item()
        session.validation(total / len(order))
        model.train()
        return right / len(order)

    share = 0.0
    for step, (images, labels) in enumerate(data.batches(64, 160), 1):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 40 == 0:
            share = validate()
    return share


@sick("accumulation_not_averaged", margin=0.05)
def eight_micro_batches_as_a_sum(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight micro-batches' losses are accumulated as a sum, at the rate of one large batch; the twin divides them."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(16, 480), 1):
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        (loss if sick else loss / 8).backward()
        if step % 8 == 0:
            session.step(loss, inputs=rows, outputs=outputs, targets=labels)
            optimizer.step()
            optimizer.zero_grad()
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.1)
def a_plateau_in_mode_max(watch: Watch, *, seed: int, sick: bool) -> float:
    """The plateau scheduler has ``mode="max"`` and cuts the rate while the loss falls; the twin has ``mode="min"``."""
    data = joined(samples.names(seed))
    model = Reader()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode="max" if sick else "min", patience=1)
    session = watch(model, optimizer)
    for step, (codes, labels) in enumerate(data.batches(48, 160), 1):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 10 == 0:
            validation = held_out_loss(model, data)
            session.validation(validation)
            scheduler.step(validation)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.1)
def a_tenth_is_asked_of_each_check(watch: Watch, *, seed: int, sick: bool) -> float:
    """It stops unless the loss falls by 0.1 between checks, which slow progress doesn't; the twin asks for 0.001."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    session = watch(model, optimizer)
    least, waited = float("inf"), 0
    for step, (rows, labels) in enumerate(data.batches(64, 400), 1):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 10 == 0:
            validation = functional.cross_entropy(predicted(model, data.test_inputs), data.test_targets).item()
            session.validation(validation)
            waited = 0 if validation < least - (0.1 if sick else 0.001) else waited + 1
            least = min(least, validation)
            if waited == 6:
                break
    return accuracy(model, data)
