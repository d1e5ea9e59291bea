"""The callback in ``fit`` of real Keras models on torch."""

import logging
import os
import re

import numpy as np
import pytest

import stepscope

os.environ.setdefault("KERAS_BACKEND", "torch")  # Keras reads it when it is imported
keras = pytest.importorskip("keras", reason="needs Keras: pip install 'stepscope[keras]'")
if keras.backend.backend() != "torch":
    pytest.skip("needs Keras on torch: KERAS_BACKEND=torch", allow_module_level=True)

from debuggers.diagnosis.rules.diagnose import diagnose  # noqa: E402
from stepscope.diagnosing.stored_evidence import stored_evidence  # noqa: E402
from stepscope.integrations import frameworks  # noqa: E402
from stepscope.integrations.keras import StepscopeCallback  # noqa: E402

pytestmark = pytest.mark.framework

EVERYTHING = {"max_overhead": None}


class Keeps(keras.callbacks.Callback):
    """Keeps the means that Keras shows after each batch."""

    def __init__(self):
        super().__init__()
        self.losses = []

    def on_train_batch_end(self, batch, logs=None):
        self.losses.append(logs["loss"])


def fit(*callbacks, epochs=2, validates=False, loss="mse", **optimizer):
    keras.utils.set_random_seed(0)
    model = keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(8, activation="relu"), keras.layers.Dropout(0.2), keras.layers.Dense(1)]
    )
    model.compile(keras.optimizers.Adam(0.01, **optimizer), loss)
    inputs = np.random.default_rng(0).normal(size=(64, 4)).astype("float32")
    keeps = Keeps()
    model.fit(
        inputs, inputs.sum(1, keepdims=True), batch_size=16, epochs=epochs, verbose=0, callbacks=[*callbacks, keeps],
        validation_split=0.25 if validates else 0.0,
    )  # fmt: skip
    return model, keeps.losses


@pytest.mark.parametrize("settings", [{}, {"clipnorm": 0.1, "validates": True}, {"gradient_accumulation_steps": 2}])
def test_training_is_bit_identical(tmp_path, settings):
    plain, losses = fit(**settings)

    watched, observed = fit(StepscopeCallback(tmp_path / "run", config="full"), **settings)

    assert observed == losses
    assert all(np.array_equal(a, b) for a, b in zip(watched.get_weights(), plain.get_weights(), strict=True))
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_one_line_records_losses_gradients_metrics_and_validations(tmp_path):
    _, means = fit(StepscopeCallback(tmp_path / "run", **EVERYTHING), validates=True)

    record = stepscope.read_run(tmp_path / "run")
    losses = record.scalars("loss").values
    assert np.cumsum(losses[:3]) / np.arange(1, 4) == pytest.approx(means[:3], rel=1e-5)
    assert record.scalars("logged/loss").values == pytest.approx([means[2], means[5]], rel=1e-5)
    assert record.scalars("validation/loss").steps.tolist() == [2, 5]
    assert record.scalars("total_norm/gradients").steps.tolist() == list(range(6))
    assert record.info.config["training"]["epochs"] == 2
    assert record.info.config["optimizer"]["learning_rate"] == pytest.approx(0.01)
    assert record.scalars("learning_rate").values == pytest.approx([0.01, 0.01])


def test_states_of_layers_are_no_frozen_weights_and_a_frozen_layer_is(tmp_path):
    """Keras keeps moving statistics, and the state of a dropout's seed, as parameters of torch."""
    keras.utils.set_random_seed(0)
    layers = keras.layers
    model = keras.Sequential(
        [
            keras.Input((4,)), layers.Dense(8, trainable=False, name="still"), layers.BatchNormalization(),
            layers.Dropout(0.2), layers.SpectralNormalization(layers.Dense(1, name="last")),
        ]
    )  # fmt: skip
    model.compile("sgd", "mse")
    inputs = np.random.default_rng(0).normal(size=(32, 4))
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        model.fit(inputs, inputs.sum(1, keepdims=True), batch_size=8, verbose=0, callbacks=[StepscopeCallback(run)])

    with stepscope.read_run(tmp_path / "run") as record:
        summary = record.texts("stepscope/report")[-1].text
    frozen = re.search(r"2 of 6 parameters are frozen \((.*?)\)", summary)
    assert frozen, summary
    assert [name.rpartition("/")[2] for name in frozen[1].split(", ")] == ["bias", "kernel"]
    assert frozen[1].count("still/") == 2


