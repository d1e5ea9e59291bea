"""Real trainings, sound and sick, in every preset: what a session says of them, and of what it did not see."""

import copy
import json
import math

import pytest
import torch
from digits_training import load, network, train
from sklearn.datasets import load_diabetes
from torch import nn
from tracker_adapters.reports import WORST_FIRST
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.gradients.health import Health
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, PyTorchDebuggingConfig
from stepscope.sessions import governor
from stepscope.sessions.verdict import Verdict

NO_TARGETS = "no targets were seen (pass them as session.step(targets=targets))"
NO_GRAPH = "the loss's graph was not seen"
NO_KIND = "the loss is of no known kind"
PRESETS = ["standard", *(pytest.param(preset, marks=pytest.mark.slow) for preset in ("economy", "full"))]


@pytest.fixture(scope="module")
def digits():
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield load()
    torch.set_num_threads(threads)


def kinds(report):
    return {finding.kind for finding in report.findings}


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("seed", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_a_sound_training_is_healthy_without_a_warning(digits, seed, preset):
    report, emitter = train(digits, seed=seed, config=preset)

    assert not [item for item in emitter.artifacts if item.kind == "alert"]
    assert (report.verdict.health, report.verdict.score, report.recommendations) == (Health.HEALTHY, 1.0, ())
    assert report.summary().startswith("Verdict: healthy (score 1.00).\nChecked: the gradients of all 40 steps")


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("seed", [0, pytest.param(4, marks=pytest.mark.slow)])
def test_a_learning_rate_of_30_is_told(digits, seed, preset):
    report, emitter = train(digits, seed=seed, lr=30.0, config=preset)

    alerts = [item for item in emitter.artifacts if item.kind == "alert"]
    assert {"exploding_gradient", "non_finite_gradient"} & {item.name for item in alerts}
    assert min(item.step for item in alerts) <= 10
    assert report.verdict.health in (Health.WARNING, Health.CRITICAL)
    assert not [text for text in report.recommendations if "Raise" in text]


@pytest.mark.parametrize("config", [*PRESETS, stepscope.DebugConfig(schedule=stepscope.Schedule(every=1000))])
def test_one_nan_is_named_with_its_parameters_whatever_the_schedule(digits, config):
    report, emitter = train(digits, config=config, nan_at=17)

    (alert,) = [item for item in emitter.artifacts if item.name == "non_finite_gradient"]
    assert (alert.step, alert.level) == (17, "error")
    assert "0.weight" in alert.message
    assert report.verdict.health in (Health.WARNING, Health.CRITICAL)
    assert [item.step for item in emitter.artifacts if item.name == "total_norm/gradients"] == list(range(40))


def test_a_nan_is_named_when_the_limit_leaves_nearly_all_steps_out(digits, monkeypatch):
    monkeypatch.setattr(governor, "FREE_STEPS", 5)
    monkeypatch.setattr(governor, "FLOOR_S", 0.0)
    config = stepscope.DebugConfig(max_overhead=1e-9)

    report, emitter = train(digits, config=config, nan_at=31)

    assert report.overhead.measured < 10
    (alert,) = [item for item in emitter.artifacts if item.name == "non_finite_gradient"]
    assert alert.step == 31
    assert "0.weight" in alert.message


@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("lr", [1e-12, pytest.param(0.0, marks=pytest.mark.slow)])
def test_a_training_that_learns_nothing_is_not_healthy(digits, preset, lr):
    report, emitter = train(digits, lr=lr, config=preset)

    assert "weights_stand_still" in {item.name for item in emitter.artifacts if item.kind == "alert"}
    assert report.verdict.health is not Health.HEALTHY
    assert report.verdict.score < 0.8
    assert any("The model does not learn" in text for text in report.recommendations)


@pytest.mark.parametrize("preset", PRESETS)
def test_a_layer_that_the_optimizer_lacks_is_told_and_gets_no_other_advice(digits, preset):
    def without_the_second_layer(model):
        return [parameter for name, parameter in model.named_parameters() if not name.startswith("3.")]

    report, _ = train(digits, config=preset, steps=120, prepare=without_the_second_layer)

    assert "outside_optimizer" in kinds(report)
    assert report.coverage.outside_optimizer == ("3.weight", "3.bias")
    assert report.verdict.health in (Health.WARNING, Health.CRITICAL)
    (advice,) = [text for text in report.recommendations if "3.weight" in text or "3.bias" in text]
    assert advice.startswith("Add 3.bias, 3.weight to the optimizer")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_frozen_layer_is_healthy_only_as_far_as_measured(digits, preset):
    report, emitter = train(digits, config=preset, prepare=lambda model: model[3].requires_grad_(False) and None)

    assert not [item for item in emitter.artifacts if item.kind == "alert"]
    assert (report.verdict.health, report.verdict.score) == (Health.PARTIAL, 0.99)
    assert report.verdict.gaps == ("2 of 8 parameters are frozen (3.weight, 3.bias)",)
    assert "no problem in what was checked (score 0.99): 2 of 8 parameters are frozen" in report.summary()


@pytest.mark.parametrize("preset", PRESETS)
def test_a_dead_layer_gets_no_advice_to_raise_the_learning_rate(digits, preset):
    def kill(model):
        with torch.no_grad():
            model[3].bias.fill_(-50)

    report, _ = train(digits, config=preset, prepare=kill)

    assert "zero_gradient" in kinds(report)
    assert not [text for text in report.recommendations if "Raise" in text]


@pytest.mark.parametrize("scaler", [None, torch.amp.GradScaler("cpu")])
def test_a_loss_on_the_host_is_looked_at_in_every_step(scaler):
    model, emitter = nn.Linear(4, 2), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = stepscope.DebugConfig(schedule=stepscope.Schedule(every=1000))
    options = {"run": emitter, "scaler": scaler, "config": config, "on_error": "raise"}
    with stepscope.DebugSession(model, optimizer, **options) as session:
        for step in range(6):
            model(torch.randn(3, 4)).sum().backward()
            session.step(math.nan if step in (3, 4) else 0.5)

    assert [(item.name, item.step) for item in emitter.artifacts if item.kind == "alert"] == [("non_finite_loss", 3)]
    assert [(one.kind, one.steps) for one in session.report().findings] == [("non_finite_loss", 2)]
    assert session.report().verdict.health is Health.CRITICAL


@pytest.mark.slow
def test_a_fault_that_the_history_holds_no_more_is_still_in_the_verdict(digits):
    config = stepscope.DebugConfig(max_gradient_history=10)

    report, _ = train(digits, config=config, nan_at=3)

    assert "non_finite_gradient" in kinds(report)
    assert report.verdict.health is not Health.HEALTHY


@pytest.mark.slow
def test_what_ended_long_ago_is_told_with_its_end(digits):
    config = stepscope.DebugConfig(max_overhead=None)
    report, _ = train(digits, config=config, nan_at=3, steps=60, lr=0.05)

    assert report.verdict.health is Health.WARNING
    assert report.verdict.over_since == 3
    assert 0.9 < report.verdict.score < 1
    assert report.summary().startswith("Verdict: warning, over since step 3 (score 0.9")
    assert json.loads(report.to_json())["over_since"] == 3

    report, _ = train(digits, config=config, nan_at=39)
    assert report.verdict.over_since is None
    assert report.verdict.score < 0.6


def test_one_step_and_one_of_several_are_told_in_words(digits):
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    model.bias.requires_grad_(False)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer, activations=True, max_overhead=None) as session:
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()

    text = session.report().summary()
    assert "1 of 2 parameters is frozen (bias)" in text
    assert (
        "Checked: the gradients of the one step, 1 of 2 parameters in full at 1 step, the outputs of the one layer."
        in text
    )
    assert "all 1 " not in text


