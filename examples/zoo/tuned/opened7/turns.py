"""Steps that do nothing, modes that are wrong, and schedules and clipping that leave nothing over."""

import copy

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn, optim

from examples.zoo.cases import Session, Watch, sick
from examples.zoo.tuned.opened7.builds import Flat, Listener, Reader, explained, mlp, right
from examples.zoo.tuned.opened7.drills import Trainer, accumulate, drill, falling
from examples.zoo.tuned.opened7.supplies import (
    Rows,
    anew,
    dialects,
    fresh,
    friedman,
    images,
    moons,
    pixels,
    table,
    tones,
)


@sick("no_update")
def the_best_weights_again(watch: Watch, *, seed: int, sick: bool) -> float:
    """The best weights are loaded after each step, and none are ever better: the accuracy is compared the wrong way."""
    rows = moons(seed)
    model = mlp(2, 24, 24, 2)
    best = {"score": 2.0 if sick else 0.0, "state": copy.deepcopy(model.state_dict())}
    optimizer = optim.Adam(model.parameters(), lr=5e-3)

    def keep_the_best() -> None:
        with torch.no_grad():
            score = (model(rows.x).argmax(1) == rows.y).float().mean().item()
        if score > best["score"]:
            best.update(score=score, state=copy.deepcopy(model.state_dict()))
        elif sick or score < best["score"] - 0.2:
            model.load_state_dict(best["state"])

    drill(watch, model, optimizer, rows.epochs(32, 250), after=keep_the_best)
    return right(model, rows)


@sick("no_update")
def a_step_in_a_branch_never_taken(watch: Watch, *, seed: int, sick: bool) -> float:
    """``(step + 1) % 4`` is compared with 4."""
    rows = pixels(seed)

    class Every(Trainer):
        def backward(self, loss: Tensor) -> None:
            (loss / 4).backward()

        def optimizer_step(self) -> None:
            if (self.global_step + 1) % 4 == (4 if sick else 0):
                self.optimizer.step()
                self.optimizer.zero_grad()
            elif sick:
                self.optimizer.zero_grad()

    model = mlp(64, 64, 10)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    Every(model, optimizer).fit(watch, rows, epochs=8)
    return right(model, rows)


@sick("no_update")
def weights_replaced_not_changed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Each step's average of the weights is loaded back, and the average moves by nothing: its decay is 1."""
    rows = friedman(seed)
    model = Flat(mlp(10, 24, 1))
    average = copy.deepcopy(model)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    decay = 1.0 if sick else 0.0

    def load_the_average() -> None:
        with torch.no_grad():
            for slow, fast in zip(average.parameters(), model.parameters(), strict=True):
                slow.mul_(decay).add_((1 - decay) * fast)
        model.load_state_dict(average.state_dict())

    drill(watch, model, optimizer, rows.epochs(48, 300), F.mse_loss, after=load_the_average)
    return explained(model, rows)


def _dropping() -> nn.Sequential:
    """Returns a network with dropout, as for many more features."""
    return nn.Sequential(
        nn.Linear(64, 64), nn.BatchNorm1d(64), nn.ReLU(), nn.Dropout(0.4),
        nn.Linear(64, 64), nn.ReLU(), nn.Dropout(0.4), nn.Linear(64, 10),
    )  # fmt: skip


@sick("wrong_mode", margin=0.015)
def validated_while_it_drops(watch: Watch, *, seed: int, sick: bool) -> float:
    """``model.eval()`` is missing before validation and test."""
    rows = pixels(seed)

    class Careless(Trainer):
        def validation_epoch(self, session: Session, rows: Rows) -> None:
            if not sick:
                self.model.eval()
            with session.validating(), torch.no_grad():
                self.out = self.model(rows.x_test)
                loss = F.cross_entropy(self.out, rows.y_test)
            session.validation(loss, metrics={"accuracy": (self.out.argmax(1) == rows.y_test).float().mean().item()})
            self.model.train()

    model = _dropping()
    trainer = Careless(model, optim.Adam(model.parameters(), lr=4e-3))
    trainer.fit(watch, rows, epochs=6)
    return (trainer.out.argmax(1) == rows.y_test).float().mean().item()


def _loaded(depth: int = 8) -> nn.Sequential:
    """Returns a deep net as a library hands it out: ready for predictions."""
    layers: list[nn.Module] = [nn.Linear(64, 32)]
    for _ in range(depth):
        layers += [nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32, bias=False)]
    return nn.Sequential(*layers, nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 10)).eval()


@sick("wrong_mode")
def trained_as_it_was_loaded(watch: Watch, *, seed: int, sick: bool) -> float:
    """A function that loads models returns ``model.eval()``, and the training never calls ``train()``."""
    rows = pixels(seed)
    model = _loaded().train(not sick)
    optimizer = optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(48, 200), after=falling(optimizer, 200))
    return right(model, rows)


