"""Every command that README, documentation and ``--help`` print works as printed."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import click
import numpy as np
import pytest
from page_code import PAGES, ROOT

import stepscope
from stepscope.cli import main

PROGRAMS = ("stepscope", "tensorboard", "mlflow", "wandb", "python", "make", "tox")
PLACEHOLDERS = ("RUN", "<")
ELSEWHERE = re.compile(r"https?://|s3://")
"""What other tests start servers for: here only the usage is looked at."""


def printed():
    """Yields each command with the page that prints it."""
    for page in PAGES:
        text = page.read_text(encoding="utf-8")
        for kind, block in re.findall(r"^```(sh|console)\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL):
            for line in block.replace("\\\n", " ").splitlines():
                if kind == "sh" or line.startswith("$ "):
                    yield page.name, line.removeprefix("$ ")
        text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
        for inline in re.findall(r"`([^`\n]+)`", text):
            if inline.split()[0] in PROGRAMS and " " in inline:
                yield page.name, inline
    context = click.Context(main)
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        assert command is not None
        for line in (command.epilog or "").splitlines():
            if line.strip().startswith("stepscope "):
                yield f"stepscope {name} --help", line.strip()


def commands():
    found = [(where, shlex.join(shlex.split(line, comments=True))) for where, line in printed()]
    return [(where, line) for where, line in dict.fromkeys(found) if line and not any(p in line for p in PLACEHOLDERS)]


COMMANDS = commands()
OURS = sorted({line for _, line in COMMANDS if line.startswith("stepscope ")})
OTHERS = sorted({line for _, line in COMMANDS if not line.startswith("stepscope ")})


@pytest.fixture(scope="module")
def folder(readme_folder, tmp_path_factory):
    """A working folder in which somebody has followed the README, and trained with another program before."""
    folder = tmp_path_factory.mktemp("first") / "day"
    shutil.copytree(readme_folder, folder, symlinks=True)
    for name in ("2026-01-31", "seed0"):
        with stepscope.open_run(folder / "runs" / name, sinks=[]) as run:
            run.log({"loss": 0.5, "weights": np.arange(3.0)}, step=0)
    logged = folder / "lightning_logs" / "version_0"
    with stepscope.open_run(logged, sinks=["tensorboard"], delivery="thread") as run:
        run.scalar("loss", 0.5, step=0)
    shutil.rmtree(logged / "store")
    (logged / "run.json").unlink()
    (folder / "package").mkdir()
    for script in ("train.py", "package/train.py"):
        (folder / script).write_text("print('trained')\n")
    return folder


def test_there_are_commands_to_look_at():
    assert len(OURS) > 15
    assert any("--follow" in line for line in OURS)
    with_arguments = {line.split()[1] for line in OURS if line.count(" ") > 1}
    # It has tests of its own, without arguments.
    assert with_arguments == {*main.list_commands(click.Context(main))} - {"demo"}


@pytest.mark.parametrize("line", OURS)
def test_a_command_of_ours_works(line, folder, tmp_path, warm_python):
    """In a fork that has imported torch. ``test_command_line.py`` starts commands in processes of their own."""
    name, *arguments = shlex.split(line)[1:]
    if not arguments and name != "ls":  # the name of a command, in a sentence
        arguments = ["--help"]
    serves = name == "view" and not {"--export", "--help"} & {*arguments}  # until Ctrl-C
    if ELSEWHERE.search(line) or serves:
        command = main.get_command(click.Context(main), name)
        assert command is not None
        command.make_context(name, arguments)
        return
    shutil.copytree(folder, tmp_path / "day", symlinks=True)
    done = warm_python.run_stepscope([name, *arguments], folder=tmp_path / "day")
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
    assert "no name matches" not in done.stderr


@cache
def commands_of_wandb():
    listing = "from wandb.cli.cli import cli; print(*cli.commands)"
    done = subprocess.run([sys.executable, "-c", listing], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("line", OTHERS)
def test_what_another_command_names_is_there(line):
    program, *arguments = shlex.split(line)
    if program == "make":
        assert re.search(rf"^{arguments[0]}:", (ROOT / "Makefile").read_text(encoding="utf-8"), flags=re.MULTILINE)
    elif program == "python" and arguments[0] == "-m":
        assert importlib.util.find_spec(arguments[1]) is not None
    elif program == "python":
        assert any((ROOT / folder / arguments[0]).is_file() for folder in (".", "examples/trainer"))
    elif program == "cd":
        assert (ROOT / arguments[0]).is_dir()
    elif program == "wandb":
        assert arguments[0] in commands_of_wandb()
    else:
        assert shutil.which(program, path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))


def test_a_shell_may_expand_the_pattern(folder):
    done = subprocess.run(
        ["bash", "-c", f"{shlex.quote(sys.executable)} -m stepscope gc runs/* --max-bytes 500MB --dry-run"],
        cwd=folder, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "runs/mlflow.db" not in done.stdout
    assert done.stdout.count("nothing to do") >= 4