def test_a_measurement_that_failed_is_no_measured_step(digits, monkeypatch):
    from debuggers.gradients import measurement as gradient_measurement

    def fails(*arguments):
        raise RuntimeError("on purpose")

    monkeypatch.setattr(gradient_measurement, "measure_unscaled", fails)
    report, _ = train(digits, config=stepscope.DebugConfig(max_overhead=None), on_error="isolate")

    assert report.coverage.measured == 0
    assert report.coverage.failures > 0
    assert report.verdict.health is not Health.HEALTHY
    assert any("an internal error occurred" in gap for gap in report.verdict.gaps)


@pytest.mark.parametrize(
    "beside",
    [
        {"weights": True, "updates": True},
        *(pytest.param(beside, marks=pytest.mark.slow) for beside in ({}, {"activations": True})),
    ],
)
@pytest.mark.parametrize("gradients", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_parameters_count_as_measured_only_if_their_gradients_were(digits, gradients, beside):
    config = stepscope.DebugConfig(gradients=gradients, max_overhead=None, **beside)
    report, _ = train(digits, config=config)

    assert (report.coverage.probed, report.coverage.measured) == (40, 40 if gradients else 0)
    assert report.verdict.health is (Health.HEALTHY if gradients else Health.PARTIAL)
    gap = "individual parameters were measured at 0 of 40 steps"
    assert report.verdict.gaps == (() if gradients else (gap,))


def test_nothing_is_said_of_what_was_not_looked_at(digits):
    report, _ = train(digits, config=stepscope.DebugConfig(enable_gradient_debugging=False))
    assert (report.verdict.health, report.verdict.score) == (Health.UNKNOWN, None)
    assert report.verdict.gaps == ("no gradients were watched",)

    report, _ = train(digits, steps=5)
    assert (report.verdict.health, report.verdict.score) == (Health.PARTIAL, 0.99)
    assert report.verdict.gaps == ("to check whether weights change, 25 steps are needed",)

    model = torch.nn.Linear(2, 1)
    with stepscope.DebugSession(model) as session:
        model(torch.ones(1, 2)).sum().backward()
        session.step()
    assert session.report().verdict.gaps == (
        "to check whether weights change, an optimizer and 25 steps are needed",
        NO_KIND,
        NO_TARGETS,
    )

    report, _ = train(digits, steps=0)
    assert str(report.verdict) == "unknown: no step was taken."


def test_gradients_that_a_loop_records_itself_are_judged_and_no_more_is_claimed():
    session = stepscope.debug_session().start()
    for _ in range(5):
        for layer in ("first", "second"):
            session.gradient_debugger.record_gradient_flow(layer, [0.1, -0.2])
    report = session.report()
    assert (report.verdict.health, report.verdict.score) == (Health.PARTIAL, 0.99)
    assert "Checked: the recorded gradients of 2 layers at 5 steps." in report.summary()
    assert report.verdict.gaps == ("nothing was checked but the gradients that the loop recorded",)

    session.gradient_debugger.record_gradient_flow("first", [math.nan])
    assert session.report().verdict.health is Health.CRITICAL
    session.close()


def test_a_branch_that_the_loss_leaves_out_later_on_is_a_gap():
    model = nn.ModuleDict({"trunk": nn.Linear(4, 2), "branch": nn.Linear(4, 2)})
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for step in range(60):
            optimizer.zero_grad()
            inputs = torch.randn(8, 4)
            output = model["trunk"](inputs)
            output = output + model["branch"](inputs) if step < 20 else output
            nn.functional.mse_loss(output, inputs[:, :2]).backward()
            session.step()
            optimizer.step()

    report = session.report()
    assert report.verdict.health is Health.PARTIAL
    names = "branch.weight, branch.bias"
    assert report.verdict.gaps == (f"2 of 4 parameters are without gradient in the last half of the steps ({names})",)
    assert "2 of 4 parameters in full at 60 steps" in report.coverage.summary()


@pytest.mark.parametrize(("added_at", "is_late"), [(6, False), (7, True)])
def test_a_layer_that_was_added_in_mid_training_is_a_gap(added_at, is_late):
    model = nn.Sequential(nn.Linear(4, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for step in range(60):
            if step == added_at:
                optimizer.add_param_group({"params": model.append(nn.Linear(2, 2))[1].parameters()})
            optimizer.zero_grad()
            inputs = torch.randn(8, 4)
            nn.functional.mse_loss(model(inputs), inputs[:, :2]).backward()
            session.step()
            optimizer.step()

    report = session.report()
    late = "2 of 4 parameters are without gradient in the first tenth of the steps or longer (1.weight, 1.bias)"
    assert (late in report.verdict.gaps) == is_late
    assert ("2 of 4 parameters in full at 60 steps" in report.coverage.summary()) == is_late


def test_steps_that_were_only_probed_and_layers_that_were_never_called_are_gaps(digits):
    class Parts(nn.Module):
        def __init__(self):
            super().__init__()
            self.used, self.unused = nn.Linear(4, 2), nn.Linear(4, 2)

    model = Parts()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = stepscope.DebugConfig(schedule=stepscope.Schedule(every=2), activations=True, max_overhead=None)
    with stepscope.DebugSession(model, optimizer, config=config, on_error="raise") as session:
        for _ in range(30):
            optimizer.zero_grad()
            inputs = torch.randn(8, 4)
            nn.functional.mse_loss(model.used(inputs), inputs[:, :2]).backward()
            session.step()
            optimizer.step()

    coverage = session.report().coverage
    assert coverage.gaps == (
        "individual parameters were measured at 15 of 30 steps",
        "2 of 4 parameters are without gradient in every step (unused.weight, unused.bias)",
        "the outputs of 1 of 2 layers were never seen (unused)",
    )
    assert coverage.summary() == (
        "Checked: the gradients of all 30 steps, 2 of 4 parameters in full at 15 steps, the outputs of 1 of 2 layers."
    )
    written = json.loads(session.report().to_json())
    assert (written["health"], written["score"]) == ("no problem in what was checked", 0.99)
    assert written["coverage"]["gaps"] == list(coverage.gaps)


@pytest.mark.slow
def test_tools_that_a_limit_ended_are_a_gap(digits, tmp_path):
    manager = NumericalStabilityManager(
        GradientClippingConfig(max_norm=1e9),
        NaNHandlingConfig(),
        PyTorchDebuggingConfig(enable_autograd_anomaly=True, max_debug_iterations=3, debug_output_dir=str(tmp_path)),
    )
    manager.start_debug_session()
    report, _ = train(digits, steps=30, stability=manager)
    manager.stop_debug_session()

    assert report.verdict.health is Health.PARTIAL
    assert "max_debug_iterations" in report.verdict.gaps[-1]


def test_an_optimizer_of_another_model_is_a_cause(digits, caplog):
    model = network()
    optimizer = torch.optim.SGD(copy.deepcopy(model).parameters(), lr=0.1)
    with stepscope.watch(model, optimizer) as session:
        for rows in torch.arange(320).split(32):
            model.zero_grad()
            nn.functional.cross_entropy(model(digits[0][rows]), digits[1][rows]).backward()
            optimizer.step()

    assert "none of the optimizer's 8 parameters is one of the Sequential's 8" in caplog.text
    cause = session.report().causes[0]
    assert (cause.code, cause.since_step) == ("parameters_not_in_optimizer", None)
    assert "made for a copy" in cause.evidence[0]


@pytest.mark.parametrize("zeroes", [True, pytest.param(False, marks=pytest.mark.slow)])
def test_a_step_that_is_named_and_not_called_is_a_cause(digits, zeroes):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer) as session:
        for rows in torch.arange(1000).split(64 if zeroes else 8):
            if zeroes:
                optimizer.zero_grad()
            nn.functional.cross_entropy(model(digits[0][rows]), digits[1][rows]).backward()
            _ = optimizer.step

    assert [cause.code for cause in session.report().causes] == ["no_update"]


def test_an_optimizer_inside_the_backward_pass_trains(digits):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def step(parameter):
        parameter.data.add_(parameter.grad, alpha=-0.1)
        parameter.grad = None

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(step)
    with stepscope.watch(model, optimizer) as session:
        for rows in torch.arange(1000).split(8):
            nn.functional.cross_entropy(model(digits[0][rows]), digits[1][rows]).backward()

    assert not session.report().causes


def test_a_second_watch_of_the_same_training_ends_the_first(caplog):
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    first = stepscope.watch(model, optimizer)
    with stepscope.watch(model, optimizer) as second:
        model(torch.randn(3, 4)).sum().backward()
        optimizer.step()

    assert "already watched: the earlier session ends now, before its first step" in caplog.text
    assert (first.report().overhead.steps, second.report().overhead.steps) == (0, 1)
    reason = "no step was taken, as the same model and optimizer were watched a second time"
    assert reason in first.report().summary()
    assert "watched a second time" not in second.report().summary()
    assert not optimizer._optimizer_step_pre_hooks


def two_sessions(*runs):
    models = [nn.Linear(4, 2), nn.Linear(4, 2)]
    for model, run in zip(models, runs, strict=True):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        with stepscope.watch(model, optimizer, run=run, max_overhead=None):
            model(torch.randn(3, 4)).sum().backward()
            optimizer.step()


def test_two_models_under_the_same_names_are_told_with_the_way_out():
    emitter = MemoryEmitter()
    two_sessions(emitter, emitter)

    (alert,) = [item for item in emitter.artifacts if item.kind == "alert"]
    assert alert.name == "mixed_series"
    assert 'run.scoped("D")' in alert.message


def test_two_models_in_scopes_of_their_own_are_not():
    emitter = MemoryEmitter()
    two_sessions(emitter.scoped("G"), emitter.scoped("D"))

    assert not [item for item in emitter.artifacts if item.kind == "alert"]


def test_one_training_in_several_sessions_mixes_nothing():
    emitter, model = MemoryEmitter(), nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(2):
        stepscope.watch(model, optimizer, run=emitter.at(0)).close()

    assert not [item for item in emitter.artifacts if item.kind == "alert"]


def loop(model, optimizers, *, steps=60, skips=lambda step: False, at=lambda step: None):
    """A healthy training that is watched with the first optimizer and made with the last one from half of it on."""
    torch.manual_seed(0)
    emitter = MemoryEmitter()
    with stepscope.watch(model, optimizers[0], run=emitter) as session:
        for step in range(steps):
            at(step)
            optimizer = optimizers[-1 if 2 * step >= steps else 0]
            optimizer.zero_grad()
            inputs = torch.randn(16, 4)
            model(inputs).sub(inputs.sum(1, keepdim=True)).square().mean().backward()
            if not skips(step):
                optimizer.step()
    return session.report(), [item.name for item in emitter.artifacts if item.kind == "alert"]


def normalised():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 1))


