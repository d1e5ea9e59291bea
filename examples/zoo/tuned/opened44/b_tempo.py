"""How fast it learns, and how long: rates, schedules, clipping, sums and stops."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened44.b_shelf import (
    LetterGru,
    LineWriter,
    figures,
    flat_figures,
    hits,
    scripts,
    small_convolutions,
    sources,
)  # fmt: skip


@sick("learning_rate_too_high", margin=0.1)
def a_rate_left_over_from_momentum(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD was replaced by AdamW, and its rate of 0.2 stayed; the twin has a rate for AdamW."""
    data = scripts(seed)
    model = LetterGru()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.2 if sick else 5e-3)
    fit(watch, model, optimizer, data, steps=150, batch_size=48)
    return accuracy(model, data)


class Patchwise(nn.Module):
    """Attention over the rows of a digit."""

    def __init__(self, *, width: int = 32, layers: int = 1, norm_first: bool = False, ahead: int = 64) -> None:
        super().__init__()
        self.rows = nn.Linear(8, width)
        self.places = nn.Parameter(0.1 * torch.randn(8, width))
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, ahead, dropout=0.0, batch_first=True, norm_first=norm_first)
            for _ in range(layers)
        )
        self.head = nn.Linear(width, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        rows = self.rows(images.squeeze(1)) + self.places
        for block in self.blocks:
            rows = block(rows)
        return self.head(rows.mean(1))


@sick("learning_rate_too_low", margin=0.1)
def a_rate_for_finetuning_from_scratch(watch: Watch, *, seed: int, sick: bool) -> float:
    """Attention that begins at random gets 2e-5, a rate for pretrained models; the twin gets 3e-3."""
    data = figures(seed)
    model = Patchwise(norm_first=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 3e-3, weight_decay=0.01)
    fit(watch, model, optimizer, data, steps=200, batch_size=64, validate_every=50)
    return accuracy(model, data)


@sick("schedule_collapsed", margin=0.04)
def a_plateau_in_the_wrong_direction(watch: Watch, *, seed: int, sick: bool) -> float:
    """A plateau scheduler is told to wait for a loss to grow, so its falling cuts the rate; the twin has it fall."""
    data = sources(seed)
    model = nn.Sequential(nn.Linear(96, 64), nn.ReLU(), nn.Dropout(0.2), nn.Linear(64, 6))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    mode = "max" if sick else "min"
    plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode=mode, factor=0.1, patience=4)
    session = watch(model, optimizer)
    for step, (rows, labels) in enumerate(data.batches(32, 240), 1):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 5 == 0:
            with session.validating():
                judged = held_out_loss(model, data)
            session.validation(judged)
            plateau.step(judged)
    return accuracy(model, data)


