"""Two processes under torchrun: each is watched and diagnosed by itself, with no collective of ours."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

import stepscope
from debuggers.diagnosis.rules.diagnose import diagnose
from stepscope.cli import main
from stepscope.diagnosing.stored_evidence import stored_evidence

TRAINING = Path(__file__).with_name("watched_ranks.py")
KINDS = ["ddp", "fsdp", "alone", "ddp, out of step"]
SOUND = KINDS[:2]


@pytest.fixture(scope="module")
def folder(tmp_path_factory, warm_python):
    found = tmp_path_factory.mktemp("ranks")
    warm_python.run_ranks([str(TRAINING), str(found), json.dumps(KINDS)], folder=found)
    return found


@pytest.fixture(scope="module")
def told(folder):
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


@pytest.mark.parametrize("kind", KINDS)
def test_each_rank_trains_as_if_nobody_looked(told, kind):
    for rank in told:
        alone, watched = rank[kind]
        assert alone["losses"] == watched["losses"]
        assert alone["weights"] == watched["weights"]
        assert alone["collectives"] == watched["collectives"]
        assert watched["failures"] == 0
        assert watched["evidence"] == 2


@pytest.mark.parametrize("kind", SOUND)
def test_a_sound_training_has_no_cause_on_any_rank(folder, told, kind):
    for rank in told:
        assert (rank[kind][1]["causes"], rank[kind][1]["findings"]) == ([], [])
    with stepscope.read_run(folder / kind) as record:
        assert list(record.ranks) == [0, 1]
        assert stored_evidence(record).facts.world_size == 2


def test_ranks_that_drift_apart_are_told_when_the_run_is_read(folder):
    """In the other sound run of DDP they stay equal."""
    desynced = {}
    for kind in ("ddp", "ddp, out of step"):
        with stepscope.read_run(folder / kind) as record:
            desynced[kind] = "rank_desync" in {cause.code for cause in diagnose(stored_evidence(record))}
    assert desynced == {"ddp": False, "ddp, out of step": True}


def test_the_report_of_rank_0_is_shown(folder):
    shown = CliRunner().invoke(main, ["report", str(folder / "ddp")])
    assert (shown.exit_code, "healthy" in shown.output) == (0, True)
    assert "likely because" not in shown.output