@pytest.mark.slow
@pytest.mark.parametrize("make", [torch.optim.AdamW, torch.optim.SGD])
def test_an_optimizer_that_takes_the_place_of_the_watched_one_is_a_gap(make):
    model = normalised()
    first, second = make(model.parameters(), lr=1e-3), make(model.parameters(), lr=1e-3)

    report, _ = loop(model, [first, second])

    assert report.coverage.changed_late
    assert report.verdict.health is Health.PARTIAL
    assert "weights still changed after the last observed step" in str(report.verdict)


def test_weights_that_are_loaded_at_the_end_are_no_gap():
    model = normalised()
    before = {name: value.clone() for name, value in model.state_dict().items()}

    def load(step):
        if step == 59:
            model.load_state_dict(before)

    report, alerts = loop(model, [torch.optim.AdamW(model.parameters())], at=load, skips=lambda step: step == 59)

    assert (report.verdict.health, report.verdict.gaps, alerts) == (Health.HEALTHY, (), [])


@pytest.mark.slow
def test_passes_without_a_step_at_the_end_are_a_gap():
    model = normalised()

    report, _ = loop(model, [torch.optim.AdamW(model.parameters())], skips=lambda step: step >= 40)
    assert report.verdict.gaps == ("no step of the watched optimizer followed the last 20 forward passes",)

    report, _ = loop(model, [torch.optim.AdamW(model.parameters())], skips=lambda step: True)
    assert report.verdict.gaps == ("no step was taken in 60 forward passes",)
    assert [cause.code for cause in report.causes] == ["no_update"]


