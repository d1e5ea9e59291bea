"""Over ten seeds and all presets: sound trainings raise no alarm, and a learning rate of 30 does, each time."""

import pytest
from digits_training import PRESETS, alerts_of, load, train

from debuggers.gradients.health import Health

SEEDS = range(10)


@pytest.fixture(scope="module")
def digits():
    return load()


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("seed", SEEDS)
def test_sound_trainings_raise_no_alarm(digits, seed, preset):
    report, emitter = train(digits, seed=seed, config=preset)

    assert alerts_of(emitter) == []
    assert report.verdict.health is Health.HEALTHY


@pytest.mark.slow
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("seed", SEEDS)
def test_a_learning_rate_of_30_raises_one(digits, seed, preset):
    report, emitter = train(digits, seed=seed, lr=30.0, config=preset)

    assert {"exploding_gradient", "non_finite_gradient"} & {item.name for item in alerts_of(emitter)}
    assert report.verdict.health in (Health.WARNING, Health.CRITICAL)
