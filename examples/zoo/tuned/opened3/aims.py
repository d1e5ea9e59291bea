"""What is minimised: a loss that does not fit, has the wrong sign, size or shape, or asks for what cannot be said."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812

from examples.zoo import datasets
from examples.zoo.cases import Watch, sick
from examples.zoo.loops import accuracy, fit, predicted, r_squared

from . import material
from .speeds import Listener, Reader


@sick("wrong_output_or_loss", margin=0.03)
def shares_under_a_loss_of_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """A net of convolutions ends in ``Softmax``, as its figure shows, and is trained by ``CrossEntropyLoss``."""
    data = datasets.digits(seed, images=True)
    layers = [nn.Conv2d(1, 12, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(12, 16, 3), nn.ReLU(),
              nn.Flatten(), nn.Linear(64, 10)]  # fmt: skip
    net = nn.Sequential(*layers, *([nn.Softmax(1)] if sick else []))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    fit(watch, net, optimizer, data, steps=280, batch_size=32)
    return accuracy(net, data)


@sick("wrong_output_or_loss", margin=0.1)
def two_sigmoids_in_a_row(watch: Watch, *, seed: int, sick: bool) -> float:
    """Five labels at once: the net ends in a sigmoid, and loss and reader both apply a second one."""
    data = material.flags(seed)
    net = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5), *([nn.Sigmoid()] if sick else []))
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3, weight_decay=1e-3)
    fit(watch, net, optimizer, data, steps=260, batch_size=32, loss_function=nn.BCEWithLogitsLoss())
    said = predicted(net, data.test_inputs).sigmoid() > 0.5
    return 2 * (said == (data.test_targets > 0.5)).float().mean().item() - 1


@sick("wrong_output_or_loss", margin=0.1)
def places_and_classes_viewed_apart(watch: Watch, *, seed: int, sick: bool) -> float:
    """``cross_entropy`` wants (N, K, T); ``view`` mixes up the scores, ``transpose`` does not."""
    data = material.sums(seed, length=4)
    net = Reader(5, 5, 32, 2)
    optimizer = torch.optim.Adam(net.parameters(), lr=4e-3)

    def loss_function(scores: Tensor, codes: Tensor) -> Tensor:
        return F.cross_entropy(scores.view(len(codes), 5, 4) if sick else scores.transpose(1, 2), codes)

    fit(watch, net, optimizer, data, steps=300, batch_size=48, loss_function=loss_function)
    return material.hit_rate(predicted(net, data.test_inputs), data.test_targets)


@sick("wrong_output_or_loss", margin=0.1)
def rates_taken_for_their_logarithms(watch: Watch, *, seed: int, sick: bool) -> float:
    """Counts: a net that ends in softplus gives rates, and ``PoissonNLLLoss`` takes logarithms by default."""
    data = material.curve(seed)
    random = material.drawn(seed + 9)
    true, true_test = (2 + 1.2 * data.targets).exp().clamp(max=150), (2 + 1.2 * data.test_targets).exp().clamp(max=150)
    counts = torch.poisson(true, generator=random)
    net = nn.Sequential(nn.Linear(4, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh(), nn.Linear(48, 1), nn.Softplus())
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    criterion = nn.PoissonNLLLoss(log_input=sick)
    session = watch(net, optimizer)
    for rows in torch.randint(len(counts), (400, 48)):
        rate = net(data.inputs[rows])
        loss = criterion(rate, counts[rows])
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[rows], outputs=rate, targets=counts[rows])
        optimizer.step()
    with torch.no_grad():
        return material.fit_of(net(data.test_inputs), true_test)


@sick("wrong_output_or_loss", margin=0.02)
def a_hinge_for_labels_of_zero_and_one(watch: Watch, *, seed: int, sick: bool) -> float:
    """``max(0, 1 - y s)`` wants labels of -1 and 1: a row with 0 always costs 1. Quality: 1 - hinge."""
    data = datasets.breast_cancer(seed)
    net = nn.Linear(30, 1)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-3)

    def hinge(scores: Tensor, labels: Tensor) -> Tensor:
        sign = labels if sick else 2 * labels - 1
        return (1 - sign * scores[:, 0]).clamp(min=0).mean()

    fit(watch, net, optimizer, data, steps=160, batch_size=32, loss_function=hinge)
    said = predicted(net, data.test_inputs)[:, 0]
    return 1 - (1 - (2 * data.test_targets - 1) * said).clamp(min=0).mean().item()


@sick("wrong_output_or_loss", margin=0.1)
def overlap_of_raw_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """A Dice loss on the scores themselves, which are not between 0 and 1; quality is the overlap with the masks."""
    data, masks, test_masks = material.drawings(seed, noise=0.6)
    net = nn.Sequential(nn.Conv2d(1, 12, 5, padding=2), nn.ReLU(), nn.Conv2d(12, 12, 3, padding=1), nn.ReLU(),
                        nn.Conv2d(12, 1, 1))  # fmt: skip
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    session = watch(net, optimizer)
    for rows in torch.randint(len(masks), (250, 24)):
        scores = net(data.inputs[rows])
        said = scores if sick else scores.sigmoid()
        loss = 1 - ((2 * (said * masks[rows]).sum((1, 2, 3)) + 1) / ((said + masks[rows]).sum((1, 2, 3)) + 1)).mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[rows], outputs=scores, targets=masks[rows])
        optimizer.step()
    with torch.no_grad():
        found = (net(data.test_inputs) > 0).float()
    return (2 * (found * test_masks).sum() / (found + test_masks).sum()).item()


@sick("flipped_loss_sign", margin=0.3)
def ranked_from_worst_to_best(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pairs are ranked with -1, which says that the second is to be above, where the first is the better one."""
    data = material.curve(seed)
    net = material.mlp(4, 32, 1, act=nn.SiLU)
    optimizer = torch.optim.RMSprop(net.parameters(), lr=2e-3)
    criterion = nn.MarginRankingLoss(0.3)
    session = watch(net, optimizer)
    for one, two in torch.randint(len(data.inputs), (300, 2, 48)):
        better = torch.where(data.targets[one] > data.targets[two], 1.0, -1.0)
        first, second = net(data.inputs[one]), net(data.inputs[two])
        loss = criterion(first, second, -better if sick else better)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[one], outputs=first)
        optimizer.step()
    score, truth = predicted(net, data.test_inputs), data.test_targets
    return ((score > score.T) == (truth > truth.T)).float().mean().item()


