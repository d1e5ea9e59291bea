"""The packages and the Git state of a training, found by a process of its own, which runs this module.

It reads a JSON object with ``folder`` and ``paths`` (the training's ``sys.path``), and writes one: ``environment``,
names with texts, and ``patch``, what differs from the commit. Git runs no program of a repository's configuration,
takes no lock and writes nothing.
"""

import hashlib
import json
import os
import re
import select
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tracker_adapters.child_process import step_back
from tracker_adapters.redaction import redact

LIMIT_S = 20.0
"""How long Git may take in all."""
MOST_PATCH_BYTES = 256 * 1024
_MOST_OUTPUT_BYTES = 1024 * 1024
_MOST_PACKAGES = 2000
_DISTRIBUTION = re.compile(r"(?P<name>[^-]+)-(?P<version>[^-]+)(?:-py[\d.]+)?\.(?:dist|egg)-info")
_QUIET = {
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
    "GIT_NO_LAZY_FETCH": "1",
    "LC_ALL": "C",
}
_NO_PROGRAMS: tuple[str, ...] = (
    "core.fsmonitor=false",
    "core.hooksPath=/dev/null",
    "diff.external=",
    "submodule.recurse=false",
)


def packages(paths: Iterable[str]) -> list[str]:
    """Returns what is installed in folders, as ``name==version``, sorted; the first folder with a name counts.

    It goes by the names of folders: reading the metadata of hundreds of packages takes half a second.
    """
    found: dict[str, str] = {}
    for path in paths:
        try:
            names = [entry.name for entry in os.scandir(path)]
        except OSError:  # a ZIP file, or a folder that is gone
            continue
        for name in names:
            if match := _DISTRIBUTION.fullmatch(name):
                found.setdefault(re.sub(r"[-_.]+", "-", match["name"]).lower(), match["version"])
    return [f"{name}=={found[name]}" for name in sorted(found)][:_MOST_PACKAGES]


class Repository:
    """The Git work tree that a folder lies in."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._deadline = time.monotonic() + LIMIT_S
        self._settings = _NO_PROGRAMS
        names = self._git("config", "--name-only", "--get-regexp", r"^filter\.").splitlines()
        filters = {name.rpartition(".")[0] for name in names}
        self._settings += tuple(f"{name}.{key}=" for name in sorted(filters) for key in ("clean", "process"))
        self._settings += tuple(f"{name}.required=false" for name in sorted(filters))

    def state(self) -> tuple[dict[str, str], str]:
        """Returns what is known of the work tree, and what differs from its commit; nothing outside of one."""
        if not self._git("rev-parse", "--is-inside-work-tree").startswith("true"):
            return {}, ""
        found = {"branch": self._git("symbolic-ref", "--short", "-q", "HEAD").strip()}
        found["repository"] = redact(self._git("config", "--get", "remote.origin.url").strip())
        patch = self._changes(found) if self._git("rev-parse", "-q", "--verify", "HEAD") else ""
        return {name: value for name, value in found.items() if value}, patch

    def _changes(self, found: dict[str, str]) -> str:
        """Returns what differs from the commit, and adds what it is in short."""
        options = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short", "--ignore-submodules=dirty")
        patch = self._git("diff", *options, "HEAD", "--")
        counted = self._git("diff", *options, "--shortstat", "HEAD", "--").strip()
        untracked = self._git("ls-files", "--others", "--exclude-standard", "--full-name", ":/").splitlines()
        found["changes"] = counted or ("none" if self._has_time() else "")
        found["untracked_files"] = str(len(untracked)) if untracked else ""
        if len(patch.encode(errors="replace")) > MOST_PATCH_BYTES:
            patch = patch.encode(errors="replace")[:MOST_PATCH_BYTES].decode(errors="ignore")
            found["changes"] += f"; only the first {MOST_PATCH_BYTES // 1024} KiB are recorded"
        patch = redact(patch)
        found["patch"] = hashlib.sha256(patch.encode()).hexdigest()[:16] if patch else ""
        return patch

    def _has_time(self) -> bool:
        return time.monotonic() < self._deadline

    def _git(self, *arguments: str) -> str:
        """What a command prints, at most a megabyte; empty where it fails or takes too long."""
        settings = [part for setting in self._settings for part in ("-c", setting)]
        command = ["git", "--no-pager", "--no-optional-locks", *settings, *arguments]
        environment = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")} | _QUIET
        try:
            with subprocess.Popen(
                command,
                cwd=self._folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            ) as process:
                return _output_of(process, self._deadline)
        except OSError:  # no Git
            return ""


def _output_of(process: subprocess.Popen[bytes], deadline: float) -> str:
    assert process.stdout is not None
    output = process.stdout.fileno()
    content = b""
    while len(content) <= _MOST_OUTPUT_BYTES:
        left_s = deadline - time.monotonic()
        if left_s <= 0 or not select.select([output], [], [], left_s)[0]:
            process.kill()
            return ""
        piece = os.read(output, 65536)
        if not piece:
            return content.decode(errors="replace") if process.wait() == 0 else ""
        content += piece
    process.kill()
    return content.decode(errors="replace")


def main() -> None:
    """Answers the request on standard input."""
    step_back()
    asked: dict[str, Any] = json.load(sys.stdin)
    environment, patch = Repository(Path(asked["folder"])).state() if asked["folder"] else ({}, "")
    if installed := packages(asked["paths"]):
        environment["packages"] = "\n".join(installed)
    json.dump({"environment": environment, "patch": patch}, sys.stdout)


if __name__ == "__main__":
    main()
