"""Where a training runs: versions, machine, command, seeds and switches, as a run's folder keeps them."""

import os
import platform
import sys
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, TypeAlias, cast, get_args

from tracker_adapters.errors import RunError
from tracker_adapters.redaction import redact

from stepscope.runs.process_settings import settings_of_process

_PACKAGES = ("torch", "numpy", "lightning", "transformers", "accelerate")
_LONGEST_COMMAND = 2000
VARIABLE = "STEPSCOPE_ENVIRONMENT"
Recorded: TypeAlias = Literal["on", "process", "off"]
"""``process`` records what this process knows by itself, and asks neither Git nor for all packages."""


def recorded() -> Recorded:
    """Returns what is recorded, as ``STEPSCOPE_ENVIRONMENT`` says; raises RunError for another value."""
    said = os.environ.get(VARIABLE, "").lower() or "on"
    if said not in get_args(Recorded):
        raise RunError(
            f"the environment variable {VARIABLE} is {said!r}; expected one of {', '.join(get_args(Recorded))}"
        )
    return cast("Recorded", said)


def ranks_of_launcher() -> dict[str, str]:
    """Returns as ``ranks`` how many a launcher starts; nothing where it starts one, or says nothing."""
    ranks = os.environ.get("WORLD_SIZE") or os.environ.get("SLURM_NTASKS", "")
    return {"ranks": ranks} if ranks.isdigit() and ranks != "1" else {}


def environment_of_process() -> dict[str, str]:
    """Returns what is known without starting a process or importing a package; secrets are replaced by ``***``.

    ``python``, ``platform``, ``host``, ``processors``, ``command``, ``folder``, ``commit`` of the Git repository that
    the working folder lies in, ``ranks`` where a launcher starts several, ``stepscope``, the versions of torch and
    others that are imported already, and what ``settings_of_process`` returns.
    """
    machine = platform.uname()
    found = {
        "python": platform.python_version(),
        "platform": f"{machine.system} {machine.release} {machine.machine}",
        "host": machine.node,
        "processors": str(os.cpu_count() or ""),
        "command": redact(" ".join(sys.argv))[:_LONGEST_COMMAND],
    }
    with suppress(OSError):  # the working folder may be gone
        found |= {"folder": str(Path.cwd()), "commit": _commit(Path.cwd())}
    with suppress(PackageNotFoundError):
        found["stepscope"] = version("stepscope")
    found |= {name: str(getattr(sys.modules.get(name), "__version__", "")) for name in _PACKAGES}
    found |= ranks_of_launcher()
    found |= settings_of_process()
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    with suppress(Exception):  # asking a device that nobody uses yet would start it
        if cuda is not None and cuda.is_initialized():
            found["devices"] = ", ".join(cuda.get_device_name(index) for index in range(cuda.device_count()))
    return {name: value for name, value in found.items() if value}


def _commit(folder: Path) -> str:
    """The commit that is checked out, read from Git's files; empty outside a repository."""
    with suppress(OSError, ValueError):
        for place in (folder, *folder.parents):
            git = place / ".git"
            if git.is_file():  # a work tree of its own
                git = (place / _text(git).removeprefix("gitdir:").strip()).resolve()
            if not git.is_dir():
                continue
            head = _text(git / "HEAD")
            if not head.startswith("ref: "):
                return head[:40]
            name = head.removeprefix("ref: ")
            common = git / "commondir"
            home = (git / _text(common)).resolve() if common.is_file() else git
            if (home / name).is_file():
                return _text(home / name)[:40]
            packed = _text(home / "packed-refs").splitlines() if (home / "packed-refs").is_file() else []
            return next((line[:40] for line in packed if line.endswith(f" {name}")), "")
    return ""


def _text(file: Path) -> str:
    return file.read_text(encoding="utf-8").strip()
