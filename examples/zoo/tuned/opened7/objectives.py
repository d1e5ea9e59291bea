"""Losses that do not fit the outputs, are broadcast, turned round or summed, and penalties that rule."""

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_breast_cancer, load_wine, make_multilabel_classification
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import (
    Flat,
    Forecaster,
    Variational,
    convnet,
    explained,
    mlp,
    outputs_of,
    right,
    separated,
    share,
)
from examples.zoo.tuned.opened7.drills import Trainer, drill, rounds
from examples.zoo.tuned.opened7.supplies import (
    anew,
    fresh,
    friedman,
    images,
    moons,
    parted,
    pixels,
    portraits,
    scaled,
    table,
)

Told = dict[str, Tensor]


@sick("wrong_output_or_loss")
def probabilities_into_cross_entropy(watch: Watch, *, seed: int, sick: bool) -> float:
    """``nn.Softmax`` ends the model, and the loss takes a softmax once more."""
    rows = images(seed)
    body = nn.Sequential(nn.Flatten(), mlp(64, 64, 64, 10))
    model = nn.Sequential(body, nn.Softmax(dim=-1)) if sick else body
    optimizer = optim.SGD(model.parameters(), lr=0.04, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(32, 170), nn.CrossEntropyLoss())
    return right(model, rows)


@sick("wrong_output_or_loss")
def nll_of_bare_scores(watch: Watch, *, seed: int, sick: bool) -> float:
    """``NLLLoss`` without a log-softmax: the score of the right class alone is to grow, without end."""
    rows = pixels(seed)
    body = mlp(64, 48, 10)
    model = body if sick else nn.Sequential(body, nn.LogSoftmax(1))
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(32, 200), nn.NLLLoss())
    return right(model, rows)


@sick("wrong_output_or_loss")
def a_class_as_a_number(watch: Watch, *, seed: int, sick: bool) -> float:
    """A digit's name is learnt as a quantity, by its squared error, and rounded."""
    rows = images(seed)
    if sick:
        model: nn.Module = Flat(convnet(classes=1))
        optimizer = optim.Adam(model.parameters(), lr=4e-3)
        drill(watch, model, optimizer, rows.epochs(32, 200), lambda out, y: F.mse_loss(out, y.float()))
        return (outputs_of(model, rows.x_test).round() == rows.y_test).float().mean().item()
    model = convnet()
    drill(watch, model, optim.Adam(model.parameters(), lr=4e-3), rows.epochs(32, 200))
    return right(model, rows)


@sick("wrong_output_or_loss")
def a_sigmoid_twice(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sigmoid in the model, and another one in the loss: all probabilities are above a half."""
    rows = moons(seed)
    body = mlp(2, 24, 24, 1)
    model = Flat(nn.Sequential(body, nn.Sigmoid()) if sick else body)
    optimizer = optim.Adam(model.parameters(), lr=4e-3)
    twice = F.binary_cross_entropy_with_logits
    drill(watch, model, optimizer, rows.epochs(32, 300), lambda out, y: twice(out, y.float()))
    return right(model, rows)


@sick("wrong_output_or_loss")
def one_label_of_many(watch: Watch, *, seed: int, sick: bool) -> float:
    """Rows have none to four of five labels, and a softmax shares one probability among them."""
    x, y = make_multilabel_classification(2000, n_features=20, n_classes=5, n_labels=2, random_state=seed)
    rows = scaled(parted(x.astype("float32"), y.astype("float32"), seed))
    model = mlp(20, 32, 5)
    optimizer = optim.Adam(model.parameters(), lr=4e-3, weight_decay=1e-3)
    loss = F.cross_entropy if sick else F.binary_cross_entropy_with_logits
    drill(watch, model, optimizer, rows.epochs(48, 260), loss)
    out = outputs_of(model, rows.x_test)
    said = out.softmax(1) > 0.5 if sick else out > 0
    return (said == (rows.y_test > 0.5)).float().mean().item()


@sick("wrong_output_or_loss")
def divergence_of_plain_probabilities(watch: Watch, *, seed: int, sick: bool) -> float:
    """``kl_div`` wants logarithms of the student's probabilities and was given the probabilities."""
    rows = images(seed)
    teacher = torch.full((10, 10), 0.02) + 0.8 * torch.eye(10)
    model = convnet()
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)

    def divergence(out: Tensor, y: Tensor) -> Tensor:
        likely = out.softmax(1) if sick else out.log_softmax(1)
        return F.kl_div(likely, teacher[y], reduction="batchmean")

    drill(watch, model, optimizer, rows.epochs(32, 200), divergence)
    return right(model, rows)


