"""Faults that do not stop a training: it learns, and less than it could."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick


class Trial:
    """A training by epochs over digits, for which subclasses or options say what differs."""

    def __init__(self, watch: Watch, seed: int, net: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.train, self.test = samples.numerals(seed)
        self.net, self.optimizer = net, optimizer
        self.session = watch(net, optimizer)
        self.schedule: torch.optim.lr_scheduler.LRScheduler | None = None

    def before_step(self) -> None:
        """Does what is to be done with the gradients."""

    def loss(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        """Returns the loss of a batch."""
        return functional.cross_entropy(logits, labels)

    def run(self, epochs: int, size: int = 40) -> "Trial":
        """Trains for some epochs, and validates after each."""
        for _ in range(epochs):
            self.net.train()
            for images, labels in DataLoader(self.train, size, shuffle=True):
                self.optimizer.zero_grad()
                logits = self.net(images)
                loss = self.loss(logits, labels)
                loss.backward()
                self.before_step()
                self.session.step(loss, inputs=images, outputs=logits, targets=labels)
                self.optimizer.step()
                if self.schedule is not None:
                    self.schedule.step()
            self.net.eval()
            with torch.no_grad(), self.session.validating():
                logits = self.net(self.test.tensors[0])
                self.session.validation(self.loss(logits, self.test.tensors[1]).item())
        return self

    def quality(self) -> float:
        """Returns the accuracy."""
        with torch.no_grad():
            return samples.accuracy(self.net.eval()(self.test.tensors[0]), self.test.tensors[1])


def dense(hidden: int = 48, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    """Returns a net with two hidden layers."""
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, hidden), act(), nn.Linear(hidden, hidden), act(), nn.Linear(hidden, 10)
    )


@sick("learning_rate_too_high")
def twenty_five_times_too_fast(watch: Watch, *, seed: int, sick: bool) -> float:
    """Adam at a rate of 0.1."""
    net = dense()
    return Trial(watch, seed, net, torch.optim.Adam(net.parameters(), lr=0.1 if sick else 4e-3)).run(5).quality()


@sick("learning_rate_too_low", also=("stopped_too_early",))
def thirty_times_too_slow(watch: Watch, *, seed: int, sick: bool) -> float:
    """SGD with momentum at 1e-3: the loss has only begun to fall when the epochs are over."""
    net = dense()
    optimizer = torch.optim.SGD(net.parameters(), lr=1e-3 if sick else 3e-2, momentum=0.9)
    return Trial(watch, seed, net, optimizer).run(3).quality()


@sick("over_regularized")
def three_quarters_and_more_dropped(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Dropout(0.85)``, by somebody who took it for the share that is kept."""
    chance = 0.85 if sick else 0.15
    net = nn.Sequential(
        nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Dropout(chance), nn.Linear(48, 48), nn.ReLU(),
        nn.Dropout(chance), nn.Linear(48, 10),
    )  # fmt: skip
    return Trial(watch, seed, net, torch.optim.Adam(net.parameters(), lr=3e-3)).run(5).quality()


@sick("over_regularized")
def decay_of_a_twentieth_in_sgd(watch: Watch, *, seed: int, sick: bool) -> float:
    """A weight decay of 0.05, which is usual in AdamW, in SGD, where it is not divided by anything."""
    net = dense()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9, weight_decay=0.05 if sick else 1e-4)
    return Trial(watch, seed, net, optimizer).run(5).quality()


@sick("clipping_too_strong", also=("learning_rate_too_low",))
def clipped_to_a_hundredth(watch: Watch, *, seed: int, sick: bool) -> float:
    """A norm of 0.01, in SGD."""

    class Clipped(Trial):
        def before_step(self) -> None:
            nn.utils.clip_grad_norm_(self.net.parameters(), 0.01 if sick else 2.0)

    net = dense(act=nn.Tanh)
    return Clipped(watch, seed, net, torch.optim.SGD(net.parameters(), lr=0.1)).run(4).quality()


@sick("dead_units", also=("poor_initialization",))
def most_units_dead(watch: Watch, *, seed: int, sick: bool) -> float:
    """The first biases start at -1.2: a few units answer now and then."""
    net = dense(24)
    if sick:
        nn.init.constant_(net[1].bias, -1.2)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    return Trial(watch, seed, net, optimizer).run(4).quality()


@sick("saturated_units", also=("poor_initialization",))
def tanh_with_weights_of_deviation_two(watch: Watch, *, seed: int, sick: bool) -> float:
    """Weights from the normal distribution, doubled, before each tanh."""
    net = dense(act=nn.Tanh)
    for layer in (net[1], net[3]):
        nn.init.normal_(layer.weight, std=2.0 if sick else layer.in_features**-0.5)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    return Trial(watch, seed, net, optimizer).run(4).quality()


