"""Heads, losses, signs, and penalties."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.datasets import CHARACTERS, Data
from examples.zoo.loops import accuracy, fit, held_out_loss, predicted
from examples.zoo.tuned.opened53.k_shared import from_pair


@sick("target_out_of_range", margin=0.05)
def softplus_for_what_may_be_negative(watch: Watch, *, seed: int, sick: bool) -> float:
    """A forecast of standardised measurements ends in ``Softplus``, which is never below 0; the twin's end is open."""
    train, test = samples.standardised(samples.tumours(seed), 0, 1)
    data = Data(*train.tensors, *test.tensors)
    layers: list[nn.Module] = [nn.Linear(10, 32), nn.SiLU(), nn.Linear(32, 10)]
    model = nn.Sequential(*layers, *([nn.Softplus()] if sick else []))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    fit(watch, model, optimizer, data, steps=200, batch_size=32, loss_function=functional.mse_loss)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("wrong_output_or_loss", margin=0.1)
def a_characters_softmax_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """A model of source text ends in a softmax in front of ``cross_entropy``; the twin returns logits."""
    drawn = datasets.text(seed, length=12, count=5000)
    data = Data(drawn.inputs, drawn.targets[:, -1], drawn.test_inputs, drawn.test_targets[:, -1])
    layers: list[nn.Module] = [nn.Embedding(CHARACTERS, 16), nn.Flatten(), nn.Linear(192, 64), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(64, CHARACTERS), *([nn.Softmax(-1)] if sick else []))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    fit(watch, model, optimizer, data, steps=300, batch_size=64)
    return accuracy(model, data)


