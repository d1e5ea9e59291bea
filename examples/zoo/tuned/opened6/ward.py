"""Tables of patients and wines, in functions and NumPy, as in a notebook."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine
from sklearn.metrics import balanced_accuracy_score, r2_score
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import StandardScaler
from torch import nn

from examples.zoo.cases import Watch, sick


@dataclass
class Table:
    """Rows to train on and rows to judge by."""

    x: torch.Tensor
    y: torch.Tensor
    x_test: torch.Tensor
    y_test: torch.Tensor


def table_of(load: Any, seed: int, *, scale: bool = True, real: bool = False) -> Table:
    x, y = load(return_X_y=True)
    x, x_test, y, y_test = train_test_split(x, y, test_size=0.3, random_state=seed)
    if scale:
        scaler = StandardScaler().fit(x)
        x, x_test = scaler.transform(x), scaler.transform(x_test)
    kind = torch.float32 if real else torch.long
    rows, test_rows = (torch.tensor(part, dtype=torch.float32) for part in (x, x_test))
    return Table(rows, torch.tensor(y, dtype=kind), test_rows, torch.tensor(y_test, dtype=kind))


def progression(seed: int) -> Table:
    """Diabetes, with targets in units of their deviation from their mean."""
    table = table_of(load_diabetes, seed, real=True)
    mean, std = table.y.mean(), table.y.std()
    table.y, table.y_test = (table.y - mean) / std, (table.y_test - mean) / std
    return table


def mlp(*widths: int) -> nn.Sequential:
    layers: list[nn.Module] = []
    for i in range(len(widths) - 1):
        layers += [nn.Linear(widths[i], widths[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers[:-1])


def right(model: nn.Module, table: Table) -> float:
    with torch.no_grad():
        return float((model(table.x_test).argmax(-1) == table.y_test).float().mean())


def explained(model: nn.Module, table: Table) -> float:
    with torch.no_grad():
        guess = model(table.x_test).reshape(-1)
    if not torch.isfinite(guess).all():
        return float("nan")
    return max(-1.0, float(r2_score(table.y_test.reshape(-1).numpy(), guess.numpy())))


@sick("inputs_not_normalized")
def wine_as_measured(watch: Watch, *, seed: int, sick: bool) -> float:
    """Proline is near 1000 and hue near 1, and nobody scaled them."""
    t = table_of(load_wine, seed, scale=not sick)
    net = mlp(13, 24, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9)
    session = watch(net, opt)
    for _epoch in range(20):
        for idx in torch.randperm(len(t.y)).split(16):
            opt.zero_grad()
            logits = net(t.x[idx])
            loss = F.cross_entropy(logits, t.y[idx])
            loss.backward()
            session.step(loss, inputs=t.x[idx], outputs=logits, targets=t.y[idx])
            opt.step()
    return right(net, t)


@sick("inputs_not_normalized")
def one_column_in_another_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """One of ten columns came in nanograms where the others are standardised."""
    t = progression(seed)
    if sick:
        t.x[:, 8], t.x_test[:, 8] = t.x[:, 8] * 900 + 4600, t.x_test[:, 8] * 900 + 4600
    net = mlp(10, 20, 1)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for _ in range(150):
        idx = np.random.default_rng(torch.randint(1 << 30, ()).item()).choice(len(t.y), 32, replace=False)
        guess = net(t.x[idx]).squeeze(1)
        loss = (guess - t.y[idx]).abs().mean()
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=t.x[idx], outputs=guess, targets=t.y[idx])
        opt.step()
    return explained(net, t)


@sick("target_out_of_range")
def a_probability_for_a_score(watch: Watch, *, seed: int, sick: bool) -> float:
    """The regressor was copied from a classifier, with its last sigmoid."""
    t = progression(seed)
    body = mlp(10, 24, 1)
    net = nn.Sequential(body, nn.Sigmoid()) if sick else body
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for _ in range(12):
        for idx in torch.randperm(len(t.y)).split(24):
            guess = net(t.x[idx])
            loss = F.smooth_l1_loss(guess, t.y[idx, None])
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=t.x[idx], outputs=guess, targets=t.y[idx, None])
            opt.step()
    return explained(net, t)


@sick("target_out_of_range", also=("learning_rate_too_low",))
def targets_in_their_own_unit(watch: Watch, *, seed: int, sick: bool) -> float:
    """Targets around 150 for a network that starts at zero and moves by a thousandth a step."""
    t = table_of(load_diabetes, seed, real=True)
    mean, std = t.y.mean(), t.y.std()
    net = mlp(10, 32, 32, 1)
    opt = torch.optim.Adam(net.parameters(), lr=1e-3)
    session = watch(net, opt)
    for _ in range(20):
        for idx in torch.randperm(len(t.y)).split(32):
            want = t.y[idx] if sick else (t.y[idx] - mean) / std
            guess = net(t.x[idx]).squeeze(-1)
            loss = F.mse_loss(guess, want)
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=t.x[idx], outputs=guess, targets=want)
            opt.step()
    if not sick:
        t.y_test = (t.y_test - mean) / std
    return explained(net, t)


def huber(guess: torch.Tensor, want: torch.Tensor, delta: float = 1.0) -> torch.Tensor:
    error = (guess - want).abs()
    small = error.clamp(max=delta)
    return (0.5 * small**2 + delta * (error - small)).mean()


@sick("shape_broadcast")
def a_column_against_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Huber loss of one's own, without the check that torch's has."""
    t = progression(seed)
    net = mlp(10, 24, 1)
    opt = torch.optim.Adam(net.parameters(), lr=6e-3)
    session = watch(net, opt)
    for _ in range(15):
        for idx in torch.randperm(len(t.y)).split(32):
            guess = net(t.x[idx])
            if not sick:
                guess = guess[:, 0]
            loss = huber(guess, t.y[idx])
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=t.x[idx], outputs=guess, targets=t.y[idx])
            opt.step()
    return explained(net, t)


