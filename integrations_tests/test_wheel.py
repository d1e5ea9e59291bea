"""The built wheel: what is in it, and that it can lie beside the published package called ``adapters``."""

import os
import shutil
import subprocess
import sys
import zipfile

import pytest
from viewer_pages import BUILT
from wheels import ROOT, copy_of_sources, pip

pytestmark = pytest.mark.slow


def test_it_holds_the_four_packages_typed_and_no_adapters(wheel):
    names = zipfile.ZipFile(wheel).namelist()
    top = {name.split("/")[0] for name in names}
    metadata = next(name for name in top if name.endswith(".dist-info"))
    assert top == {"tracker_adapters", "debuggers", "stability", "stepscope", metadata}
    for package in ("tracker_adapters", "debuggers", "stability", "stepscope"):
        assert f"{package}/py.typed" in names
        sources = {path.relative_to(ROOT).as_posix().removeprefix("adapters/") for path in modules_of(package)}
        assert sources == {name for name in names if name.startswith(f"{package}/") and name.endswith(".py")}
    assert f"{metadata}/licenses/LICENSE" in names


@pytest.mark.skipif(not BUILT.is_file(), reason="the viewer's page is not built: make page")
def test_it_holds_the_built_page_and_none_of_its_sources(wheel):
    page = {
        name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("stepscope/viewer/") if ".py" not in name
    }
    built = {f"stepscope/viewer/built/{name}" for name in ("page.js", "page.css", "licences.txt", "sources.sha256")}
    assert page == {"stepscope/viewer/page/index.html", *built}
    texts = zipfile.ZipFile(wheel).read("stepscope/viewer/built/licences.txt").decode()
    assert texts.startswith("uplot 1.6")
    assert "Permission is hereby granted, free of charge" in texts


@pytest.mark.skipif(shutil.which("cc") is None, reason="there is no C compiler")
def test_it_holds_the_compiled_code_for_each_python_from_3_11_on(wheel):
    assert "-cp311-abi3-" in wheel.name
    binaries = [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith((".so", ".c", ".h"))]
    assert binaries == ["tracker_adapters/native/_kernels.abi3.so"]


def test_without_a_compiler_it_is_built_without_the_compiled_code(tmp_path):
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(tmp_path)]
    done = pip("wheel", *options, str(copy_of_sources(tmp_path)), CC="/none/cc")
    assert done.returncode == 0, done.stderr
    assert not [name for name in zipfile.ZipFile(*tmp_path.glob("*.whl")).namelist() if name.endswith(".so")]


def test_it_can_be_installed_beside_the_published_adapters(wheel, tmp_path):
    beside = pip("install", "--quiet", "--no-deps", "--target", str(tmp_path), "adapters")
    if beside.returncode != 0:
        pytest.skip(f"the published package cannot be fetched here: {beside.stderr.strip()[-200:]}")
    theirs = {path for path in tmp_path.rglob("*") if path.is_file()}
    done = pip("install", "--quiet", "--no-deps", "--target", str(tmp_path), "--upgrade", str(wheel))
    assert done.returncode == 0, done.stderr
    assert theirs <= {path for path in tmp_path.rglob("*") if path.is_file()}
    script = (
        "import importlib.util, pathlib, tracker_adapters, stepscope\n"
        "assert importlib.util.find_spec('adapters').origin\n"
        "with stepscope.open_run('run', sinks=['local']) as run: run.scalar('loss', 1.0, step=0)\n"
        "assert pathlib.Path('run/local/scalars.csv').exists()\n"
        "print(tracker_adapters.__file__)"
    )
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    imported = subprocess.run(
        [sys.executable, "-c", script],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert imported.stdout.startswith(str(tmp_path))


def modules_of(package):
    return list((ROOT / ("adapters" if package == "tracker_adapters" else ".") / package).rglob("*.py"))
