"""What a verdict must not call healthy, as it was not looked at."""

import json

import pytest
import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn import functional

import stepscope
from stepscope.cli import main

OF_PASSES = "the course of the loss was not judged, as other backward passes come between the steps"
NO_TARGETS = "no targets were seen (pass them as session.step(targets=targets))"


@pytest.fixture(scope="module")
def rows():
    values, targets = load_digits(return_X_y=True)
    return torch.tensor(values, dtype=torch.float32) / 16, torch.tensor(targets)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def batch(rows):
    chosen = torch.randint(len(rows[0]), (32,))
    return rows[0][chosen], rows[1][chosen]


def watched(rows, loss, *, steps=40, model=None, call=None, tells=(), validate=None, **options):
    """The gaps of a training with Adam, whose loss is made of outputs, inputs and targets."""
    model = network() if model is None else model
    call = model if call is None else call(model)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with stepscope.watch(model, optimizer, max_overhead=None, **options) as session:
        for _ in range(steps):
            inputs, targets = batch(rows)
            optimizer.zero_grad()
            outputs = call(inputs)
            value = loss(outputs, inputs, targets)
            value.backward()
            if tells:
                told = {"inputs": inputs, "outputs": outputs, "targets": targets}
                session.step(
                    value, **{name: told[name] if keep is None else keep for name, keep in dict(tells).items()}
                )
            if validate is not None:
                session.validation(validate)
            optimizer.step()
    return session.report().verdict.gaps


def entropy(outputs, inputs, targets):
    return functional.cross_entropy(outputs, targets)


def entropy_of_another_graph(outputs, inputs, targets):
    class Own(torch.autograd.Function):
        @staticmethod
        def forward(context, outputs):
            context.save_for_backward(outputs)
            return functional.cross_entropy(outputs, targets)

        @staticmethod
        def backward(context, gradient):
            (outputs,) = context.saved_tensors
            return gradient * (outputs.softmax(1) - functional.one_hot(targets, 10)) / len(targets)

    return Own.apply(outputs)


def with_a_second_term(outputs, inputs, targets):
    return entropy(outputs, inputs, targets) + 0.1 * functional.mse_loss(outputs, inputs[:, :10])


def test_what_is_looked_at_leaves_no_gap(rows):
    assert watched(rows, entropy) == ()


@pytest.mark.parametrize(
    ("options", "gaps"),
    [
        ({"loss": entropy_of_another_graph}, ("the loss is of no known kind", NO_TARGETS)),
        ({"loss": with_a_second_term}, (NO_TARGETS,)),
        (
            {"loss": with_a_second_term, "tells": {"targets": None}},
            ("the loss has 2 terms, and the targets of one were passed",),
        ),
        (
            {"loss": entropy, "diagnosis": False},
            ("the loss of all 40 steps was not seen", "causes were not looked for (diagnosis=False)"),
        ),
        (
            {"loss": entropy, "validate": float("nan")},
            ("the validation loss was NaN or infinite at all 39 validations",),
        ),
    ],
    ids=["unknown", "terms", "terms told", "switched off", "validation"],
)
def test_what_was_not_looked_at_is_a_gap(rows, options, gaps):
    assert watched(rows, **options) == gaps


@pytest.mark.parametrize("targets", [torch.empty(0), torch.eye(3).to_sparse()], ids=["empty", "sparse"])
def test_targets_that_hold_no_values_are_none(rows, targets):
    assert NO_TARGETS in watched(rows, entropy_of_another_graph, tells={"targets": targets})


def test_layers_that_hooks_do_not_see_are_a_gap(rows):
    def of_weights(model):
        first, _, last = model
        return lambda inputs: functional.linear(functional.linear(inputs, first.weight, first.bias).relu(), last.weight)

    assert "the outputs of all 3 layers were never seen (0, 1, 2)" in watched(rows, entropy, call=of_weights)


def test_another_models_training_in_the_loop_is_a_gap(rows):
    model, other = network(), network()
    first, second = (torch.optim.Adam(one.parameters(), lr=1e-3) for one in (model, other))
    with stepscope.watch(model, first, max_overhead=None) as session:
        for _ in range(40):
            for one, optimizer in ((model, first), (other, second)):
                inputs, targets = batch(rows)
                optimizer.zero_grad()
                functional.cross_entropy(one(inputs), targets).backward()
                optimizer.step()
    assert session.report().verdict.gaps == (OF_PASSES,)


def test_steps_of_an_optimizer_that_is_not_watched_are_a_gap(rows):
    model = network()
    mine, other = (torch.optim.Adam(model.parameters(), lr=1e-3) for _ in range(2))
    with stepscope.watch(model, mine, max_overhead=None) as session:
        for step in range(90):
            inputs, targets = batch(rows)
            model.zero_grad()
            functional.cross_entropy(model(inputs), targets).backward()
            (other if 30 <= step < 60 else mine).step()
    assert "no step followed 30 backward passes (another optimizer?)" in session.report().verdict.gaps


@pytest.mark.parametrize(("skipped", "is_gap"), [(5, False), (6, True)])
def test_steps_that_are_told_and_not_taken_are_a_gap(rows, skipped, is_gap):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer, max_overhead=None) as session:
        for step in range(40):
            inputs, targets = batch(rows)
            functional.cross_entropy(model(inputs), targets).backward()
            session.step(targets=targets)
            if step >= 2 * skipped or step % 2:
                optimizer.step()
            optimizer.zero_grad()
    expected = f"{skipped} of 40 steps were told before the optimizer had taken the one before (expected one session."
    assert str(session.report().verdict.gaps).count(expected) == is_gap


def test_a_closure_that_tells_each_of_its_calls_loses_no_gradients(rows):
    model = network()
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=5)
    with stepscope.watch(model, optimizer, max_overhead=None) as session:
        for _ in range(20):
            inputs, targets = batch(rows)

            def closure(inputs=inputs, targets=targets):
                optimizer.zero_grad()
                loss = functional.cross_entropy(model(inputs), targets)
                loss.backward()
                session.step(loss, targets=targets)
                return loss

            optimizer.step(closure)
    report = session.report()
    assert not report.causes
    assert "80 of 100 steps were told before the optimizer had taken the one before" in str(report.verdict.gaps)


def test_a_stored_run_tells_the_gaps_of_its_session(rows, tmp_path, capsys):
    model = network()
    model[0].weight.requires_grad_(False)
    optimizer = torch.optim.Adam([one for one in model.parameters() if one.requires_grad], lr=1e-3)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, stepscope.watch(model, optimizer, run=run) as session:
        for _ in range(5):
            inputs, targets = batch(rows)
            optimizer.zero_grad()
            functional.cross_entropy(model(inputs), targets).backward()
            optimizer.step()
    gaps = session.report().verdict.gaps
    assert len(gaps) == 2
    for arguments in (["diagnose"], ["diagnose", "--json"]):
        with pytest.raises(SystemExit) as ended:
            main([*arguments, str(tmp_path / "run")])
        assert not ended.value.code
        printed = capsys.readouterr().out
        if "--json" in arguments:
            assert json.loads(printed)["gaps"] == list(gaps)
        else:
            assert [line for line in printed.splitlines() if line.startswith("Not checked")] == [
                f"Not checked: {gap}" for gap in gaps
            ]


def test_a_run_without_a_session_is_told_from_one_that_is_healthy(tmp_path, capsys):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(50):
            run.scalar("loss", 2.3 / (step + 1), step=step)
    with pytest.raises(SystemExit):
        main(["diagnose", str(tmp_path / "run")])
    assert "Not checked: what a session sees, as none has observed this training" in capsys.readouterr().out
