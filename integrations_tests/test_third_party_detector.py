"""Rules of other packages: really installed, offered by their entry points, also broken ones."""

import re

import pytest
from wheels import ROOT, install_example, install_hostile, run_doctor, run_python, run_tests

EXAMPLE = ROOT / "examples" / "third_party_detector"
PAGE = (ROOT / "docs" / "extending" / "write_a_detector.md").read_text(encoding="utf-8")
HOSTILE = """[stepscope.detectors]
gone = nowhere:Rule
leaves = evil:Rule
no_rule = json:JSONDecoder
fails_late = late:make
[red]loud[/red] = evil:Rule
"""
LATE = """
from accuracy_drop import AccuracyDrop
made = []

def make():
    made.append(1)
    if len(made) > 1:
        raise RuntimeError("only once")
    return AccuracyDrop()
"""
TRAIN = """
import logging, torch, stepscope
logging.basicConfig()

def train():
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer) as session:
        for accuracy in (0.9, 0.5):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 2)).square().mean()
            loss.backward()
            session.step(loss)
            optimizer.step()
            session.validation(metrics={"accuracy": accuracy})
    return session.report()

for _ in range(2):
    report = train()
    print([(one.kind, one.step) for one in report.findings if one.kind == "accuracy_drop"], report.failures)
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Where the example and a hostile package are installed."""
    site = tmp_path_factory.mktemp("installed") / "site"
    install_example(site, EXAMPLE)
    install_hostile(site, HOSTILE, "SystemExit")
    (site / "late.py").write_text(LATE)
    return site


@pytest.mark.slow
def test_every_session_runs_it_and_broken_ones_are_left_out_with_one_warning(site, tmp_path):
    done = run_python(["-c", TRAIN], tmp_path, site)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["[('accuracy_drop', 1)] {}"] * 2
    for name in ("gone", "leaves", "no_rule"):
        assert done.stderr.count(f"the detector '{name}' of evil 6.6 is left out: ") == 1
    assert "the detector 'fails_late' is left out: RuntimeError('only once')" in done.stderr
    assert "loud" not in done.stderr


@pytest.mark.slow
def test_the_doctor_names_what_works_and_what_does_not(site, tmp_path):
    printed = run_doctor(tmp_path, site)
    assert re.search(r"accuracy_drop\W+works \(stepscope-accuracy-drop 0\.1\.0\)", printed), printed
    assert re.search(r"gone\W+does not work: nowhere:Rule: ModuleNotFoundError.*\(of evil 6\.6\)", printed)
    assert re.search(r"leaves\W+does not work: evil:Rule: SystemExit: imported", printed)
    assert re.search(r"no_rule\W+does not work: .* no Detector and no SignalDetector", printed)
    assert "loud" not in printed


@pytest.mark.slow
def test_its_author_tests_it_without_a_session(site, tmp_path):
    assert " passed" in run_tests(tmp_path, site, EXAMPLE / "test_accuracy_drop.py")


@pytest.mark.parametrize("name", ["accuracy_drop.py", "pyproject.toml", "test_accuracy_drop.py"])
def test_the_page_shows_the_files_as_they_are(name):
    assert (EXAMPLE / name).read_text(encoding="utf-8") in PAGE