@sick("labels_unrelated")
def rows_shuffled_without_targets(watch: Watch, *, seed: int, sick: bool) -> float:
    """The feature frame was shuffled, and the series of targets was not."""
    t = table_of(load_wine, seed)
    order = torch.randperm(len(t.y))
    x, y = t.x[order], t.y if sick else t.y[order]
    net = mlp(13, 8, 3)
    opt = torch.optim.SGD(net.parameters(), lr=0.05)
    session = watch(net, opt)
    for step in range(160):
        idx = torch.arange(step * 20, step * 20 + 20) % len(y)
        logits = net(x[idx])
        loss = F.cross_entropy(logits, y[idx])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=x[idx], outputs=logits, targets=y[idx])
        opt.step()
    return right(net, t)


@sick("single_class_labels")
def the_head_of_a_sorted_frame(watch: Watch, *, seed: int, sick: bool) -> float:
    """``frame.head(36)`` for a quick trial, of a frame that is sorted by cultivar."""
    t = table_of(load_wine, seed)
    order = t.y.argsort() if sick else torch.randperm(len(t.y))
    x, y = t.x[order[:36]], t.y[order[:36]]
    net = mlp(13, 16, 3)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for _ in range(80):
        idx = torch.randint(len(y), (12,))
        logits = net(x[idx])
        loss = F.cross_entropy(logits, y[idx])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=x[idx], outputs=logits, targets=y[idx])
        opt.step()
    return right(net, t)


@sick("class_imbalance")
def a_rare_disease(watch: Watch, *, seed: int, sick: bool) -> float:
    """Ten malignant tumours among 250 benign ones, three vague columns, a plain loss; quality: balanced accuracy."""
    t = table_of(load_breast_cancer, seed)
    vague = [1, 4, 8]
    ill, well = (t.y == 0).nonzero()[:10, 0], (t.y == 1).nonzero()[:250, 0]
    x, y = torch.cat([t.x[ill], t.x[well]])[:, vague], torch.cat([torch.ones(len(ill)), torch.zeros(len(well))])
    net = mlp(3, 12, 1)
    opt = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, opt)
    weight = None if sick else torch.tensor(len(well) / len(ill))
    for _ in range(14):
        for idx in torch.randperm(len(y)).split(32):
            logit = net(x[idx])[:, 0]
            loss = F.binary_cross_entropy_with_logits(logit, y[idx], pos_weight=weight)
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=x[idx], outputs=logit, targets=y[idx])
            opt.step()
    with torch.no_grad():
        called = (net(t.x_test[:, vague])[:, 0] > 0).numpy()
    return float(balanced_accuracy_score((t.y_test == 0).numpy(), called))