@pytest.mark.slow
def test_a_training_in_eval_mode_is_a_gap():
    model = normalised()

    report, _ = loop(model, [torch.optim.AdamW(model.parameters())], at=lambda step: model.train(step < 50))

    assert report.verdict.gaps == ("the model was in eval mode at 10 of 60 steps (1, 3 act differently in that mode)",)

    plain = nn.Linear(4, 1).eval()
    assert not loop(plain, [torch.optim.AdamW(plain.parameters())])[0].verdict.gaps


@pytest.mark.slow
@pytest.mark.parametrize("name", ["1.running_mean", "4.bias"])
def test_nan_that_no_gradient_showed_are_found_at_the_end(name):
    model = normalised()

    def break_one(step):
        if step == 59:
            model.state_dict()[name][0] = math.nan

    last = [torch.optim.SGD(model.parameters(), lr=0.01)]
    report, alerts = loop(model, last, at=break_one, skips=lambda step: step == 59)

    problems = [(finding.kind, finding.name) for finding in report.findings if finding.is_problem]
    assert problems == [("non_finite_weight", name)]
    assert (report.verdict.health, alerts) == (Health.CRITICAL, ["non_finite_weight"])
    assert "checkpoint" in report.recommendations[0]


def test_a_mask_of_infinities_in_a_buffer_is_no_finding():
    model = normalised()
    model.register_buffer("mask", torch.full((4, 4), -math.inf).triu(1))

    report, alerts = loop(model, [torch.optim.AdamW(model.parameters())])

    assert (report.verdict.health, alerts) == (Health.HEALTHY, [])