@sick("flipped_loss_sign", also=("non_finite_forward", "exploding_gradients"), margin=0.2)
def a_divergence_that_is_rewarded(watch: Watch, *, seed: int, sick: bool) -> float:
    """A variational autoencoder adds ½(1 + log σ² - μ² - σ²), which is minus the divergence. Quality: R² from means."""
    data = datasets.digits(seed)
    encoder, decoder = material.mlp(64, 64, 16), material.mlp(8, 64, 64)
    net = nn.ModuleDict({"encoder": encoder, "decoder": decoder})
    optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
    session = watch(net, optimizer)
    sign = 1 if sick else -1
    for x, _ in data.batches(64, 400):
        mean, log_variance = encoder(x).chunk(2, 1)
        found = decoder(mean + torch.randn_like(mean) * (log_variance / 2).exp())
        gain = 0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
        loss = (found - x).square().sum(1).mean() + 0.3 * sign * gain
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=found, targets=x)
        optimizer.step()
    with torch.no_grad():
        return material.fit_of(decoder(encoder(data.test_inputs)[:, :8]), data.test_inputs)


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients"), margin=0.1)
def all_pixels_of_all_masks_summed(watch: Watch, *, seed: int, sick: bool) -> float:
    """``binary_cross_entropy_with_logits(…, reduction="sum")`` over 24 masks of 144 pixels, before SGD."""
    data, masks, test_masks = material.drawings(seed, noise=0.5)
    net = nn.Sequential(nn.Conv2d(1, 10, 5, padding=2), nn.ReLU(), nn.Conv2d(10, 1, 3, padding=1))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    session = watch(net, optimizer)
    for rows in torch.randint(len(masks), (220, 24)):
        scores = net(data.inputs[rows])
        loss = F.binary_cross_entropy_with_logits(scores, masks[rows], reduction="sum" if sick else "mean")
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=data.inputs[rows], outputs=scores, targets=masks[rows])
        optimizer.step()
    with torch.no_grad():
        found = (net(data.test_inputs) > 0).float()
    return (2 * (found * test_masks).sum() / (found + test_masks).sum().clamp(min=1)).item()


