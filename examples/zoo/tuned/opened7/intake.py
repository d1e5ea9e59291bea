"""What goes wrong before the first layer: scales, constants, NaN, order and repetition."""

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812
from sklearn.datasets import load_breast_cancer, load_digits
from torch import Tensor, nn, optim

from examples.zoo.cases import Watch, sick
from examples.zoo.tuned.opened7.builds import Flat, Listener, Reader, convnet, explained, mlp, right
from examples.zoo.tuned.opened7.drills import Trainer, drill
from examples.zoo.tuned.opened7.supplies import (
    Batches,
    Rows,
    anew,
    dialects,
    fresh,
    friedman,
    images,
    parted,
    pixels,
    scaled,
    table,
    tones,
)


def _weather(seed: int) -> Rows:
    """Pressure in pascals, temperature in kelvin, humidity as a share, wind; and whether it rains soon."""
    random = np.random.default_rng(seed)
    z = random.standard_normal((1400, 4)).astype("float32")
    rain = (1.6 * z[:, 2] - 1.4 * z[:, 0] - 0.6 * z[:, 1] * z[:, 3] + 0.4 * random.standard_normal(1400) > 0).astype(
        int
    )
    x = z * np.array([900.0, 8.0, 0.15, 3.0], "float32") + np.array([101_325.0, 288.0, 0.6, 6.0], "float32")
    return parted(x, rain, seed)


@sick("inputs_not_normalized")
def pascals_and_shares(watch: Watch, *, seed: int, sick: bool) -> float:
    """A weather station's columns in their units."""
    rows = _weather(seed) if sick else scaled(_weather(seed))
    model = mlp(4, 24, 24, 2)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    drill(watch, model, optimizer, rows.epochs(32, 300))
    return right(model, rows)


@sick("inputs_not_normalized")
def millivolts_into_gates(watch: Watch, *, seed: int, sick: bool) -> float:
    """A sensor's series around 900, with swings of 60, enters a GRU, whose gates it shuts."""

    def measured(size: int) -> tuple[Tensor, Tensor]:
        series, label = tones(size)
        return 900 + 60 * series if sick else series, label

    model = Listener(nn.GRU(1, 20, batch_first=True), 3)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, fresh(measured, 32, 200))
    return right(model, anew(measured, 500, seed))


@sick("inputs_not_normalized")
def a_day_counted_from_1970(watch: Watch, *, seed: int, sick: bool) -> float:
    """A column of days since 1970 stands beside standardised ones."""
    rows = friedman(seed)
    if sick:
        rows.x[:, 9], rows.x_test[:, 9] = (1.7e4 + 300 * part[:, 9] for part in (rows.x, rows.x_test))
    model = Flat(mlp(10, 32, 32, 1))
    optimizer = optim.Adam(model.parameters(), lr=6e-3)
    drill(watch, model, optimizer, rows.epochs(32, 360), F.smooth_l1_loss)
    return explained(model, rows)


