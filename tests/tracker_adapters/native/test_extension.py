"""Whether the compiled code is built, damaged or switched off: each is told, and nothing needs it."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tracker_adapters
from tracker_adapters.native import extension
from tracker_adapters.native.extension import kernels, why_not

HOME = Path(tracker_adapters.__file__).parent
ROOT = Path(__file__).parents[3]
STATE = """
from tracker_adapters.native.extension import instructions, kernels, why_not
print(kernels() is not None, instructions(), why_not(), sep="|")
"""
MEASURING = """
import logging, torch
from debuggers.measurement.measure import summarize
from stepscope.doctor import examine
logging.basicConfig(format="%(message)s")
print(*(summarize([torch.arange(5.0)])[0].mean for _ in range(2)))
print(next(dict(rows) for title, rows in examine() if title == "training")["measuring"])
"""


def run(home, code, *emulator, **variables):
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(home), str(ROOT)])} | variables
    command = [*emulator, sys.executable, "-c", code]
    return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=True)


@pytest.fixture
def extension_file(tmp_path):
    """That of a copy of the package, with its bytecode, which takes seconds to compile."""
    shutil.copytree(HOME, tmp_path / HOME.name)
    if kernels() is None:
        pytest.skip(why_not())
    return next((tmp_path / HOME.name / "native").glob("_kernels*.so"))


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_it_is_built_where_there_is_a_compiler():
    assert list((HOME / "native").glob("_kernels*.so")), "build it with: make native"


def test_it_is_used_with_the_widest_instruction_set(extension_file):
    native = kernels()
    assert native is not None
    found = run(extension_file.parents[2], STATE, STEPSCOPE_NATIVE="").stdout
    assert found == f"True|{native.instruction_sets()[-1]}|\n"


@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        ("portable", "True|portable|"),
        ("off", "False||STEPSCOPE_NATIVE=off"),
        ("fast", "False||STEPSCOPE_NATIVE=fast; expected off, portable"),
    ],
)
def test_the_variable_chooses(extension_file, wanted, expected):
    assert run(extension_file.parents[2], STATE, STEPSCOPE_NATIVE=wanted).stdout.startswith(expected)


@pytest.mark.slow
@pytest.mark.skipif(
    platform.machine() != "x86_64" or not shutil.which("qemu-x86_64"), reason="needs qemu-user on x86-64"
)
def test_a_processor_without_avx_gets_portable_code(extension_file):
    emulated = ("qemu-x86_64", "-cpu", "Nehalem")
    found = run(extension_file.parents[2], STATE, *emulated, STEPSCOPE_NATIVE="").stdout
    assert found == "True|portable|\n"


@pytest.mark.slow
def test_nothing_is_written_beside_the_package(extension_file):
    package = extension_file.parents[1]
    before = {path: path.stat().st_mtime_ns for path in package.rglob("*")}
    done = run(package.parent, MEASURING, STEPSCOPE_NATIVE="", PYTHONDONTWRITEBYTECODE="1")
    assert "with compiled code" in done.stdout
    assert {path: path.stat().st_mtime_ns for path in package.rglob("*")} == before


@pytest.mark.slow
def test_where_it_was_not_built_torch_measures_and_it_is_told_once_with_the_remedy(extension_file):
    extension_file.unlink()
    done = run(extension_file.parents[2], MEASURING, STEPSCOPE_NATIVE="")
    how = f"with torch operations, tens of times slower: the compiled code was not built; {extension.REMEDY}"
    assert done.stdout.splitlines() == ["2.0 2.0", how]
    assert done.stderr.splitlines() == [f"measures {how}"]


def damaged(content):
    of_arm = bytearray(content)
    of_arm[18:20] = (183).to_bytes(2, "little")  # the field of the processor
    cut = {f"{share} of 4": content[: len(content) * share // 4] for share in (0, 1, 2, 3)}
    half = len(content) // 2 // 4096 * 4096
    return {
        **cut,
        "text": b"not a program",
        "zeros": bytes(len(content)),
        "zeros at the end": content[:half] + bytes(len(content) - half),
        "a block of zeros": content[:half] + bytes(4096) + content[half + 4096 :],
        "its table far away": content[:32] + b"\xff" * 7 + b"\x7f" + content[40:],
        "a table of nothing": content[:54] + bytes(2) + content[56:],
        "another processor's": bytes(of_arm),
    }


@pytest.mark.skipif(sys.platform != "linux", reason="made of ELF files")
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(
            damage, marks=() if damage in ("2 of 4", "zeros at the end", "another processor's") else pytest.mark.slow
        )
        for damage in damaged(bytes(8192))
    ],
)
def test_a_damaged_file_is_left_alone(extension_file, damage):
    extension_file.write_bytes(damaged(extension_file.read_bytes())[damage])
    used, _, why = run(extension_file.parents[2], STATE, STEPSCOPE_NATIVE="").stdout.split("|")
    assert used == "False"
    assert str(extension_file) in why
    assert why.rstrip().endswith(extension.REMEDY)
