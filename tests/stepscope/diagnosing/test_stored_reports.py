"""The verdict that is shown of a run is that of its latest attempt, and of every rank that says another thing."""

import html
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner

import stepscope
from stepscope.cli import main
from stepscope.diagnosing.stored_reports import earlier_sessions, stored_reports, verdict_in
from stepscope.report_pages.html import to_html
from stepscope.report_pages.markdown import to_markdown
from stepscope.report_pages.stored_contents import stored_contents
from stepscope.viewer.answers.compare import compared
from stepscope.viewer.notebook import run_card

SOUND, SICK = "healthy (score 1.00)", "critical"


def train(run, *, first_step=0, steps=40, sick=False, output_dir=None):
    torch.manual_seed(0)
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer, run=run, first_step=first_step, output_dir=output_dir):
        for _ in range(steps):
            optimizer.zero_grad()
            inputs = torch.randn(8, 4)
            loss = (model(inputs) - inputs.sum(1, keepdim=True)).square().mean()
            (loss * float("nan") if sick else loss).backward()
            optimizer.step()


def verdicts(path):
    with stepscope.read_run(path) as record:
        return [(report.title, verdict_in(report.text)) for report in stored_reports(record)]


@pytest.mark.parametrize("sick_attempt", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_resumed_run_has_the_verdict_of_its_latest_attempt_wherever_that_ended(tmp_path, sick_attempt):
    for attempt, (first_step, steps) in enumerate([(0, 60), (20, 30)], start=1):
        with stepscope.open_run(tmp_path, sinks=[], resume=attempt > 1) as run:
            train(run, first_step=first_step, steps=steps, sick=attempt == sick_attempt)

    ((title, verdict),) = verdicts(tmp_path)
    assert title == ""
    assert verdict.startswith(SICK if sick_attempt == 2 else SOUND)


@pytest.mark.parametrize(
    ("sick_rank", "titles"),
    [
        (2, ["", "rank 2"]),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in ((None, [""]), (0, ["", "rank 1"]), (1, ["", "rank 1"]))
        ),
    ],
)
def test_ranks_whose_verdict_is_another_one_are_shown_as_well(tmp_path, monkeypatch, sick_rank, titles):
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=rank > 0) as run:
            train(run, sick=rank == sick_rank)

    shown = verdicts(tmp_path / "run")
    assert [title for title, _ in shown] == titles
    assert any(verdict.startswith(SICK) for _, verdict in shown) is (sick_rank is not None)

    monkeypatch.chdir(tmp_path)
    report = CliRunner().invoke(main, ["report", "run"]).output
    assert [line for line in report.splitlines() if line.startswith("run")] == (
        [f"run (rank {titles[1][-1]})" if title else "run" for title in titles] if len(titles) > 1 else []
    )
    listed = CliRunner().invoke(main, ["ls", "."]).output
    assert (SICK in listed) is (sick_rank is not None)


@pytest.mark.slow
def test_each_rank_writes_its_own_files(tmp_path, monkeypatch):
    for rank in range(3):
        monkeypatch.setenv("RANK", str(rank))
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=rank > 0) as run:
            train(run, steps=30 + rank, output_dir=tmp_path / "out")

    for rank, folder in enumerate(("out", "out/rank_1", "out/rank_2")):
        written = json.loads((tmp_path / folder / "report.json").read_text(encoding="utf-8"))
        assert written["coverage"]["steps"] == 30 + rank
        assert (tmp_path / folder / "report.txt").read_text(encoding="utf-8").startswith("Verdict: ")


def test_of_a_run_without_a_report_it_is_said_what_tells_of_it(tmp_path):
    """As of a training that was killed."""
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    printed = CliRunner().invoke(main, ["report", str(tmp_path / "run")]).output
    assert "stepscope diagnose names the causes, and --html FILE writes the page" in " ".join(printed.split())


def test_sessions_before_the_last_one_are_named_with_their_verdicts(tmp_path):
    """As of a run that was resumed: what the last one saw says nothing of them."""
    for attempt in range(3):
        with stepscope.open_run(tmp_path / "run", sinks=[], resume=attempt > 0) as run:
            torch.manual_seed(0)
            model = torch.nn.Linear(4, 2)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
            with stepscope.watch(model, optimizer, run=run):
                for _ in range(5):
                    optimizer.zero_grad()
                    scale = float("nan") if attempt == 1 else 1.0
                    (model(torch.randn(8, 4)).square().mean() * scale).backward()
                    optimizer.step()
    with stepscope.read_run(tmp_path / "run") as record:
        earlier = earlier_sessions(record)
        assert earlier_sessions(record, "D") == []

    assert [line.partition(": ")[0] for line in earlier] == [
        "An earlier session, until step 4", "An earlier session, until step 9"
    ]  # fmt: skip
    assert ": critical" in earlier[1]
    for command in ("diagnose", "report"):
        printed = CliRunner().invoke(main, [command, str(tmp_path / "run")]).output
        assert " ".join(earlier) in " ".join(printed.split())


@pytest.mark.parametrize("killed", [False, True])
def test_the_verdict_of_an_earlier_session_is_not_shown_as_that_of_the_run(tmp_path, killed):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        train(run, sick=True, steps=5)
    script = f"""
import os, signal, sys, torch, stepscope
sys.path.insert(0, {str(Path(__file__).parent)!r})
from test_stored_reports import train
with stepscope.open_run({str(tmp_path / "run")!r}, sinks=[], resume=True) as run:
    if not {killed}:
        train(run)
        sys.exit()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    session = stepscope.watch(model, optimizer, run=run)
    for _ in range(20):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        optimizer.step()
    run.flush_store()
    os.kill(os.getpid(), signal.SIGKILL)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == (-signal.SIGKILL if killed else 0), done.stderr

    def printed(*arguments):
        return " ".join(CliRunner().invoke(main, [*map(str, arguments)]).output.split())

    with stepscope.read_run(tmp_path / "run") as record:
        (report,) = stored_reports(record)
        (content,) = stored_contents(record)
        row = compared(record, [], None)
    assert report.is_last is not killed
    assert [line.partition(":")[0] for line in content.earlier] == ["An earlier session, until step 4"]
    assert content.earlier[0] in html.unescape(to_html(content)) and "An earlier session" in to_markdown(content)
    assert row["verdict"].startswith("earlier session: critical" if killed else "healthy")
    assert row["state"] == ("" if killed else "good")
    assert ("earlier session: critical" in run_card(tmp_path / "run")) is killed
    assert ("earlier session: critical" in printed("ls", tmp_path)) is killed
    told = printed("report", tmp_path / "run")
    assert told.startswith("The last session has stored no report" if killed else "Verdict: healthy")
    assert ("report of an earlier session, until step 4: Verdict: critical" in told) is killed
    assert ("An earlier session, until step 4: critical" in told) is not killed
