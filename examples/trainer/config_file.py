"""Reads a configuration and makes objects from it."""

import runpy
from argparse import ArgumentParser
from pathlib import Path
from typing import Any


def config_of_command_line(description: str | None) -> dict[str, Any]:
    """Returns the configuration that the command line names by ``--config-filepath``."""
    parser = ArgumentParser(description=description)
    parser.add_argument(
        "--config-filepath", type=Path, required=True, help="a Python file that defines config; it is run"
    )
    return load_config(parser.parse_args().config_filepath)


def load_config(path: Path) -> dict[str, Any]:
    """Runs a Python file and returns the ``config`` that it defines.

    The file is code. It is run because you name it: name only files that you would also run as programs.
    """
    config = runpy.run_path(str(path)).get("config")
    if not isinstance(config, dict):
        raise TypeError(f"{path}: config is {config!r}; expected a Python file that defines config = {{...}}")
    return config


def build(config: dict[str, Any], **others: Any) -> Any:
    """Makes an object from ``{"class": ..., "args": {...}}`` and what only the caller knows."""
    return config["class"](**config.get("args", {}), **others)
