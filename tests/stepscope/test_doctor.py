"""What the doctor says of a machine on which parts are missing."""

import sys

import pytest

from stepscope.doctor import examine


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

    found = dict(row for _, rows in examine(place.joinpath(*below)) for row in rows)

    assert found[str(place)].startswith("no folder, so that no run can lie there")


def test_a_folder_is_timed(tmp_path):
    found = dict(row for _, rows in examine(tmp_path / "runs" / "exp1") for row in rows)

    assert found[f"WAL in {tmp_path}"] == "works"
    assert not any(finding.startswith("no folder") for finding in found.values())
    assert found[f"files in {tmp_path}"].endswith("ms to make, write, rename or remove one")