@sick("wrong_output_or_loss", margin=0.15)
def cross_entropy_of_a_single_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """The head has one column and the loss is ``cross_entropy``, which is then always 0; the twin's is for binaries."""
    drawn = datasets.breast_cancer(seed)
    data = Data(drawn.inputs, drawn.targets.float()[:, None], drawn.test_inputs, drawn.test_targets)
    model = nn.Sequential(nn.Linear(30, 16), nn.ReLU(), nn.Dropout(0.2), nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    loss = functional.cross_entropy if sick else functional.binary_cross_entropy_with_logits
    fit(watch, model, optimizer, data, steps=120, batch_size=32, loss_function=loss)
    outputs = predicted(model, data.test_inputs)
    right = (outputs.squeeze(1) > 0).long() == data.test_targets
    return sum(right[data.test_targets == label].float().mean().item() for label in (0, 1)) / 2


@sick("shape_broadcast", margin=0.1)
def a_pinball_over_all_pairs(watch: Watch, *, seed: int, sick: bool) -> float:
    """The quantile loss subtracts outputs (N, 1) from targets (N), so it compares all pairs; the twin squeezes them."""
    train, test = samples.standardised(samples.proline(seed), 0, 1)
    data = Data(train.tensors[0], train.tensors[1].squeeze(1), *test.tensors)
    model = nn.Sequential(nn.Linear(12, 24), nn.Tanh(), nn.Linear(24, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    def pinball(outputs: torch.Tensor, targets: torch.Tensor, share: float = 0.5) -> torch.Tensor:
        error = targets - (outputs if sick else outputs.squeeze(1))
        return torch.maximum(share * error, (share - 1) * error).mean()

    fit(watch, model, optimizer, data, steps=200, batch_size=24, loss_function=pinball)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("flipped_loss_sign", margin=0.3)
def a_reward_that_is_descended(watch: Watch, *, seed: int, sick: bool) -> float:
    """A policy names digits and its loss is its advantage times the log-probability; the twin has a minus there."""
    data = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    session = watch(model, optimizer)
    sign = 1 if sick else -1
    usual = 0.1
    for rows, labels in data.batches(96, 350):
        policy = torch.distributions.Categorical(logits=model(rows))
        actions = policy.sample()
        rewards = (actions == labels).float()
        loss = sign * ((rewards - usual) * policy.log_prob(actions)).mean() - 0.01 * policy.entropy().mean()
        usual = 0.9 * usual + 0.1 * rewards.mean().item()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=rows, outputs=policy.logits, targets=labels)
        optimizer.step()
    return accuracy(model, data)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.1)
def squared_errors_of_all_pixels(watch: Watch, *, seed: int, sick: bool) -> float:
    """An autoencoder's loss was changed to a sum over pixels and batch and its rate was left; the twin has the mean."""
    drawn = datasets.digits(seed)
    data = Data(drawn.inputs, drawn.inputs, drawn.test_inputs, drawn.test_inputs)
    model = nn.Sequential(nn.Linear(64, 32), nn.LeakyReLU(0.1), nn.Linear(32, 12), nn.Linear(12, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.3, momentum=0.9)

    def error(outputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        return functional.mse_loss(outputs, targets, reduction="sum" if sick else "mean")

    fit(watch, model, optimizer, data, steps=350, batch_size=64, loss_function=error)
    return samples.explained(predicted(model, data.test_inputs), data.test_targets)


@sick("over_regularized", margin=0.1)
def a_keep_probability_as_dropout(watch: Watch, *, seed: int, sick: bool) -> float:
    """A port hands the old ``keep_prob`` of 0.9 to three ``Dropout`` layers; the twin drops a tenth."""
    data = datasets.digits(seed)
    share = 0.9 if sick else 0.1
    model = nn.Sequential(
        *(nn.Linear(64, 48), nn.ReLU(), nn.Dropout(share), nn.Linear(48, 48), nn.ReLU(), nn.Dropout(share)),
        *(nn.Linear(48, 32), nn.ReLU(), nn.Dropout(share), nn.Linear(32, 10)),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    fit(watch, model, optimizer, data, steps=220, batch_size=48, validate_every=44)
    return accuracy(model, data)


@sick("stopped_too_early", margin=0.06)
def patience_with_a_smaller_accuracy(watch: Watch, *, seed: int, sick: bool) -> float:
    """Early stopping takes the smallest accuracy for the best, so a rise exhausts it; the twin takes the largest."""
    data = from_pair(samples.names(seed))
    model = nn.Sequential(
        *(nn.Embedding(samples.LETTERS, 12), nn.Flatten(), nn.Linear(288, 48), nn.ReLU()),
        *(nn.Dropout(0.2), nn.Linear(48, 8)),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-4)
    session = watch(model, optimizer)
    best, waited = 1.0 if sick else 0.0, 0
    for step, (rows, labels) in enumerate(data.batches(48, 360), 1):
        optimizer.zero_grad()
        outputs = model(rows)
        loss = functional.cross_entropy(outputs, labels)
        loss.backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=labels)
        optimizer.step()
        if step % 15 == 0:
            session.validation(held_out_loss(model, data))
            reached = accuracy(model, data)
            better = reached < best if sick else reached > best
            best, waited = (reached, 0) if better else (best, waited + 1)
            if waited == (3 if sick else 8):
                break
    return accuracy(model, data)


@sick("fp16_underflow", margin=0.1)
def a_faint_reconstruction_in_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """A reconstruction weighs 0.0001 and half precision rounds its gradients to 0; the twin has a ``GradScaler``."""
    drawn = datasets.digits(seed)
    model = nn.Sequential(nn.Linear(64, 48), nn.LeakyReLU(0.1), nn.Linear(48, 12), nn.Linear(12, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    scaler = torch.amp.GradScaler("cpu", enabled=not sick)
    session = watch(model, optimizer) if sick else watch(model, optimizer, scaler=scaler)
    for rows, _ in drawn.batches(128, 200):
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(rows)
        loss = 1e-4 * functional.mse_loss(outputs.float(), rows)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        session.step(loss, inputs=rows, outputs=outputs, targets=rows)
        scaler.step(optimizer)
        scaler.update()
    return samples.explained(predicted(model, drawn.test_inputs), drawn.test_inputs)


@sick("wrong_mode", also=("vanishing_gradients",), margin=0.1)
def a_summary_leaves_eval_behind(watch: Watch, *, seed: int, sick: bool) -> float:
    """A printed summary put the deep model into eval mode, so its norms never norm; the twin goes back to train."""
    data = datasets.digits(seed)
    layers: list[nn.Module] = []
    for before in (64, *[40] * 8):
        layers += [nn.Linear(before, 40, bias=False), nn.BatchNorm1d(40), nn.ReLU()]
    model = nn.Sequential(*layers, nn.Linear(40, 10))
    model.eval()
    assert predicted(model, data.inputs[:1]).shape == (1, 10)
    if not sick:
        model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    fit(watch, model, optimizer, data, steps=200, batch_size=64)
    return accuracy(model, data)
