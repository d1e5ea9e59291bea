"""Too much regularisation, or too little for the rows there are."""

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_diabetes
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import Flat, Variational, explained, mlp, outputs_of, right, share
from examples.zoo.tuned.opened7.drills import Trainer, drill, rounds
from examples.zoo.tuned.opened7.supplies import Rows, dialects, friedman, images, moons, pixels, table


@sick("over_regularized")
def decay_of_one_half(watch: Watch, *, seed: int, sick: bool) -> float:
    """``weight_decay=0.5`` in SGD, where 5e-4 was meant."""
    rows = images(seed)
    model = nn.Sequential(nn.Flatten(), mlp(64, 48, 48, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9, weight_decay=0.5 if sick else 5e-4)
    drill(watch, model, optimizer, rows.epochs(32, 200))
    return right(model, rows)


@sick("over_regularized")
def absolute_weights_at_full_weight(watch: Watch, *, seed: int, sick: bool) -> float:
    """A lasso whose penalty of 0.3 is multiplied with a sum over all weights."""
    rows = friedman(seed)
    model = Flat(mlp(10, 32, 1))
    optimizer = optim.Adam(model.parameters(), lr=8e-3)

    def lasso(out: Tensor, y: Tensor) -> Tensor:
        size = sum(weight.abs().sum() for weight in model.parameters())
        return F.mse_loss(out, y) + (0.3 if sick else 1e-5) * size

    drill(watch, model, optimizer, rows.epochs(32, 300), lasso)
    return explained(model, rows)


@sick("over_regularized")
def nine_of_ten_dropped(watch: Watch, *, seed: int, sick: bool) -> float:
    """``Dropout(0.95)`` by somebody for whom p is what stays."""
    rows = dialects(seed)
    keep = 0.95
    model = nn.Sequential(
        nn.EmbeddingBag(60, 24), nn.ReLU(), nn.Dropout(keep if sick else 1 - keep), nn.Linear(24, 24), nn.ReLU(),
        nn.Dropout(keep if sick else 1 - keep), nn.Linear(24, 4),
    )  # fmt: skip
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    Trainer(model, optimizer).fit(watch, rows, epochs=3)
    return right(model, rows)


@sick("over_regularized")
def a_posterior_that_collapses(watch: Watch, *, seed: int, sick: bool) -> float:
    """The divergence is summed over the code, the error averaged over pixels: no code says anything."""
    rows = pixels(seed)
    model = Variational()
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    batches = rows.epochs(48, 300)

    def objective() -> tuple[Tensor, dict[str, Tensor]]:
        x, _ = next(batches)
        out, divergence = model(x)
        return F.mse_loss(out, x) + (3.0 if sick else 3e-3) * divergence, {"inputs": x, "outputs": out, "targets": x}

    rounds(watch, model, optimizer, 300, objective)
    return share(outputs_of(model, rows.x_test)[0], rows.x_test)


def _vague(seed: int, count: int) -> Rows:
    """Rows (N, 20) of two classes that overlap, of which so many are for training."""
    random = torch.Generator().manual_seed(seed)
    x = torch.randn(count + 2000, 20, generator=random)
    y = (x[:, 0] - x[:, 1] + 0.8 * x[:, 2] + 1.3 * torch.randn(count + 2000, generator=random) > 0).long()
    return Rows(x[:count], y[:count], x[count:], y[count:])


@sick("overfitting")
def eighty_rows_and_a_wide_net(watch: Watch, *, seed: int, sick: bool) -> float:
    """Eighty rows of twenty columns, learnt by heart by 128 units; repaired: 3,000 rows, two epochs of them."""
    rows = _vague(seed, 80 if sick else 3000)
    model = mlp(20, 128, 128, 2)
    optimizer = optim.Adam(model.parameters(), lr=3e-3 if sick else 1e-3)
    Trainer(model, optimizer).fit(watch, rows, epochs=80 if sick else 2)
    return right(model, rows)


@sick("overfitting")
def a_tenth_of_the_patients(watch: Watch, *, seed: int, sick: bool) -> float:
    """Forty patients for a net of two wide layers, for 250 epochs; repaired: all of them, a ridge and a small net."""
    rows = table(load_diabetes, seed)
    if sick:
        rows.x, rows.y = rows.x[:48], rows.y[:48]
    model = Flat(mlp(10, 96, 96, 1) if sick else mlp(10, 6, 1))
    optimizer = optim.AdamW(model.parameters(), lr=4e-3 if sick else 1e-2, weight_decay=0.0 if sick else 0.3)
    decay = optim.lr_scheduler.StepLR(optimizer, 60, 1.0 if sick else 0.3)
    trainer = Trainer(model, optimizer, criterion=F.mse_loss, scheduler=decay)
    trainer.fit(watch, rows, epochs=100 if sick else 16, batch_size=16)
    return explained(model, rows)


@sick("overfitting")
def wrong_labels_learnt_by_heart(watch: Watch, *, seed: int, sick: bool) -> float:
    """Three of ten labels are wrong, and a large net has 60 epochs for 160 rows; repaired: few epochs of all rows."""
    rows = moons(seed, count=3000)
    noise = torch.rand(len(rows.y), generator=torch.Generator().manual_seed(seed)) < 0.3
    rows.y = torch.where(noise, 1 - rows.y, rows.y)
    if sick:
        rows.x, rows.y = rows.x[:128], rows.y[:128]
    model = mlp(2, 128, 128, 128, 2)
    optimizer = optim.Adam(model.parameters(), lr=6e-3 if sick else 1e-3)
    Trainer(model, optimizer).fit(watch, rows, epochs=90 if sick else 3)
    return right(model, rows)