@sick("inputs_not_normalized")
def to_tensor_left_out(watch: Watch, *, seed: int, sick: bool) -> float:
    """Pictures from 0 to 255 enter convolutions without a normalisation."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16 * 255).astype("float32").reshape(-1, 1, 8, 8)
    rows = parted(x if sick else (x - x.mean()) / x.std(), y, seed)
    model = nn.Sequential(
        nn.Conv2d(1, 10, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(160, 32), nn.ReLU(),
        nn.Linear(32, 10),
    )  # fmt: skip
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    drill(watch, model, optimizer, rows.epochs(32, 200))
    return right(model, rows)


@sick("inputs_constant")
def whole_numbers_divided(watch: Watch, *, seed: int, sick: bool) -> float:
    """``pixels // 255`` is 0 for all but white ones."""
    x, y = load_digits(return_X_y=True)
    whole = np.minimum(x * 15, 250).astype("uint8").reshape(-1, 1, 8, 8)
    rows = parted((whole // 255 if sick else (whole - whole.mean()) / whole.std()).astype("float32"), y, seed)
    model = convnet()
    optimizer = optim.AdamW(model.parameters(), lr=4e-3)
    drill(watch, model, optimizer, rows.epochs(32, 160))
    return right(model, rows)


@sick("inputs_constant")
def every_word_is_unknown(watch: Watch, *, seed: int, sick: bool) -> float:
    """The vocabulary was built in lower case from another file: all words become <unk>, 1."""
    rows = dialects(seed)
    if sick:
        rows.x, rows.x_test = torch.ones_like(rows.x), torch.ones_like(rows.x_test)
    model = Reader(nn.LSTM)
    optimizer = optim.Adam(model.parameters(), lr=1e-2)
    drill(watch, model, optimizer, rows.epochs(32, 150), nn.CrossEntropyLoss(label_smoothing=0.1))
    return right(model, rows)


@sick("inputs_constant", also=("duplicated_data",))
def one_buffer_for_all_rows(watch: Watch, *, seed: int, sick: bool) -> float:
    """A batch is a list of views of one buffer, and all show what was written last."""
    rows = pixels(seed)
    buffer = torch.empty(64)

    def batches() -> Batches:
        for _ in range(200):
            index = torch.randint(len(rows.x), (32,))
            views = []
            for row in index:
                buffer.copy_(rows.x[row])
                views.append(buffer if sick else buffer.clone())
            yield torch.stack(views), rows.y[index]

    model = mlp(64, 48, 10)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    drill(watch, model, optimizer, batches())
    return right(model, rows)


@sick("non_finite_inputs")
def divided_by_a_deviation_of_zero(watch: Watch, *, seed: int, sick: bool) -> float:
    """Some pixels are black in every picture, and 0 / 0 is NaN."""
    x, y = load_digits(return_X_y=True)
    rows = parted(x.astype("float32"), y, seed)
    std, mean = torch.std_mean(rows.x, 0)
    std = std if sick else std.clamp(min=1.0)
    rows.x, rows.x_test = (rows.x - mean) / std, (rows.x_test - mean) / std
    model = mlp(64, 40, 10)
    optimizer = optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
    Trainer(model, optimizer).fit(watch, rows, epochs=5)
    return right(model, rows)


@sick("non_finite_inputs")
def gaps_in_a_table(watch: Watch, *, seed: int, sick: bool) -> float:
    """One value of 500 is missing; the repaired training puts the column's mean there."""
    rows = table(load_breast_cancer, seed)
    gaps = torch.rand(rows.x.shape, generator=torch.Generator().manual_seed(seed)) < 0.002
    rows.x[gaps] = float("nan") if sick else 0.0
    model = mlp(30, 16, 2)
    optimizer = optim.Adam(model.parameters(), lr=4e-3, weight_decay=1e-2)
    drill(watch, model, optimizer, rows.epochs(32, 120))
    return right(model, rows)


@sick("non_finite_inputs")
def the_logarithm_of_silence(watch: Watch, *, seed: int, sick: bool) -> float:
    """Spectra in decibels, where a clipped recording has bands of exact silence."""

    def spectra(size: int) -> tuple[Tensor, Tensor]:
        waves, label = tones(size)
        power = torch.fft.rfft(waves[..., 0]).abs() ** 2
        power[torch.rand(power.shape) < 0.01] = 0.0
        return (power if sick else power + 1e-1).log10() - 0.6, label

    model = mlp(13, 24, 3)
    optimizer = optim.Adam(model.parameters(), lr=5e-3)
    drill(watch, model, optimizer, fresh(spectra, 32, 220))
    return right(model, anew(spectra, 500, seed))


@sick("unshuffled_data")
def sorted_by_the_query(watch: Watch, *, seed: int, sick: bool) -> float:
    """``ORDER BY price``, and a loader that does not shuffle."""
    rows = friedman(seed)
    order = rows.y.argsort()
    rows.x, rows.y = rows.x[order], rows.y[order]
    model = Flat(mlp(10, 32, 1))
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.8)
    drill(watch, model, optimizer, rows.epochs(32, 52 * 6, shuffle=not sick), F.mse_loss)
    return explained(model, rows)


@sick("unshuffled_data")
def one_dialect_after_the_other(watch: Watch, *, seed: int, sick: bool) -> float:
    """Sentences in the order of their files; the loader's ``shuffle`` was lost when a sampler was tried."""
    rows = dialects(seed)
    order = rows.y.argsort()
    rows.x, rows.y = rows.x[order], rows.y[order]
    model = nn.Sequential(nn.EmbeddingBag(60, 24), nn.ReLU(), nn.Linear(24, 4))
    optimizer = optim.Adam(model.parameters(), lr=2e-2)
    smooth = nn.CrossEntropyLoss(label_smoothing=0.1)
    drill(watch, model, optimizer, rows.epochs(40, 21 * 8, shuffle=not sick), smooth)
    return right(model, rows)


@sick("duplicated_data", also=("overfitting",))
def the_first_batch_again(watch: Watch, *, seed: int, sick: bool) -> float:
    """``next(iter(loader))`` in a loop begins anew each time, and the loader does not shuffle."""
    rows = images(seed)
    loader = rows.loader(32, shuffle=False)

    def batches() -> Batches:
        for _ in range(160):
            yield next(iter(loader))

    model = convnet()
    optimizer = optim.SGD(model.parameters(), lr=0.03, momentum=0.9)
    drill(watch, model, optimizer, batches() if sick else rows.epochs(32, 160))
    return right(model, rows)


@sick("duplicated_data", also=("overfitting",))
def a_generator_seeded_in_each_call(watch: Watch, *, seed: int, sick: bool) -> float:
    """``default_rng(0)`` stands inside of the function that draws a batch."""
    rows = friedman(seed)
    random = np.random.default_rng(seed)

    def batches() -> Batches:
        for _ in range(280):
            index = (np.random.default_rng(0) if sick else random).choice(len(rows.x), 40, replace=False)
            yield rows.x[index], rows.y[index]

    model = Flat(mlp(10, 32, 1))
    optimizer = optim.Adam(model.parameters(), lr=1.5e-2)
    drill(watch, model, optimizer, batches(), F.mse_loss)
    return explained(model, rows)