def test_the_bias_of_a_critic_has_no_gradient_by_construction():
    torch.manual_seed(0)
    critic = nn.Sequential(nn.Linear(2, 8), nn.LeakyReLU(0.2), nn.Linear(8, 1))
    optimizer = torch.optim.Adam(critic.parameters(), lr=1e-3)
    with stepscope.watch(critic, optimizer) as session:
        for _ in range(30):
            optimizer.zero_grad()
            (critic(torch.randn(8, 2)).mean() - critic(torch.randn(8, 2) + 2).mean()).backward()
            assert not critic[2].bias.grad.any()
            optimizer.step()

    assert session.report().verdict.gaps == (NO_KIND, NO_TARGETS)


@pytest.mark.parametrize(
    ("found", "cause", "gaps", "text"),
    [
        ({}, "", (), "warning (score 0.50)."),
        ({}, "", ("a", "b"), "warning (score 0.50): a; b."),
        ({}, "x", (), "warning (score 0.50), likely because x."),
        ({}, "x", ("a", "b"), "warning (score 0.50), likely because x. Gaps in coverage: a; b."),
        ({"k": 2}, "x", ("a",), "warning (score 0.50), likely because x: k (2). Gaps in coverage: a."),
        ({"k": 2, "m": 1}, "", (), "warning (score 0.50): k (2), m (1)."),
    ],
)
def test_a_verdict_keeps_its_cause_its_findings_and_its_gaps_apart(found, cause, gaps, text):
    assert str(Verdict(health=Health.WARNING, score=0.5, gaps=gaps, found=found, cause=cause)) == text


