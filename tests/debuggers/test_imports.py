"""What needs torch says so; what reads pages does not need it."""

import subprocess
import sys

import pytest

WITHOUT_TORCH = """
import sys

class NoTorch:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "torch":
            raise ModuleNotFoundError("No module named 'torch'", name="torch")

sys.meta_path.insert(0, NoTorch())
"""


def run(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)


def test_reading_and_writing_pages_needs_no_torch():
    modules = "debuggers, debuggers.pages, debuggers.page_files.buffer, debuggers.integration"
    result = run(f"{WITHOUT_TORCH}\nimport {modules}\nassert 'torch' not in sys.modules")
    assert result.returncode == 0, result.stderr


def test_importing_does_not_import_torch():
    result = run("import sys, debuggers, debuggers.base_debugger, debuggers.pages\nassert 'torch' not in sys.modules")
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_measuring_imports_neither_masked_arrays_nor_other_dtypes_nor_kinds_of_artifacts():
    kept_out = {"numpy.ma", "ml_dtypes", "tracker_adapters.kinds", "tracker_adapters.emitter"}
    loads = "import sys, torch\nbefore = set(sys.modules)\nimport debuggers.measurement.measure\n"
    result = run(f"{loads}print(sorted({kept_out} & (set(sys.modules) - before)))")
    assert result.stdout == "[]\n", result.stderr


@pytest.mark.parametrize("module", ["debuggers.forward_debugger", "debuggers.wrappers.sequential_debugger"])
def test_without_torch_the_error_names_the_extra(module):
    result = run(f"{WITHOUT_TORCH}\nimport {module}")
    assert "MissingPackageError" in result.stderr
    assert "pip install 'stepscope[torch]'" in result.stderr


def test_public_names_lead_to_their_objects():
    import debuggers

    for name in debuggers.__all__:
        assert getattr(debuggers, name).__name__ == name
    with pytest.raises(AttributeError, match="'nothing'"):
        debuggers.nothing  # noqa: B018