def test_a_nan_loss_is_shown(tmp_path):
    fit(StepscopeCallback(tmp_path / "run"), loss=lambda targets, outputs: outputs * float("nan"), epochs=1)

    assert np.isnan(stepscope.read_run(tmp_path / "run").scalars("loss").values).all()


class Broken(Exception):
    pass


class Breaks(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        raise Broken("here")


def test_what_training_raises_comes_out_and_the_next_training_continues_the_run(tmp_path):
    callback = StepscopeCallback(tmp_path / "run")

    with pytest.raises(Broken, match="here"):
        fit(callback, Breaks())
    fit(callback, epochs=1)

    record = stepscope.read_run(tmp_path / "run")
    assert record.info.status == "finished"
    assert record.scalars("loss").steps.tolist() == list(range(1 + 4))


def test_a_callback_given_twice_works_once_and_says_so(tmp_path, caplog):
    fit(StepscopeCallback(tmp_path / "first"), StepscopeCallback(tmp_path / "second"))

    assert caplog.text.count("there are 2 StepscopeCallbacks") == 1
    assert len(stepscope.read_run(tmp_path / "first").scalars("loss").steps) == 8
    assert not (tmp_path / "second").exists()


def test_a_version_that_was_not_tested_is_told_once_and_goes_on(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(frameworks, "version", lambda name: "4.0.0")
    monkeypatch.setattr(frameworks, "_warned", set())

    for name in ("first", "second"):
        fit(StepscopeCallback(tmp_path / name), epochs=1)
        assert len(stepscope.read_run(tmp_path / name).scalars("loss").steps) == 4

    told = [one for one in caplog.records if one.levelno == logging.WARNING and "4.0.0 is installed" in one.message]
    assert len(told) == 1


def test_another_backend_is_refused(monkeypatch):
    monkeypatch.setattr(keras.backend, "backend", lambda: "jax")
    with pytest.raises(stepscope.SessionError, match="Keras runs on jax; expected torch"):
        StepscopeCallback("runs/exp1")


def undefined(targets, outputs):
    return outputs * float("nan")


def test_a_finding_stops_fit(tmp_path):
    callback = StepscopeCallback(tmp_path / "run", on_finding={"non_finite_loss": "stop"})

    model, losses = fit(callback, loss=undefined)

    assert (model.stop_training, len(losses)) == (True, 1)
    assert stepscope.read_run(tmp_path / "run").info.status == "finished"


def test_an_exception_of_a_finding_comes_out_of_fit(tmp_path):
    with pytest.raises(stepscope.FindingError, match="non_finite_loss"):
        fit(StepscopeCallback(tmp_path / "run", on_finding={"non_finite_loss": "raise"}), loss=undefined)


def test_a_run_that_is_closed_in_the_middle_stops_nothing(tmp_path):
    run = stepscope.open_run(tmp_path / "run", sinks=[])

    class Closes(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            run.close()

    _, losses = fit(Closes(), StepscopeCallback(run, on_finding={"error": "raise"}))
    assert len(losses) == 8


def test_a_loss_that_is_never_a_number_is_not_taken_for_first_weights(tmp_path):
    fit(StepscopeCallback(tmp_path / "run"), loss=undefined)

    with stepscope.read_run(tmp_path / "run") as record:
        assert [cause.code for cause in diagnose(stored_evidence(record))] == ["non_finite_forward"]