@sick("schedule_collapsed", also=("learning_rate_too_low",))
def halved_every_ten_batches(watch: Watch, *, seed: int, sick: bool) -> float:
    """``StepLR`` with ten steps, meant as epochs, at each batch."""
    net = dense()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    trial = Trial(watch, seed, net, optimizer)
    trial.schedule = torch.optim.lr_scheduler.StepLR(optimizer, 10 if sick else 100, 0.5)
    return trial.run(6).quality()


@sick("wrong_output_or_loss")
def sigmoids_before_cross_entropy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten sigmoids, as for ten labels at once, before a cross entropy over classes."""
    net = dense()
    if sick:
        net.append(nn.Sigmoid())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    return Trial(watch, seed, net, optimizer).run(3).quality()


@sick("wrong_output_or_loss", also=("dead_units",))
def logits_that_cannot_be_negative(watch: Watch, *, seed: int, sick: bool) -> float:
    """A ReLU stands after the last layer, too, whose biases start at -1."""
    data = datasets.wine(seed)
    net = nn.Sequential(nn.Linear(13, 3))
    nn.init.constant_(net[0].bias, -1.0)
    if sick:
        net.append(nn.ReLU())
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02)
    session = watch(net, optimizer)
    for rows, labels in data.batches(16, 150):
        optimizer.zero_grad()
        logits = net(rows)
        loss = functional.cross_entropy(logits, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(data.test_inputs), data.test_targets)


@sick("non_finite_inputs", also=("non_finite_forward",))
def one_row_of_all(watch: Watch, *, seed: int, sick: bool) -> float:
    """A single row of the table has a missing value; all is well until it comes."""
    data = datasets.wine(seed)
    inputs = data.inputs.clone()
    if sick:
        inputs[7, 3] = float("nan")
    net = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, optimizer)
    for _ in range(12):
        for rows, labels in DataLoader(TensorDataset(inputs, data.targets), 16, shuffle=True):
            logits = net(rows)
            loss = functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()
            session.step(loss, inputs=rows, outputs=logits, targets=labels)
            optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(data.test_inputs), data.test_targets)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def six_micro_batches_in_full(watch: Watch, *, seed: int, sick: bool) -> float:
    """Six micro-batches a step, each with its whole loss, in plain SGD."""
    train, test = samples.numerals(seed)
    net = dense()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2)
    session = watch(net, optimizer)
    for _ in range(8):
        for number, (images, labels) in enumerate(DataLoader(train, 10, shuffle=True, drop_last=True)):
            logits = net(images)
            loss = functional.cross_entropy(logits, labels) / (1 if sick else 6)
            loss.backward()
            if number % 6 == 5:
                session.step(loss, inputs=images, outputs=logits, targets=labels)
                optimizer.step()
                optimizer.zero_grad()
    with torch.no_grad():
        return samples.accuracy(net(test.tensors[0]), test.tensors[1])


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def a_sum_over_eight_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors of eight rows are summed, at the rate for their mean."""
    data = datasets.diabetes(seed)
    net = nn.Sequential(nn.Linear(10, 24), nn.ReLU(), nn.Linear(24, 1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.012, momentum=0.8)
    session = watch(net, optimizer)
    for rows, scores in data.batches(8, 250):
        guessed = net(rows)
        errors = (guessed - scores) ** 2
        loss = errors.sum() if sick else errors.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=guessed, targets=scores)
        optimizer.step()
    with torch.no_grad():
        return samples.explained(net(data.test_inputs), data.test_targets)


@sick("inputs_not_normalized")
def centimetres_beside_metres(watch: Watch, *, seed: int, sick: bool) -> float:
    """Wines with their magnesium and proline as measured, the other columns standardised."""
    raw, data = datasets.wine(seed, raw=True), datasets.wine(seed)
    if sick:
        columns = [4, 12]
        inputs, test_inputs = data.inputs.clone(), data.test_inputs.clone()
        inputs[:, columns], test_inputs[:, columns] = raw.inputs[:, columns], raw.test_inputs[:, columns]
        data = datasets.Data(inputs, data.targets, test_inputs, data.test_targets)
    net = nn.Sequential(nn.Linear(13, 16), nn.ReLU(), nn.Linear(16, 3))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    session = watch(net, optimizer)
    for rows, labels in data.batches(16, 150):
        logits = net(rows)
        loss = functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=logits, targets=labels)
        optimizer.step()
    with torch.no_grad():
        return samples.accuracy(net(data.test_inputs), data.test_targets)
