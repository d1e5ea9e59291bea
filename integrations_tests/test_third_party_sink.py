"""A sink of another package: really installed, offered by its entry point, tested as its author would test it."""

import re
import sqlite3

import pytest
from wheels import ROOT, install, install_example, install_hostile, run_doctor, run_python, run_tests

EXAMPLE = ROOT / "examples" / "third_party_sink"
PAGE = (ROOT / "docs" / "extending" / "write_a_sink.md").read_text(encoding="utf-8")
HOSTILE = """[stepscope.sinks]
local = evil:EvilSink
broken = nowhere:Sink
[red]loud[/red] = evil:EvilSink
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory, wheel):
    """Where stepscope's wheel, the example and a hostile package are installed; no folder of tests is near it."""
    site = tmp_path_factory.mktemp("installed") / "site"
    install(site, wheel)
    install_example(site, EXAMPLE)
    install_hostile(site, HOSTILE, "SystemError")
    return site


RUN = """
import stepscope, tracker_adapters
with stepscope.open_run("runs/exp1", sinks=["local"]) as run:
    for step in range(100):
        run.scalar("loss", 1.0 / (1 + step), step=step)
print(tracker_adapters.__file__)
"""


@pytest.mark.slow
def test_the_environment_chooses_it_and_the_delivery_process_finds_it(site, tmp_path):
    done = run_python(["-c", RUN], tmp_path, site, STEPSCOPE_SINKS="local,sqlite")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(str(site)), "not the installed wheel"
    connection = sqlite3.connect(tmp_path / "runs" / "exp1" / "artifacts.sqlite")
    rows = connection.execute("SELECT name, step, value FROM artifact ORDER BY seq").fetchall()
    connection.close()
    assert rows == [("loss", step, 1.0 / (1 + step)) for step in range(100)]
    # Ours, whatever another package calls "local".
    assert len((tmp_path / "runs" / "exp1" / "local" / "scalars.csv").read_text().splitlines()) == 101


@pytest.mark.slow
@pytest.mark.parametrize(
    ("sink", "message"),
    [
        ("sqlit", "unknown sink 'sqlit'; did you mean 'sqlite'? Known sinks are broken, local, mlflow, sqlite, "),
        ("broken", "sink 'broken' of evil 6.6: cannot load nowhere:Sink: No module named 'nowhere'"),
    ],
)
def test_errors_know_it_and_name_the_package_that_is_broken(site, tmp_path, sink, message):
    done = run_python(["-c", RUN], tmp_path, site, STEPSCOPE_SINKS=sink)
    assert done.returncode == 1
    assert message in done.stderr.splitlines()[-1]
    assert not (tmp_path / "runs" / "exp1" / "run.json").exists()


@pytest.mark.slow
def test_the_doctor_lists_it_beside_what_is_broken(site, tmp_path):
    printed = run_doctor(tmp_path, site)
    assert re.search(r"sqlite\W+works \(stepscope-sqlite-sink 0\.1\.0\)", printed), printed
    assert re.search(r"broken\W+does not work: sink 'broken' of evil 6\.6", printed)
    assert re.search(r"local\W+works\W", printed)
    assert "loud" not in printed


@pytest.mark.slow
def test_its_author_runs_the_contract_with_what_is_installed(site, tmp_path):
    """Crash safety by token, kills and restarts of the delivery process included."""
    assert re.search(r"\b2\d passed", run_tests(tmp_path, site, EXAMPLE / "test_sqlite_sink.py"))


@pytest.mark.parametrize("name", ["sqlite_sink.py", "pyproject.toml", "test_sqlite_sink.py"])
def test_the_page_shows_the_files_as_they_are(name):
    assert (EXAMPLE / name).read_text(encoding="utf-8") in PAGE
