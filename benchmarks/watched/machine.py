"""What a figure was measured on."""

import importlib.metadata
import os
import platform
from pathlib import Path

PACKAGES = ("stepscope", "torch", "numpy", "tensorboard", "wandb", "protobuf")


def machine() -> dict[str, object]:
    """Returns processor, cores, load, operating system and the versions that matter; None for what is not installed."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "system": platform.platform(),
        "python": platform.python_version(),
        **{package: _version(package) for package in PACKAGES},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _processor() -> str:
    """The model's name; some virtual machines hide it, so family and model number stand beside it."""
    facts: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), value.strip())
    except FileNotFoundError:
        return platform.processor()
    name = facts.get("model name", platform.machine())
    return f"{name}, family {facts.get('cpu family', '?')}, model {facts.get('model', '?')}"
