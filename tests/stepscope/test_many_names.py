"""A run of very many names: the commands that list them take time in proportion, and a line for each."""

import time

import pytest
from click.testing import CliRunner

import stepscope
from stepscope.cli import main
from stepscope.text_table import LAID_OUT_ROWS

NAMES = 5000


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("names") / "run"
    with stepscope.open_run(folder, sinks=[]) as run:
        for number in range(NAMES):
            run.scalar(f"[red]layer{number}/norm", number / 8, step=number)
    assert NAMES > LAID_OUT_ROWS
    return folder


def test_ls_prints_a_line_for_each(run_folder):
    began = time.process_time()
    lines = CliRunner().invoke(main, ["ls", str(run_folder)]).output.splitlines()
    assert time.process_time() - began < 3  # laid out for a terminal they take seven
    assert lines[:2] == ["run (finished)", lines[1]]
    assert lines[1].split() == ["name", "kind", "count", "last", "step", "last", "value"]
    assert len(lines) == 2 + NAMES
    assert [line.split() for line in lines if "layer4321/" in line] == [
        ["[red]layer4321/norm", "scalar", "1", "4321", "540.125"]
    ]
    assert len({len(line) for line in lines[1:]}) == 1  # set right


def test_query_prints_a_line_for_each(run_folder):
    answer = CliRunner().invoke(main, ["query", str(run_folder), "select name, last_value from series order by name"])
    lines = answer.output.splitlines()
    assert len(lines) == 1 + NAMES
    assert lines[1].split() == ["[red]layer0/norm", "0"]
