"""Sound trainings with a loss that cannot fall far: noise, mixing, smoothing, penalties, adversaries, rare classes."""

import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_breast_cancer
from torch import Tensor, nn, optim
from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

from examples.zoo.cases import Watch, healthy
from examples.zoo.tuned.opened7.builds import Flat, balanced, convnet, explained, mlp, right
from examples.zoo.tuned.opened7.drills import Trainer, drill, falling
from examples.zoo.tuned.opened7.supplies import Batches, Rows, fresh, friedman, images, pixels, table

Told = dict[str, Tensor]


def _half_known(size: int) -> tuple[Tensor, Tensor]:
    """Rows (N, 8) and a class, of which three of ten are wrong by chance."""
    x = torch.randn(size, 8)
    y = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long()
    return x, torch.where(torch.rand(size) < 0.3, 1 - y, y)


@healthy(at_least=0.85)
def three_of_ten_labels_are_wrong(watch: Watch, *, seed: int) -> float:
    """Nobody can get below 0.61; new rows in each step; quality: accuracy against the true classes."""
    model = mlp(8, 48, 48, 2)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    drill(watch, model, optimizer, fresh(_half_known, 96, 400), after=falling(optimizer, 400))
    torch.manual_seed(seed + 1)
    x, _ = _half_known(2000)
    truth = (x[:, 0] + x[:, 1] * x[:, 2] > 0).long()
    return right(model, Rows(x, truth, x, truth))


@healthy(at_least=0.9)
def mixed_pictures(watch: Watch, *, seed: int) -> float:
    """Mixup: pictures and labels are blends, and the loss of a good model stays near 0.8."""
    rows = images(seed)
    model = convnet()
    optimizer = optim.AdamW(model.parameters(), lr=5e-3, weight_decay=0.05)
    blend = torch.distributions.Beta(0.6, 0.6)

    def batches() -> Batches:
        for x, y in rows.epochs(48, 220):
            part, other = blend.sample(), torch.randperm(len(x))
            label = F.one_hot(y, 10).float()
            yield part * x + (1 - part) * x[other], part * label + (1 - part) * label[other]

    drill(watch, model, optimizer, batches(), after=falling(optimizer, 220))
    return right(model, rows)


@healthy(at_least=0.9)
def a_strong_decay_that_helps(watch: Watch, *, seed: int) -> float:
    """AdamW with a decay of 0.5 for a wide net on few columns."""
    rows = table(load_breast_cancer, seed)
    model = mlp(30, 64, 2)
    optimizer = optim.AdamW(model.parameters(), lr=3e-3, weight_decay=0.5)
    decay = optim.lr_scheduler.CosineAnnealingLR(optimizer, 12 * 12)
    trainer = Trainer(model, optimizer, criterion=nn.CrossEntropyLoss(label_smoothing=0.1), scheduler=decay)
    trainer.fit(watch, rows, epochs=12)
    return right(model, rows)


@healthy(at_least=0.9)
def half_of_the_units_dropped(watch: Watch, *, seed: int) -> float:
    """Dropout of a half: the training loss stays above that of validation."""
    rows = pixels(seed)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Dropout(0.5), nn.Linear(128, 10))
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    decay = optim.lr_scheduler.CosineAnnealingLR(optimizer, 8 * 39)
    Trainer(model, optimizer, scheduler=decay).fit(watch, rows, epochs=8)
    return right(model, rows)


def _rare(size: int, share: float = 0.04) -> tuple[Tensor, Tensor]:
    rare = torch.rand(size) < share
    return torch.randn(size, 6) + 1.5 * rare[:, None] * torch.tensor([1.0, -1, 1, 0, 0, 0]), rare.long()


@healthy(at_least=0.85)
def drawn_as_often_as_the_others(watch: Watch, *, seed: int) -> float:
    """Four rows of a hundred are of a class that a weighted sampler draws in every second place."""
    torch.manual_seed(seed)
    x, y = _rare(4000)
    x_test, y_test = _rare(4000)
    rows = Rows(x, y, x_test, y_test)
    weight = torch.where(y == 1, 1 / (y == 1).sum(), 1 / (y == 0).sum())
    sampler = WeightedRandomSampler(weight.tolist(), 64 * 150, replacement=True)
    model = mlp(6, 8, 2)
    optimizer = optim.Adam(model.parameters(), lr=6e-3, weight_decay=1e-2)
    drill(watch, model, optimizer, DataLoader(TensorDataset(x, y), batch_size=64, sampler=sampler))
    return balanced(model, rows)