@pytest.mark.slow
@pytest.mark.parametrize(
    ("unseen", "gaps"),
    [
        (1, ()),
        (4, ("the loss of 4 of 30 steps was not seen",)),
        (30, ("the loss of all 30 steps was not seen", NO_GRAPH, NO_TARGETS)),
    ],
)
def test_what_is_healthy_has_had_its_loss_seen(unseen, gaps):
    """``torch.autograd.grad`` tells no loss, as ``backward`` does."""
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for step in range(30):
            inputs = torch.randn(16, 4)
            optimizer.zero_grad()
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            if step < unseen:
                parameters = list(model.parameters())
                for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
                    parameter.grad = gradient
            else:
                loss.backward()
            optimizer.step()

    verdict = session.report().verdict
    assert verdict.gaps == gaps


class InRawUnits(nn.Module):
    """Predicts in the unit of its targets, and knows their mean and deviation."""

    def __init__(self, targets):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 1))
        self.register_buffer("mean", targets.mean())
        self.register_buffer("deviation", targets.std())

    def forward(self, inputs):
        return self.net(inputs) * self.deviation + self.mean


@pytest.mark.parametrize(("starts_at", "expected"), [(1.0, set()), (1e6, {"exploding_gradient"})])
def test_gradients_in_the_unit_of_huge_targets_explode_by_more_than_that_unit(starts_at, expected):
    """Squared errors of millions have gradients of 1e12."""
    inputs, targets = (torch.tensor(values, dtype=torch.float32) for values in load_diabetes(return_X_y=True))
    inputs, targets = inputs / inputs.std(0), targets[:, None] * 1e4
    torch.manual_seed(0)
    model = InRawUnits(targets)
    with torch.no_grad():
        model.net[2].weight *= starts_at
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(30):
            rows = torch.randint(len(inputs), (64,))
            optimizer.zero_grad()
            torch.nn.functional.mse_loss(model(inputs[rows]), targets[rows]).backward()
            session.step()
            optimizer.step()
        verdict = session.report().verdict

    assert set(verdict.found) & {"exploding_gradient"} == expected
    assert (verdict.health is Health.CRITICAL) == bool(expected)


def test_trackers_know_how_each_verdict_begins():
    assert set(WORST_FIRST) == {str(health) for health in Health}
