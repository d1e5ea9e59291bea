"""What ``stepscope ranks`` says of several ranks."""

import shutil

import pytest
from click.testing import CliRunner

import stepscope
from stepscope.commands.ranks_command import command


@pytest.mark.parametrize(
    ("steps", "says"),
    [(0, "Nothing was compared: no rank took a step."), (3, "The ranks agree in all that was compared.")],
)
def test_ranks_without_a_step_are_not_said_to_agree(tmp_path, steps, says):
    for rank in (0, 1):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank) as run:
            for step in range(steps):
                run.scalar("step_ms", 1.0, step=step)
                run.scalar("loss", 1.0, step=step)

    told = CliRunner().invoke(command, [str(tmp_path / "run")]).output
    assert says in told
    assert told.count("compared") == 1


def test_a_run_without_a_store_is_not_said_to_have_a_rank(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
    assert CliRunner().invoke(command, [str(tmp_path / "run")]).output == "One rank.\n"

    shutil.rmtree(tmp_path / "run" / "store")

    assert CliRunner().invoke(command, [str(tmp_path / "run")]).output.startswith("No rank has a store: ")