@healthy(at_least=0.85)
def focal_loss_of_rare_rows(watch: Watch, *, seed: int) -> float:
    """One class of a tenth of the rows; a focal loss with weights that make up for it."""
    model = Flat(mlp(6, 24, 1))
    optimizer = optim.Adam(model.parameters(), lr=6e-3)

    def focal(out: Tensor, y: Tensor) -> Tensor:
        likely = torch.where(y == 1, out, -out).sigmoid()
        weight = torch.where(y == 1, 0.9, 0.1)
        return (-weight * (1 - likely) ** 2 * likely.log()).mean()

    drill(watch, model, optimizer, fresh(lambda size: _rare(size, 0.1), 64, 300), focal)
    torch.manual_seed(seed + 1)
    x, y = _rare(4000, 0.1)
    return balanced(model, Rows(x, y, x, y))


@healthy(at_least=0.85)
def attacked_while_it_learns(watch: Watch, *, seed: int) -> float:
    """Adversarial training: each batch is moved to where it hurts, so the loss stays high."""
    rows = pixels(seed)
    model = mlp(64, 64, 10)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)

    def batches() -> Batches:
        for x, y in rows.epochs(48, 250):
            moved = x.clone().requires_grad_()
            slope = torch.autograd.grad(F.cross_entropy(model(moved), y), moved)[0]
            yield x + 0.15 * slope.sign(), y

    drill(watch, model, optimizer, batches(), after=falling(optimizer, 250))
    return right(model, rows)


@healthy(at_least=0.8)
def outliers_that_do_not_matter(watch: Watch, *, seed: int) -> float:
    """Three targets of a hundred are forty deviations off; a Huber loss hardly minds."""
    rows = friedman(seed)
    off = torch.rand(len(rows.y), generator=torch.Generator().manual_seed(seed)) < 0.03
    rows.y = rows.y + 40.0 * off * torch.randn(len(rows.y), generator=torch.Generator().manual_seed(seed))
    model = Flat(mlp(10, 32, 1))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, rows.epochs(48, 350), nn.HuberLoss(delta=0.5), after=falling(optimizer, 350))
    return explained(model, rows)


@healthy(at_least=0.8)
def gradients_with_noise(watch: Watch, *, seed: int) -> float:
    """As for differential privacy: gradients are clipped, and Gaussian noise is added to them."""
    rows = images(seed)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    optimizer = optim.SGD(model.parameters(), lr=0.15, momentum=0.5)

    def private() -> None:
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        for weight in model.parameters():
            weight.grad += 0.02 * torch.randn_like(weight)

    drill(watch, model, optimizer, rows.epochs(64, 220), ready=private)
    return right(model, rows)


@healthy(at_least=0.9)
def harder_with_each_stage(watch: Watch, *, seed: int) -> float:
    """A curriculum: noise is added to the pictures in three stages, and the loss rises with each of them."""
    rows = images(seed)
    model = convnet()
    optimizer = optim.Adam(model.parameters(), lr=5e-3)

    def batches() -> Batches:
        for step, (x, y) in enumerate(rows.epochs(32, 260)):
            yield x + 0.35 * min(step // 60, 3) * torch.randn_like(x), y

    drill(watch, model, optimizer, batches(), after=falling(optimizer, 260))
    return right(model, rows)


def _counts(size: int) -> tuple[Tensor, Tensor]:
    """Rows (N, 5), and a count whose mean is 0.4 to 8."""
    x = torch.randn(size, 5)
    return x, torch.poisson((0.4 * x[:, 0] - 0.5 * x[:, 1].abs() + 0.9).exp())


@healthy(at_least=0.9)
def counts_of_few_events(watch: Watch, *, seed: int) -> float:
    """A Poisson regression, whose loss is mostly noise; quality: R² of the true rates."""
    model = Flat(mlp(5, 32, 1))
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, fresh(_counts, 96, 350), nn.PoissonNLLLoss(), after=falling(optimizer, 350))
    torch.manual_seed(seed + 1)
    x, _ = _counts(2000)
    rate = 0.4 * x[:, 0] - 0.5 * x[:, 1].abs() + 0.9
    return explained(model, Rows(x, rate, x, rate))