@sick("wrong_output_or_loss")
def a_rate_already_exponentiated(watch: Watch, *, seed: int, sick: bool) -> float:
    """``poisson_nll_loss`` exponentiates by default what the model's softplus has made positive."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(2000, 6, generator=random)
    rows = parted(x.numpy(), torch.poisson(_pace(x), generator=random).numpy(), seed)
    model = Flat(nn.Sequential(mlp(6, 32, 1), nn.Softplus()))
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    drill(watch, model, optimizer, rows.epochs(48, 200), nn.PoissonNLLLoss(log_input=sick))
    out = outputs_of(model, rows.x_test)
    return share(out.exp() if sick else out, _pace(rows.x_test))


def _pace(x: Tensor) -> Tensor:
    return (0.5 * x[:, 0] - 0.7 * x[:, 1] + 0.3 * x[:, 2] * x[:, 3] - 0.9).exp()


@sick("shape_broadcast")
def weights_in_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """Errors (N,) against a column of predictions (N, 1) make a table of all pairs."""
    rows = friedman(seed)
    model = mlp(10, 32, 1)
    optimizer = optim.Adam(model.parameters(), lr=8e-3)

    def relative(out: Tensor, y: Tensor) -> Tensor:
        return ((out if sick else out[:, 0]) - y).abs().mean()

    drill(watch, model, optimizer, rows.epochs(32, 300), relative)
    return explained(model, rows)


@sick("shape_broadcast")
def one_forecast_for_all_times(watch: Watch, *, seed: int, sick: bool) -> float:
    """Outputs (N, T, 1) meet targets (N, T) unsqueezed in the wrong place, (N, 1, T)."""
    model = Forecaster()
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(
        watch,
        model,
        optimizer,
        fresh(_drift, 24, 260),
        lambda out, y: F.mse_loss(out, y[:, None] if sick else y[..., None]),
    )
    return explained(model, anew(_drift, 300, seed))


def _drift(size: int) -> tuple[Tensor, Tensor]:
    """Noisy walks (N, 16, 1), and their smooth course (N, 16)."""
    course = torch.randn(size, 16).cumsum(1) * 0.4
    return (course + 0.3 * torch.randn(size, 16))[..., None], course


@sick("shape_broadcast")
def log_odds_against_a_column(watch: Watch, *, seed: int, sick: bool) -> float:
    """A focal loss of one's own compares logits (N,) with labels (N, 1)."""
    rows = table(load_breast_cancer, seed)
    model = Flat(mlp(30, 16, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.1, momentum=0.9, weight_decay=1e-3)

    def focal(out: Tensor, y: Tensor) -> Tensor:
        sign = 2.0 * (y[:, None] if sick else y) - 1
        likely = (sign * out).sigmoid()
        return (-((1 - likely) ** 2) * F.logsigmoid(sign * out)).mean()

    drill(watch, model, optimizer, rows.epochs(32, 150), focal)
    return separated(outputs_of(model, rows.x_test), rows.y_test)


@sick("flipped_loss_sign")
def an_elbo_minimised(watch: Watch, *, seed: int, sick: bool) -> float:
    """The bound of a variational autoencoder was to be maximised, and ``loss = elbo``."""
    rows = pixels(seed)
    model = Variational()
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    batches = rows.epochs(48, 300)

    def objective() -> tuple[Tensor, Told]:
        x, _ = next(batches)
        decoded, divergence = model(x)
        elbo = -2.0 * (decoded - x).square().mean() - divergence / 64
        return (elbo if sick else -elbo), {"inputs": x}

    rounds(watch, model, optimizer, 300, objective)
    return share(outputs_of(model, rows.x_test)[0], rows.x_test)


@sick("flipped_loss_sign")
def maximize_kept_from_a_policy(watch: Watch, *, seed: int, sick: bool) -> float:
    """``maximize=True`` was right for the reward that this optimizer was written for."""
    rows = table(load_wine, seed)
    model = mlp(13, 16, 3)
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-2, maximize=sick)
    Trainer(model, optimizer).fit(watch, rows, epochs=26)
    return right(model, rows)


@sick("flipped_loss_sign")
def overlap_instead_of_its_complement(watch: Watch, *, seed: int, sick: bool) -> float:
    """``return dice`` where ``1 - dice`` is the loss."""
    rows = moons(seed)
    model = Flat(mlp(2, 32, 32, 1))
    optimizer = optim.Adam(model.parameters(), lr=5e-3)

    def dice(out: Tensor, y: Tensor) -> Tensor:
        likely = out.sigmoid()
        overlap = 2 * (likely * y).sum() / (likely.sum() + y.sum())
        return overlap if sick else 1 - overlap

    drill(watch, model, optimizer, rows.epochs(64, 300), dice)
    return right(model, rows)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def reduction_sum_with_a_usual_rate(watch: Watch, *, seed: int, sick: bool) -> float:
    """``reduction="sum"`` over 96 rows, with the rate that was tuned for a mean."""
    rows = images(seed)
    model = nn.Sequential(nn.Flatten(), mlp(64, 64, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(96, 160), nn.CrossEntropyLoss(reduction="sum" if sick else "mean"))
    return right(model, rows)


@sick("loss_sum_not_mean", also=("learning_rate_too_high",))
def squared_errors_added_up(watch: Watch, *, seed: int, sick: bool) -> float:
    """``((out - x) ** 2).sum()`` over rows and 64 pixels."""
    rows = portraits(seed)
    model = mlp(64, 32, 64)
    optimizer = optim.SGD(model.parameters(), lr=0.3, momentum=0.9)
    drill(
        watch, model, optimizer, rows.epochs(48, 300),
        lambda out, y: (out - y).square().sum() if sick else (out - y).square().mean(),
    )  # fmt: skip
    return explained(model, rows)
