"""The learned detector knows the run's own noise, follows its trend, and tells what does not fit."""

import json

import numpy as np
import pytest
import torch
from digits_data import digits_data

from stability import (
    GradientClippingConfig,
    LearnedDetector,
    NaNHandlingConfig,
    NumericalStabilityManager,
    StabilityConfigError,
)

STEPS = 20_000


def told(losses, norms, detector=None):
    detector = detector or LearnedDetector()
    return [step for step, pair in enumerate(zip(losses, norms, strict=True)) if detector.update(*map(float, pair))]


def noise(seed, scale=0.1, size=STEPS):
    return np.random.default_rng(seed).normal(0, scale, size)


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))])
@pytest.mark.parametrize(
    ("losses", "norms"),
    [
        (lambda z, y, t: 2 + z, lambda z, y, t: 10**y),
        (lambda z, y, t: np.exp(3 * z), lambda z, y, t: 10 ** (3 * y)),
        (lambda z, y, t: 2 + z, lambda z, y, t: 10 ** (z + 0.1 * y)),
        (lambda z, y, t: 2 * np.exp(-t / 2000) * (1 + z), lambda z, y, t: np.exp(-t / 3000) * 10**y),
        (lambda z, y, t: 0.1 + 2 * np.exp(-t / 2000) + z / 5, lambda z, y, t: (1.01 - np.exp(-t / 500)) * 10**y),
    ],
    ids=["steady", "log-normal", "correlated", "decaying", "rising norm"],
)
def test_noise_of_many_kinds_raises_hardly_an_alarm(losses, norms, seed):
    values = noise(seed), noise(seed + 100), np.arange(STEPS)
    assert len(told(losses(*values), norms(*values))) <= 3


def test_a_hundred_thousand_steps_of_gaussian_noise_raise_no_alarm():
    assert told(2 + noise(0, size=100_000), 10 ** noise(1, size=100_000)) == []


def test_heavy_tails_raise_alarms_as_rarely_as_promised():
    tails = np.random.default_rng(0).standard_t(3, STEPS)
    assert len(told(2 + noise(1), 10 ** (0.1 * tails), LearnedDetector(false_alarms=1e-3))) < 2 * 1e-3 * STEPS


def test_outliers_are_told_and_do_not_hide_the_next():
    losses, norms = 2 + noise(0, size=3000), 10 ** noise(1, size=3000)
    losses[1000] = 5
    norms[1500] = 30
    losses[2000:2010] = 6
    assert told(losses, norms) == [1000, 1500, *range(2000, 2010)]


def test_what_fits_neither_value_alone_is_told_by_both():
    """A high loss with a low norm, in a run where they rise and fall together."""
    together = noise(0, 0.3, 1000)
    losses, norms = 2 + together, 10 ** (together + noise(1, 0.01, 1000))
    losses[900], norms[900] = 2.4, 10**-0.4
    assert told(losses, norms) == [900]


def test_it_gets_used_to_a_new_level():
    losses = 2 + noise(0, size=3000)
    losses[1000:] += 5
    alarms = told(losses, np.ones(3000))
    assert alarms[0] == 1000
    assert alarms[-1] < 1200


def test_values_that_only_fall_are_welcome():
    losses, norms = 2 + noise(0, size=500), 10 ** noise(1, size=500)
    losses[400:], norms[400:] = 0.01, 1e-3
    assert told(losses, norms) == []


def test_nan_infinity_and_zero_norms_teach_nothing():
    detector, other = LearnedDetector(), LearnedDetector()
    for step in range(200):
        assert detector.update(1 + step % 3, 2.0) == other.update(1 + step % 3, 2.0)
        for pair in ((np.nan, 1.0), (1.0, np.inf), (-np.inf, np.nan), (1.0, 0.0)):
            assert detector.update(*pair) is None
    assert detector.state_dict() == other.state_dict()


@pytest.mark.filterwarnings("error")
def test_the_largest_numbers_of_float64_do_not_make_it_blind():
    losses, norms = 2 + noise(0, size=1000), 10 ** noise(1, size=1000)
    losses[300], norms[300], losses[301] = 1e300, 1e300, -1e300
    losses[-1] = 5
    assert told(losses, norms) == [300, 999]

    detector = LearnedDetector()
    told(losses[299:400], norms[299:400], detector)  # while it knows nothing yet
    assert np.isfinite([*detector.state_dict()["mean"], *np.ravel(detector.state_dict()["spread"])]).all()


def test_it_goes_on_from_a_checkpoint():
    losses, norms = 2 + noise(0, size=400), 10 ** noise(1, size=400)
    whole, first, second = LearnedDetector(), LearnedDetector(), LearnedDetector()
    told(losses, norms, whole)
    told(losses[:150], norms[:150], first)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    told(losses[150:], norms[150:], second)
    assert second.state_dict() == whole.state_dict()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"half_life": 0}, "half_life is 0; expected a number of steps above 0"),
        ({"warm_up": -1}, "warm_up is -1"),
        ({"false_alarms": 1}, "false_alarms is 1; expected 0 to 1"),
    ],
)
def test_bad_arguments_are_refused(arguments, message):
    with pytest.raises(StabilityConfigError, match=message):
        LearnedDetector(**arguments)


def test_training_raises_no_alarm_until_a_batch_with_wrong_values():
    torch.manual_seed(0)
    images, labels = map(torch.tensor, digits_data())
    images = images.float() / 16
    model = torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    manager = NumericalStabilityManager(
        GradientClippingConfig(max_norm=1.0), NaNHandlingConfig(), detector=LearnedDetector()
    )
    unusual = {}
    for step in range(600):
        rows = torch.randint(len(images), (32,))
        inputs = images[rows] * (255 if step == 500 else 1)
        loss = torch.nn.functional.cross_entropy(model(inputs), labels[rows])
        optimizer.zero_grad()
        loss.backward()
        for anomaly in manager.step(model, loss, optimizer)["debug_info"]["anomaly_details"]:
            unusual[step] = anomaly["message"]
        optimizer.step()
    assert next(iter(unusual)) == 500
    assert "are unusual in this run" in unusual[500]
    assert len(unusual) < 5


def test_the_managers_checkpoint_holds_what_it_has_learnt():
    def manager():
        return NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), detector=LearnedDetector())

    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first, second = manager(), manager()
    for _ in range(20):
        loss = model(torch.rand(4, 2)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        first.step(model, loss, optimizer)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert second.state_dict() == first.state_dict()
    assert second.state_dict()["detector"]["seen"] == 20
    NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig()).load_state_dict(first.state_dict())


@pytest.mark.parametrize("factor", [30, 200, 900])
@pytest.mark.parametrize("seed", range(3))
def test_what_a_training_learns_does_not_hide_a_spike(factor, seed):
    """Loss and norm fall by some orders of magnitude, and a single norm is many times that of its time."""
    steps = np.arange(1500)
    losses = 2.0 * np.exp(-steps / 100) * 10 ** noise(seed, 0.15, 1500) + 1e-3
    norms = 3.0 * np.exp(-steps / 150) * 10 ** noise(seed + 100, 0.15, 1500) + 0.05
    places = [300, 600, 900, 1200]
    losses[places] *= factor
    norms[places] *= factor
    assert told(losses, norms) == places