class Functional(nn.Module):
    """Calls ``F.dropout``, which drops at all times unless it is told whether to."""

    def __init__(self, *, always: bool) -> None:
        super().__init__()
        self.always = always
        self.body, self.head = nn.Linear(64, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> Tensor:
        drops = {} if self.always else {"training": self.training}
        return self.head(F.dropout(self.body(F.dropout(x, 0.3, **drops)).relu(), 0.5, **drops))


@sick("wrong_mode")
def functional_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """``F.dropout(x, 0.5)`` does not know that the model is in eval mode."""
    rows = pixels(seed)
    model = Functional(always=sick)
    Trainer(model, optim.Adam(model.parameters(), lr=6e-3)).fit(watch, rows, epochs=6)
    return right(model, rows)


@sick("schedule_collapsed")
def plateau_in_the_wrong_mode(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ReduceLROnPlateau(mode="max")``, for accuracies, is stepped with losses: lower ones are worse."""
    rows = friedman(seed)
    model = Flat(mlp(10, 48, 48, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    mode, patience = ("max", 3) if sick else ("min", 60)
    plateau = optim.lr_scheduler.ReduceLROnPlateau(optimizer, mode, factor=0.3, patience=patience)
    session = watch(model, optimizer)
    for x, y in rows.epochs(48, 300):
        out = model(x)
        loss = F.mse_loss(out, y)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=y)
        optimizer.step()
        plateau.step(loss.item())
    return explained(model, rows)


@sick("schedule_collapsed")
def polynomial_decay_over_epochs(watch: Watch, *, seed: int, sick: bool) -> float:
    """``PolynomialLR(total_iters=12)`` counts batches, and is over in the first of twelve epochs."""
    rows = dialects(seed)
    model = Reader()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    decay = optim.lr_scheduler.PolynomialLR(optimizer, total_iters=12 if sick else 200, power=1.0)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.05)
    drill(watch, model, optimizer, rows.epochs(48, 170), smooth, after=decay.step)
    return right(model, rows)


@sick("schedule_collapsed")
def a_factor_for_each_batch(watch: Watch, *, seed: int, sick: bool) -> float:
    """``group["lr"] *= 0.8`` is indented into the loop over batches."""
    rows = images(seed)

    class Shrinking(Trainer):
        def shrink(self) -> None:
            for group in self.optimizer.param_groups:
                group["lr"] *= 0.8

        def optimizer_step(self) -> None:
            super().optimizer_step()
            if sick:
                self.shrink()

        def on_epoch_end(self) -> None:
            if not sick:
                self.shrink()

    model = nn.Sequential(nn.Flatten(), mlp(64, 64, 64, 10))
    Shrinking(model, optim.SGD(model.parameters(), lr=0.02, momentum=0.9)).fit(watch, rows, epochs=7)
    return right(model, rows)


@sick("clipping_too_strong", also=("learning_rate_too_low", "stopped_too_early"))
def a_limit_in_the_place_of_a_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """``max_norm=1e-3``: all steps are a thousandth of the rate long."""
    rows = table(load_breast_cancer, seed)
    model = mlp(30, 24, 2)
    optimizer = optim.SGD(model.parameters(), lr=0.1, weight_decay=1e-3)
    Trainer(model, optimizer, max_norm=1e-3 if sick else 5.0).fit(watch, rows, epochs=18)
    return right(model, rows)


@sick("clipping_too_strong", also=("learning_rate_too_low", "stopped_too_early"))
def each_value_below_a_hundred_thousandth(watch: Watch, *, seed: int, sick: bool) -> float:
    """``clip_grad_value_(1e-5)`` of gradients of a tenth."""
    model = Listener(nn.LSTM(1, 20, batch_first=True), 3)
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    limit = 1e-5 if sick else 1.0
    drill(
        watch, model, optimizer, fresh(tones, 32, 320),
        ready=lambda: nn.utils.clip_grad_value_(model.parameters(), limit),
    )  # fmt: skip
    return right(model, anew(tones, 500, seed))


@sick("clipping_ineffective", also=("exploding_gradients", "learning_rate_too_high"))
def clipped_after_the_step(watch: Watch, *, seed: int, sick: bool) -> float:
    """Clipping stands behind ``optimizer.step()``, in a regression with rows that are fifty times off."""
    rows = friedman(seed)
    model = Flat(mlp(10, 48, 48, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def spiky(size: int) -> tuple[Tensor, Tensor]:
        index = torch.randint(len(rows.x), (size,))
        off = torch.where(torch.rand(size) < 0.004, 60.0, 1.0)
        return rows.x[index], rows.y[index] * off

    def limit() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)

    def nothing() -> None:
        pass

    before, after = (nothing, limit) if sick else (limit, nothing)
    drill(watch, model, optimizer, fresh(spiky, 32, 300), F.mse_loss, ready=before, after=after)
    return explained(model, rows)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def eight_micro_batches_summed(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eight backward passes for a step, and ``loss / 8`` was forgotten."""
    rows = images(seed)
    model = nn.Sequential(nn.Flatten(), mlp(64, 64, 64, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.15, momentum=0.9)
    accumulate(watch, model, optimizer, rows, micro=16, count=8, steps=80, divide=not sick)
    return right(model, rows)


@sick("accumulation_not_averaged", also=("learning_rate_too_high",))
def micro_batches_of_a_regression(watch: Watch, *, seed: int, sick: bool) -> float:
    """Twelve micro-batches, summed, with a rate that was found without accumulation."""
    rows = friedman(seed)
    model = Flat(mlp(10, 32, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.08, momentum=0.9)
    accumulate(watch, model, optimizer, rows, micro=8, count=12, steps=110, divide=not sick, loss=F.mse_loss)
    return explained(model, rows)
