"""What the doctor says of a machine on which parts are missing."""

import sys
from importlib.metadata import PackageNotFoundError

import pytest

from stepscope.doctor import examine


def rows_about(section, folder=None):
    """Those of one section; those below it are not made."""
    return dict(next(rows for title, rows in examine(folder) if title == section))


@pytest.mark.slow
def test_without_torch_nothing_is_measured(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)

    found = dict(row for _, rows in examine() for row in rows)

    assert found["torch"].endswith("pip install 'stepscope[torch]'")
    assert found["measuring"] == "needs torch"


def test_the_doctor_goes_on_where_nothing_can_be_written(monkeypatch):
    monkeypatch.chdir("/proc")

    found = dict(row for _, rows in examine() for row in rows)

    assert found["WAL in /proc"].startswith("cannot be tested (")
    assert found["local"] == "works"


@pytest.mark.parametrize("below", [(), ("runs", "exp1")])
@pytest.mark.parametrize("kind", ["file", "dangling link"])
def test_what_is_no_folder_is_named(tmp_path, kind, below):
    place = tmp_path / "results"
    place.write_text("") if kind == "file" else place.symlink_to(tmp_path / "nowhere")

    found = rows_about("run store", place.joinpath(*below))

    assert found[str(place)].startswith("no folder, so that no run can lie there")


def test_a_folder_is_timed(tmp_path):
    found = rows_about("run store", tmp_path / "runs" / "exp1")

    assert found[f"WAL in {tmp_path}"] == "works"
    assert not any(finding.startswith("no folder") for finding in found.values())
    assert found[f"files in {tmp_path}"].endswith("ms to make, write, rename or remove one")


def test_a_reduced_distribution_is_told_by_its_name(monkeypatch):
    found = {"mlflow": ["mlflow-skinny"]}
    versions = {"mlflow-skinny": "3.1", "tensorboard": "2", "wandb": "1"}

    def version(name):
        if name not in versions:
            raise PackageNotFoundError(name)
        return versions[name]

    monkeypatch.setattr("stepscope.doctor.version", version)
    monkeypatch.setattr("stepscope.doctor.packages_distributions", lambda: found)

    rows = dict(dict(examine())["sinks"])

    assert rows["mlflow"].startswith("works (mlflow-skinny 3.1")
    assert rows["tensorboard"].startswith("works (tensorboard 2")
    del found["mlflow"]
    assert dict(dict(examine())["sinks"])["mlflow"].startswith("works (mlflow, installed by hand")