@sick("missing_warmup", also=("learning_rate_too_high",), margin=0.1)
def attention_normed_late_at_full_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight blocks of attention that norm after adding get the full rate at once; the twin warms up for 45."""
    data = figures(seed)
    model = Patchwise(layers=8, ahead=32)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    steps = 100

    def factor(step: int) -> float:
        left = (steps - step) / steps
        return left if sick else min(1.0, (step + 1) / 45) * left

    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    fit(watch, model, optimizer, data, steps=steps, batch_size=32, scheduler=schedule)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.08)
def judged_by_sixteen_names(watch: Watch, *, seed: int, sick: bool) -> float:
    """Patience of one with validations on 16 names each ends the training by chance; the twin judges all, with 8."""
    data = scripts(seed)
    model = LetterGru()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    best, waited = float("inf"), 0
    for step, (codes, labels) in enumerate(data.batches(32, 260), 1):
        outputs = model(codes)
        loss = functional.cross_entropy(outputs, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 5 == 0:
            chosen = torch.randperm(len(data.test_inputs))[: 16 if sick else None]
            with session.validating():
                judged = functional.cross_entropy(predicted(model, data.test_inputs[chosen]), data.test_targets[chosen])
            session.validation(judged.item())
            waited = 0 if judged < best else waited + 1
            best = min(best, judged.item())
            if waited >= (1 if sick else 8):
                break
    return accuracy(model, data)


@sick("clipping_too_strong", margin=0.1)
def a_leash_of_a_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients are clipped to a norm of 0.001 before plain SGD, so that it creeps; the twin clips to 1."""
    data = figures(seed)
    model = small_convolutions()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    for images, labels in data.batches(48, 150):
        optimizer.zero_grad()
        outputs = model(images)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1e-3 if sick else 1.0)
        session.step(loss, inputs=images, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


class Summing(nn.Module):
    """A recurrence of ReLUs over the pixels of a digit, four at a time."""

    def __init__(self) -> None:
        super().__init__()
        self.memory = nn.RNN(4, 48, nonlinearity="relu", batch_first=True)
        nn.init.eye_(self.memory.weight_hh_l0)
        self.head = nn.Linear(48, 10)

    def forward(self, pixels: torch.Tensor) -> torch.Tensor:
        return self.head(self.memory(pixels.view(len(pixels), 16, 4))[0][:, -1])


@sick("clipping_ineffective", also=("exploding_gradients",), margin=0.1)
def a_leash_that_follows_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of a recurrence are clipped when the optimizer has already used them; the twin clips before."""
    data = flat_figures(seed)
    model = Summing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(48, 250):
        optimizer.zero_grad()
        outputs = model(pixels)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        if not sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
        if sick:
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
    return accuracy(model, data)


@sick("accumulation_not_averaged", margin=0.08)
def sixteen_portions_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradients of 16 small batches are added at the rate of one batch; the twin divides each loss by 16."""
    data = flat_figures(seed)
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    session = watch(model, optimizer)
    portions = data.batches(8, 16 * 70)
    for _ in range(70):
        optimizer.zero_grad()
        for _ in range(16):
            pixels, labels = next(portions)
            outputs = model(pixels)
            loss = functional.cross_entropy(outputs, labels)
            (loss if sick else loss / 16).backward()
        session.step(loss, inputs=pixels, outputs=outputs, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("loss_sum_not_mean", margin=0.05)
def losses_of_all_characters_added(watch: Watch, *, seed: int, sick: bool) -> float:
    """The losses of a window's 20 characters are added up in a loop over time; the twin divides by their number."""
    data = datasets.text(seed, length=20)
    model = LineWriter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5, momentum=0.9)
    session = watch(model, optimizer)
    for codes, following in data.batches(32, 160):
        optimizer.zero_grad()
        outputs = model(codes)
        loss = sum(functional.cross_entropy(outputs[:, time], following[:, time]) for time in range(20))
        if not sick:
            loss = loss / 20
        loss.backward()
        session.step(loss, inputs=codes, outputs=outputs, targets=following)
        optimizer.step()
    return hits(predicted(model, data.test_inputs), data.test_targets)


class Neighbours(nn.Module):
    """Three layers in which nodes of a graph hear what their neighbours say."""

    def __init__(self, links: torch.Tensor) -> None:
        super().__init__()
        self.register_buffer("links", links)
        self.layers = nn.ModuleList([nn.Linear(30, 32), nn.Linear(32, 32), nn.Linear(32, 32)])
        self.head = nn.Linear(32, 2)

    def forward(self, nodes: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            nodes = functional.relu(layer(self.links @ nodes))
        return self.head(nodes)


@sick("exploding_gradients", margin=0.03)
def neighbours_heard_all_at_once(watch: Watch, *, seed: int, sick: bool) -> float:
    """A graph of tumours adds up messages of 25 neighbours in each of three layers; the twin takes their mean."""
    data = datasets.breast_cancer(seed)
    nodes = torch.cat([data.inputs, data.test_inputs])
    nearest = torch.cdist(nodes, nodes).topk(25, largest=False).indices
    links = torch.zeros(len(nodes), len(nodes)).scatter_(1, nearest, 1.0)
    model = Neighbours(links if sick else links / 25)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    session = watch(model, optimizer)
    known = len(data.targets)
    for _ in range(120):
        optimizer.zero_grad()
        outputs = model(nodes)[:known]
        loss = functional.cross_entropy(outputs, data.targets)
        loss.backward()
        session.step(loss, inputs=nodes, outputs=outputs, targets=data.targets)
        optimizer.step()
    return hits(predicted(model, nodes)[known:], data.test_targets)
