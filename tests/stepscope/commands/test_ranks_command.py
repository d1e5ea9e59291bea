"""What ``stepscope ranks`` says of several ranks."""

import shutil

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

import stepscope
from debuggers.diagnosis.rank_facts import RANK_NAME, Placed, RankFacts, encode_rank
from stepscope.commands.ranks_command import command


@pytest.mark.parametrize(
    ("steps", "is_watched", "says"),
    [
        (0, False, "Nothing was compared: no rank took a step."),
        (3, False, "Only losses, times and how far the ranks came were compared: none of them was watched."),
        (3, True, "The ranks agree in all that was compared."),
    ],
)
def test_ranks_are_said_to_agree_only_in_what_was_compared(tmp_path, steps, is_watched, says):
    facts = RankFacts(rank=0, world_size=2, placed=(Placed(elements={"w": 4}),))
    for rank in (0, 1):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank) as run:
            if is_watched:
                run.text(RANK_NAME, encode_rank(replace(facts, rank=rank)), step=0)
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
