"""What ``import stepscope`` says where it cannot work, and what it shows."""

import subprocess
import sys

import pytest

import stepscope


def run_script(folder, code):
    (folder / "train.py").write_text(code, encoding="utf-8")
    return subprocess.run(
        [sys.executable, "train.py"], cwd=folder, capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize("name", ["stability", "debuggers"])
@pytest.mark.parametrize(
    "is_imported", [pytest.param(False, id="beside"), pytest.param(True, id="imported", marks=pytest.mark.slow)]
)
@pytest.mark.parametrize("file", ["{}.py", "{}/__init__.py"], ids=["module", "package"])
def test_a_file_that_hides_a_part_is_named_with_the_way_out(tmp_path, name, file, is_imported):
    path = tmp_path / file.format(name)
    path.parent.mkdir(exist_ok=True)
    path.write_text("x = 1\n", encoding="utf-8")
    done = run_script(tmp_path, f"import {name}, stepscope" if is_imported else "import stepscope")
    hidden_by = path.parent if path.name == "__init__.py" else path
    assert done.returncode == 1
    assert f"ImportError: {hidden_by} hides the package '{name}'" in done.stderr
    assert f"Rename it, for example to my_{hidden_by.name}" in done.stderr


@pytest.mark.parametrize("name", ["stability", "debuggers"])
def test_a_folder_of_results_hides_nothing(tmp_path, name):
    (tmp_path / name).mkdir()  # without __init__.py
    done = run_script(tmp_path, f"import stepscope, {name}, {name}.errors; print({name}.__all__ != [])")
    assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr


def test_a_folder_of_results_that_an_editable_installation_lost_to_is_named(tmp_path):
    (tmp_path / "stability").mkdir()
    code = "import sys, types\nsys.modules['stability'] = types.ModuleType('stability')\n"
    done = run_script(
        tmp_path, code + f"sys.modules['stability'].__path__ = [{str(tmp_path / 'stability')!r}]\nimport stepscope"
    )
    assert done.returncode == 1
    assert f"ImportError: the folder {tmp_path / 'stability'} was imported as 'stability'" in done.stderr
    assert "Import stepscope first, or rename the folder" in done.stderr


@pytest.mark.parametrize("package", ["stepscope", "debuggers", "stability", "tracker_adapters"])
def test_windows_is_told_at_the_import(tmp_path, package):
    use = {"debuggers": "debuggers.PageReader", "stability": "stability.GradientClippingConfig"}.get(package, package)
    done = run_script(tmp_path, f"import sys; sys.platform = 'win32'\nimport {package}\n{use}")
    assert done.returncode == 1
    assert "ImportError: stepscope needs a POSIX system" in done.stderr.splitlines()[-1]
    assert "WSL 2" in done.stderr


def test_pictures_are_recorded_and_exported_where_no_extra_is_installed(tmp_path):
    """Figures and images of Pillow come with their packages, and arrays need neither."""
    extras = ["PIL", "matplotlib", "torch", "google_crc32c", "mlflow", "wandb", "pyarrow", "fsspec"]
    code = f"""
import sys
sys.modules |= dict.fromkeys({extras})
import numpy, stepscope
with stepscope.open_run("run", sinks=["local"], delivery="thread") as run:
    run.image("picture", numpy.zeros((4, 5, 3), "uint8"), layout="HWC", step=0)
(picture,) = stepscope.read_run("run").images("picture")
print(picture.width, picture.height)
"""
    done = run_script(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "5 4\n"), done.stderr
    assert len(list((tmp_path / "run" / "local").rglob("*.png"))) == 1


@pytest.mark.slow
def test_the_first_watched_step_does_not_wait_for_what_is_needed_later(tmp_path):
    kept_out = {"joblib", "ml_dtypes"} | {
        "debuggers.conditional_hooks.builder", "debuggers.diagnosis.rules", "stepscope.report_pages.html"
    }  # fmt: skip
    code = f"""
import sys, torch, stepscope
model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
session = stepscope.watch(model, optimizer, config="full", run=stepscope.open_run("run", sinks=[]))
model(torch.ones(4, 2)).mean().backward()
optimizer.step()
print(sorted({kept_out} & set(sys.modules)))
"""
    done = run_script(tmp_path, code)
    assert (done.returncode, done.stdout) == (0, "[]\n"), done.stderr


def test_dir_lists_what_there_is_for_users():
    names = dir(stepscope)
    assert set(stepscope.__all__) <= set(names)
    assert not {"TYPE_CHECKING", "Any", "Path", "check_parts"} & set(names)
    assert all(hasattr(stepscope, name) for name in names)
    assert stepscope.__version__
