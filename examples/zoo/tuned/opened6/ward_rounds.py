"""More of the ward's notebooks: penalties, rates, stops, and steps."""

import copy
import math

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_breast_cancer
from torch import nn

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened6.ward import Table, explained, mlp, progression, right, table_of


@sick("over_regularized")
def a_heavy_l1_penalty(watch: Watch, *, seed: int, sick: bool) -> float:
    """The sum of all weights' sizes is added with a factor that belongs to its mean."""
    t = progression(seed)
    net = mlp(10, 32, 1)
    opt = torch.optim.Adam(net.parameters(), lr=5e-3)
    session = watch(net, opt)
    for _ in range(20):
        for idx in torch.randperm(len(t.y)).split(32):
            guess = net(t.x[idx])
            fit = F.mse_loss(guess, t.y[idx, None])
            size = sum(weight.abs().sum() for weight in net.parameters())
            loss = fit + (0.5 if sick else 1e-4) * size
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=t.x[idx], outputs=guess, targets=t.y[idx, None])
            opt.step()
    return explained(net, t)


@sick("over_regularized")
def decay_of_a_decoupled_recipe(watch: Watch, *, seed: int, sick: bool) -> float:
    """A weight decay of 0.5, as in a paper that multiplies it by the rate, in SGD with momentum."""
    t = table_of(load_breast_cancer, seed)
    net = mlp(30, 32, 16, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.5 if sick else 5e-4)
    session = watch(net, opt)
    for _ in range(12):
        for idx in torch.randperm(len(t.y)).split(32):
            logits = net(t.x[idx])
            loss = F.cross_entropy(logits, t.y[idx])
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=t.x[idx], outputs=logits, targets=t.y[idx])
            opt.step()
    return right(net, t)


def _loss_of(net: nn.Module, t: Table) -> float:
    net.eval()
    with torch.no_grad():
        found = F.mse_loss(net(t.x_test), t.y_test[:, None]).item()
    net.train()
    return found


@sick("overfitting")
def sixty_patients_by_heart(watch: Watch, *, seed: int, sick: bool) -> float:
    """A wide network learns sixty patients by heart; its twin stops early and has a decay."""
    t = progression(seed)
    x, y = t.x[:60], t.y[:60, None]
    net = mlp(10, 128, 128, 1)
    opt = torch.optim.AdamW(net.parameters(), lr=3e-3, weight_decay=0.0 if sick else 0.5)
    session = watch(net, opt)
    best, best_weights = math.inf, copy.deepcopy(net.state_dict())
    for epoch in range(100):
        for idx in torch.randperm(60).split(30):
            guess = net(x[idx])
            loss = F.mse_loss(guess, y[idx])
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=x[idx], outputs=guess, targets=y[idx])
            opt.step()
        if epoch % 4 == 0:
            with session.validating():
                found = _loss_of(net, t)
            session.validation(found)
            if found < best:
                best, best_weights = found, copy.deepcopy(net.state_dict())
            elif not sick and epoch > 8:
                break
    if not sick:
        net.load_state_dict(best_weights)
    return explained(net, t)


@sick("learning_rate_too_high", also=("exploding_gradients",))
def a_linear_fit_that_diverges(watch: Watch, *, seed: int, sick: bool) -> float:
    """Gradient descent on a least-squares problem, beyond the rate at which it is stable."""
    t = progression(seed)
    net = nn.Linear(10, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.6 if sick else 0.05)
    session = watch(net, opt)
    for _ in range(120):
        opt.zero_grad()
        guess = net(t.x)
        loss = ((guess[:, 0] - t.y) ** 2).mean()
        loss.backward()
        session.step(loss, inputs=t.x, outputs=guess[:, 0], targets=t.y)
        opt.step()
    return explained(net, t)


@sick("non_finite_inputs")
def logarithms_of_counts(watch: Watch, *, seed: int, sick: bool) -> float:
    """Skewed columns are replaced by their logarithm; some tumours have a concavity of zero."""
    t = table_of(load_breast_cancer, seed, scale=False)
    for name in ("x", "x_test"):
        values = getattr(t, name)
        logs = values.log() if sick else (values + 1e-3).log()
        setattr(t, name, logs)
    mean, std = t.x.mean(0), t.x.std(0)
    if sick:
        mean, std = torch.zeros(30), torch.ones(30)
    t.x, t.x_test = (t.x - mean) / std, (t.x_test - mean) / std
    net = mlp(30, 16, 2)
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    for _ in range(100):
        idx = torch.randint(len(t.y), (40,))
        logits = net(t.x[idx])
        loss = F.cross_entropy(logits, t.y[idx])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=t.x[idx], outputs=logits, targets=t.y[idx])
        opt.step()
    return right(net, t)


