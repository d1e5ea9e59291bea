"""Alerts are shown on standard error: the first of each name, from level warning on."""

import logging

import pytest
import torch
from tracker_adapters.artifacts import Alert

import stepscope
from stepscope.runs.terminal_alerts import TerminalAlerts


def alert(name="exploding_gradient", message="fc1: norm 3e5", level="error", step=7):
    return Alert(name=name, message=message, level=level, step=step)


def printed(capsys):
    """What was printed about trainings; the first session of a process has more to say."""
    return [line for line in capsys.readouterr().err.splitlines() if "measuring code" not in line]


def test_an_alert_says_what_where_and_where_to_look(capsys):
    TerminalAlerts("runs/exp1").tell(alert())

    assert printed(capsys) == [
        "stepscope: error: exploding_gradient: fc1: norm 3e5 at step 7 "
        "(recorded in runs/exp1; later alerts of this name are recorded, not printed)"
    ]


def test_what_a_terminal_would_obey_is_shown(capsys):
    TerminalAlerts("runs/exp1").tell(alert("fdp\u202egpj", "\x1b[2Jtwo\nlines"))

    told = capsys.readouterr().err
    assert told.startswith("stepscope: error: fdp\\u202egpj: \\x1b[2Jtwo lines at step 7 (")


def test_a_name_is_printed_once_and_then_logged(capsys, caplog):
    alerts = TerminalAlerts("runs/exp1")
    with caplog.at_level(logging.INFO):
        for step in range(5):
            alerts.tell(alert(step=step))
            alerts.tell(alert("D/exploding_gradient", step=step))

    assert len(printed(capsys)) == 2
    assert len(caplog.records) == 8
    assert {record.levelname for record in caplog.records} == {"INFO"}


def test_information_is_only_logged(capsys, caplog):
    with caplog.at_level(logging.INFO):
        TerminalAlerts("runs/exp1").tell(alert("checkpoint", "saved", level="info"))

    assert printed(capsys) == []
    assert [record.message for record in caplog.records] == ["checkpoint: saved at step 7"]


@pytest.mark.parametrize(("name", "shown"), [("exploding_gradient", False), ("non_finite_loss", True)])
def test_other_ranks_print_what_is_their_own(capsys, name, shown):
    TerminalAlerts("runs/exp1", rank=3).tell(alert(name))

    lines = printed(capsys)
    assert len(lines) == shown
    assert all(line.startswith("stepscope rank 3: error") for line in lines)


def test_a_run_shows_what_is_emitted_through_all_that_is_derived_from_it(tmp_path, capsys):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scoped("D").at(3).alert("a", "first")
        run.alert("a", "second", step=4, level="error")
        run.alert("a", "third", step=5)
        run.alert("b", "was printed by its maker", step=5, told=True)
        run.alert("c", "all is well", step=6, level="info")

    lines = printed(capsys)
    assert [line.partition(" (recorded")[0] for line in lines] == [
        "stepscope: warning: D/a: first at step 3",
        "stepscope: error: a: second at step 4",
    ]
    assert len(stepscope.read_run(tmp_path / "run").alerts()) == 5


def train(run, *, lr, steps=30):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=lr)
    with stepscope.watch(model, optimizer, run=run):
        for _ in range(steps):
            optimizer.zero_grad()
            (model(torch.randn(8, 4)) - 1).square().mean().backward()
            optimizer.step()


def test_a_healthy_training_prints_its_verdict_and_nothing_else(tmp_path, capsys):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, lr=0.1)

    lines = printed(capsys)
    assert len(lines) == 1, lines
    (line,) = lines
    assert line.startswith("stepscope: healthy (score 1.00). Checked: the gradients of all 30 steps")
    assert line.index("Overhead:") > line.index("Checked: ")


def test_a_training_that_explodes_prints_each_kind_once_and_its_verdict(tmp_path, capsys):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, lr=30, steps=60)

    *alerts, verdict = printed(capsys)
    assert any(line.startswith("stepscope: error: exploding_gradient: ") for line in alerts)
    assert len(alerts) == len({line.split(": ")[2] for line in alerts})
    assert verdict.startswith("stepscope: critical (score 0.")
    assert "exploding_gradient (" in verdict


def test_without_a_run_findings_go_to_the_log(caplog):
    train(None, lr=30, steps=60)

    assert "exploding_gradient" in {record.message.partition(":")[0] for record in caplog.records}