@sick("loss_sum_not_mean", also=("learning_rate_too_high", "exploding_gradients", "non_finite_forward"), margin=0.1)
def residuals_of_an_equation_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """The squared residual of u' = -2u + sin t, summed over 64 places, as a note on physics writes it."""
    net = material.mlp(1, 24, 24, 1, act=nn.Tanh)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.002, momentum=0.9)
    session, random = watch(net, optimizer), material.drawn(seed)
    for _ in range(400):
        time = (2 * torch.rand(64, 1, generator=random)).requires_grad_()
        value = 1 + time * net(time)
        slope = torch.autograd.grad(value.sum(), time, create_graph=True)[0]
        residual = (slope + 2 * value - time.sin()).square()
        loss = residual.sum() if sick else residual.mean()
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=time, outputs=value)
        optimizer.step()
    time = torch.linspace(0, 2, 50)[:, None]
    truth = 0.4 * time.sin() - 0.2 * time.cos() + 1.2 * (-2 * time).exp()
    with torch.no_grad():
        return material.fit_of(1 + time * net(time), truth)


@sick("shape_broadcast", margin=0.2)
def a_column_against_a_row_of_values(watch: Watch, *, seed: int, sick: bool) -> float:
    """A forecaster gives (N, 1), the targets are (N,): the squared error compares each with all."""
    data = material.forecast(seed)
    net = Listener(20, 1)
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-2)
    session = watch(net, optimizer)
    for x, y in data.batches(32, 220):
        out, flat = net(x), y[:, 0]
        loss = F.mse_loss(out if sick else out[:, 0], flat)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out if sick else out[:, 0], targets=flat)
        optimizer.step()
    return r_squared(net, data)


@sick("shape_broadcast", margin=0.1)
def three_quantiles_of_a_square(watch: Watch, *, seed: int, sick: bool) -> float:
    """A pinball loss by hand subtracts (N, 3) from (N, 1, 1), so that each row is asked for all rows' targets."""
    data = material.curve(seed)
    net = material.mlp(4, 48, 3)
    optimizer = torch.optim.AdamW(net.parameters(), lr=5e-3)
    levels = torch.tensor([0.1, 0.5, 0.9])

    def pinball(out: Tensor, targets: Tensor) -> Tensor:
        error = (targets[:, None] if sick else targets) - out
        return torch.maximum(levels * error, (levels - 1) * error).mean()

    fit(watch, net, optimizer, data, steps=320, batch_size=40, loss_function=pinball)
    return material.fit_of(predicted(net, data.test_inputs)[:, 1:2], data.test_targets)


@sick("target_out_of_range", also=("wrong_output_or_loss", "saturated_units"), margin=0.2)
def an_actor_of_tanh_imitates_degrees(watch: Watch, *, seed: int, sick: bool) -> float:
    """Behaviour cloning: the expert's steering is in degrees up to ±45, the actor ends in ``Tanh`` without a scale."""
    data = material.curve(seed)
    body = [nn.Linear(4, 48), nn.ReLU(), nn.Linear(48, 1)]
    net = nn.Sequential(*body, nn.Tanh())
    optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
    degrees = 45 * (data.targets / 2).tanh()
    session = watch(net, optimizer)
    for rows in torch.randint(len(degrees), (350, 32)):
        x, asked = data.inputs[rows], degrees[rows] / (1 if sick else 45)
        out = net(x)
        loss = F.smooth_l1_loss(out, asked)
        optimizer.zero_grad()
        loss.backward()
        session.step(loss, inputs=x, outputs=out, targets=asked)
        optimizer.step()
    said = predicted(net, data.test_inputs) * (1 if sick else 45)
    return material.fit_of(said, 45 * (data.test_targets / 2).tanh())


@sick("target_out_of_range", also=("wrong_output_or_loss", "saturated_units", "dead_units"), margin=0.2)
def sales_that_must_be_positive(watch: Watch, *, seed: int, sick: bool) -> float:
    """A forecast of sales that were standardised later: the ``ReLU`` at the end, as sales are positive, stayed."""
    data = material.forecast(seed, length=12)
    end = [nn.ReLU()] if sick else []
    net = nn.Sequential(nn.Linear(12, 32), nn.Tanh(), nn.Linear(32, 1), *end)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    fit(watch, net, optimizer, data, steps=220, batch_size=32, loss_function=F.mse_loss)
    return r_squared(net, data)