@sick("gradients_not_zeroed")
def a_method_that_is_not_called(watch: Watch, *, seed: int, sick: bool) -> float:
    """``opt.zero_grad`` without parentheses."""
    t = progression(seed)
    net = nn.Sequential(nn.Linear(10, 20), nn.GELU(), nn.Linear(20, 1), nn.Flatten(0))
    opt = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    session = watch(net, opt)
    for _ in range(150):
        if sick:
            opt.zero_grad  # noqa: B018
        else:
            opt.zero_grad()
        idx = torch.randint(len(t.y), (24,))
        guess = net(t.x[idx])
        loss = F.l1_loss(guess, t.y[idx])
        loss.backward()
        session.step(loss, outputs=guess, targets=t.y[idx])
        opt.step()
    return explained(net, t)


@sick("learning_rate_too_low")
def a_factor_that_is_a_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """``LambdaLR`` multiplies: the function returns the rate itself, and 1e-3 becomes 1e-6."""
    t = table_of(load_breast_cancer, seed)
    base, total = 2e-3, 150
    net = mlp(30, 24, 2)
    opt = torch.optim.AdamW(net.parameters(), lr=base)

    def rate(step: int) -> float:
        shape = 1 - 0.5 * step / total
        return base * shape if sick else shape

    plan = torch.optim.lr_scheduler.LambdaLR(opt, rate)
    session = watch(net, opt)
    for _ in range(total):
        idx = torch.randint(len(t.y), (32,))
        logits = net(t.x[idx])
        loss = F.cross_entropy(logits, t.y[idx])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=t.x[idx], outputs=logits, targets=t.y[idx])
        opt.step()
        plan.step()
    return right(net, t)


@sick("unshuffled_data")
def patients_by_severity(watch: Watch, *, seed: int, sick: bool) -> float:
    """The query ordered the patients by their outcome, and the loop goes through them in that order."""
    t = progression(seed)
    by_outcome = t.y.argsort()
    net = mlp(10, 32, 1)
    opt = torch.optim.SGD(net.parameters(), lr=0.03, momentum=0.9)
    session = watch(net, opt)
    for _ in range(12):
        order = by_outcome if sick else by_outcome[torch.randperm(len(by_outcome))]
        for idx in order.split(16):
            guess = net(t.x[idx])
            loss = F.mse_loss(guess, t.y[idx, None])
            opt.zero_grad()
            loss.backward()
            session.step(loss, inputs=t.x[idx], outputs=guess, targets=t.y[idx, None])
            opt.step()
    return explained(net, t)


@sick("stopped_too_early")
def a_stopper_without_patience(watch: Watch, *, seed: int, sick: bool) -> float:
    """Training ends with the first validation that is no better by 0.1; its twin has patience."""
    t = table_of(load_breast_cancer, seed)
    net = mlp(30, 24, 2)
    opt = torch.optim.SGD(net.parameters(), lr=0.004, momentum=0.5)
    session, best, bad = watch(net, opt), math.inf, 0
    for step in range(360):
        idx = torch.randint(len(t.y), (32,))
        logits = net(t.x[idx])
        loss = F.cross_entropy(logits, t.y[idx])
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=t.x[idx], outputs=logits, targets=t.y[idx])
        opt.step()
        if step % 12 == 11:
            with session.validating(), torch.no_grad():
                found = F.cross_entropy(net(t.x_test), t.y_test).item()
            session.validation(found)
            if found > best - (0.1 if sick else 1e-4):
                bad += 1
                if bad > (0 if sick else 5):
                    break
            best = min(best, found)
    return right(net, t)


@sick("wrong_output_or_loss")
def a_sigmoid_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """Probabilities go into a loss that applies a sigmoid itself; calls are made as the loss sees them."""
    t = table_of(load_breast_cancer, seed)
    net = nn.Sequential(mlp(30, 16, 1), nn.Sigmoid() if sick else nn.Identity(), nn.Flatten(0))
    opt = torch.optim.Adam(net.parameters(), lr=4e-3)
    session = watch(net, opt)
    criterion = nn.BCEWithLogitsLoss()
    for _ in range(140):
        idx = torch.randint(len(t.y), (32,))
        answer = net(t.x[idx])
        loss = criterion(answer, t.y[idx].float())
        opt.zero_grad()
        loss.backward()
        session.step(loss, inputs=t.x[idx], outputs=answer, targets=t.y[idx].float())
        opt.step()
    with torch.no_grad():
        called = net(t.x_test).sigmoid() > 0.5
    return float((called == t.y_test.bool()).float().mean())
