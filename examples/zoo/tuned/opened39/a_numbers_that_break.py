"""Numbers that leave what floats can hold."""

import torch
from torch import nn
from torch.nn import functional

from examples.zoo import datasets, samples
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted
from examples.zoo.tuned.opened39.a_shared_loaders import explained, glyphs, half_digits, joined


@sick("non_finite_forward", also=("non_finite_backward",), margin=0.2)
def a_variance_that_may_be_below_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Gaussian likelihood takes the log of a variance right from a linear layer; the twin's has a softplus."""
    data = half_digits(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.SiLU(), nn.Linear(64, 64))
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    session = watch(model, optimizer)
    for upper, lower in data.batches(48, 250):
        optimizer.zero_grad()
        outputs = model(upper)
        mean, variance = outputs[:, :32], outputs[:, 32:]
        if not sick:
            variance = functional.softplus(variance) + 0.02
        loss = 0.5 * (variance.log() + (lower - mean).square() / variance).mean()
        loss.backward()
        session.step(loss, inputs=upper, outputs=mean, targets=lower)
        optimizer.step()
    return samples.explained(predicted(model, data.test_inputs)[:, :32], data.test_targets)


@sick("non_finite_backward", margin=0.2)
def a_root_of_squares_that_may_be_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """The distance of a pair is ``sqrt`` of a sum that is 0 for a row and itself; the twin adds 1e-6 below the root."""
    data = glyphs(seed, flat=True)
    model = nn.Sequential(nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 16))
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    session = watch(model, optimizer)
    for pixels, labels in data.batches(64, 200):
        codes = model(pixels)
        squares = (codes[:, None] - codes[None]).square().sum(2)
        distances = (squares if sick else squares + 1e-6).sqrt()
        alike = labels[:, None] == labels[None]
        loss = torch.where(alike, distances.square(), (2 - distances).relu().square()).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=pixels, outputs=codes)
        optimizer.step()
    known, codes = predicted(model, data.inputs), predicted(model, data.test_inputs)
    nearest = torch.cdist(codes, known).nan_to_num(0).argmin(1)
    return (data.targets[nearest] == data.test_targets).float().mean().item() if codes.isfinite().all() else 0.0


@sick("fp16_underflow", also=("no_update", "learning_rate_too_low", "vanishing_gradients"), margin=0.1)
def a_half_model_without_a_scale(watch: Watch, *, seed: int, sick: bool) -> float:
    """A weight of 1e-6 for one task's loss turns gradients of a half-precision net into 0; the twin scales them."""
    data = joined(samples.standardised(samples.tumours(seed), 0, 1))
    model = nn.Sequential(nn.Linear(10, 48), nn.Tanh(), nn.Linear(48, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3, eps=1e-12)
    session = watch(model, optimizer)
    scale = 1.0 if sick else 65536.0
    for rows, sizes in data.batches(32, 250):
        optimizer.zero_grad()
        with torch.autocast("cpu", dtype=torch.float16):
            outputs = model(rows)
        loss = 1e-6 * functional.mse_loss(outputs.float(), sizes)
        (loss * scale).backward()
        for parameter in model.parameters():
            parameter.grad /= scale
        session.step(loss, inputs=rows, outputs=outputs, targets=sizes)
        optimizer.step()
    return explained(model, data)


@sick("learning_rate_too_high", also=("exploding_gradients", "dead_units"))
def a_peak_of_one_cycle_a_hundredfold(watch: Watch, *, seed: int, sick: bool) -> float:
    """``OneCycleLR(max_lr=1.0)`` drives Adam, where the test of rates had said 0.01; the twin's peak is that."""
    data = datasets.wine(seed)
    model = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 3))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    peak = 1.0 if sick else 0.01
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=peak, total_steps=150)
    fit(watch, model, optimizer, data, steps=150, batch_size=24, scheduler=schedule)
    return accuracy(model, data)


@sick("learning_rate_too_low", also=("stopped_too_early",), margin=0.1)
def a_rate_for_tuning_of_a_new_model(watch: Watch, *, seed: int, sick: bool) -> float:
    """AdamW's rate of 2e-5 suits a pretrained transformer, and this net is new; the twin's rate is 0.003."""
    data = half_digits(seed)
    model = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 32))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5 if sick else 3e-3)
    fit(watch, model, optimizer, data, steps=250, batch_size=64, loss_function=functional.mse_loss, validate_every=50)
    return explained(model, data)
