"""Ranks under torchrun: their stores together say the truth, and each planted fault is named, by rank and step."""

import json
import os

import faulty_ranks
import pytest
from click.testing import CliRunner
from faulty_ranks import AT

import stepscope
from debuggers.diagnosis.rules.diagnose import diagnose
from stepscope.cli import main
from stepscope.diagnosing.stored_evidence import stored_evidence
from stepscope.ranks.comparison import compare_ranks
from stepscope.ranks.merged import MergedRanks

STEPS = 22


def trained(warm_python, folder, kinds, steps, **how):
    warm_python.run_ranks([faulty_ranks.__file__, str(folder), json.dumps(kinds), str(steps)], folder=folder, **how)
    return folder


def found(folder, kind):
    """What the comparison found, by kind, and the codes of the causes."""
    with stepscope.read_run(folder / kind) as record:
        findings = compare_ranks(record).findings
        return {one.kind: one for one in findings}, [cause.code for cause in diagnose(stored_evidence(record))]


def check_merged(folder, kind, ranks):
    """Norms, totals and histograms of the stores together are those of the whole gradients."""
    truth = json.loads((folder / "truth.json").read_text())[kind]
    with stepscope.read_run(folder / kind) as record:
        merged = MergedRanks(record)
        assert list(record.ranks) == list(range(ranks))
        total = merged.scalars("total_norm/gradients")
        assert (total.rule, total.steps.tolist()) == ("norm", [row["step"] for row in truth])
        assert total.values.tolist() == pytest.approx([row["total"] for row in truth], rel=1e-6)
        for name in truth[0]["norms"]:
            norms = merged.scalars(f"gradient_norm/{name}")
            assert norms.values.tolist() == pytest.approx([row["norms"][name] for row in truth], rel=1e-6)
        first = record.histograms("gradients/0.weight")[0].step  # it covers all steps before, too
        whole = merged.histogram("gradients/0.weight", first)
        counts, lows, highs, means = zip(*(row["first"] for row in truth[: first + 1]), strict=True)
        assert (whole.count, whole.min, whole.max) == (sum(counts), min(lows), max(highs))
        assert whole.mean == pytest.approx(sum(means) / len(means), abs=1e-7)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, warm_python):
    return trained(warm_python, tmp_path_factory.mktemp("ranks"), ["ddp", "fsdp", "bypass"], STEPS)


@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_merged_statistics_are_those_of_the_whole_and_nothing_is_found(folder, kind):
    check_merged(folder, kind, 2)
    assert found(folder, kind) == ({}, [])


def test_a_loss_is_spread_over_ranks_and_not_averaged_away(folder):
    with stepscope.read_run(folder / "ddp") as record:
        spread = MergedRanks(record).scalars("loss")
        first, second = (record.scalars("loss", rank) for rank in range(2))
    assert spread.values.tolist() == pytest.approx(((first.values + second.values) / 2).tolist())
    assert spread.highest_rank.tolist() == (second.values > first.values).astype(int).tolist()


def test_a_bypassed_wrapper_is_named_with_its_step_rank_and_parameter(folder):
    findings, causes = found(folder, "bypass")
    finding = findings["gradients_not_synchronized"]
    assert (finding.step, finding.name, causes) == (AT, "0.weight", ["rank_desync"])
    assert "on rank 1" in finding.evidence
    assert "bypassed" in finding.evidence


def test_the_ranks_are_listed(folder):
    shown = CliRunner().invoke(main, ["ranks", str(folder / "bypass")])
    assert shown.exit_code == 0, shown.output
    rows = [line.replace("│", " ").split() for line in shown.output.splitlines()]
    assert [row[:3] for row in rows if row[:1] in (["0"], ["1"])] == [[rank, str(STEPS - 1), "ddp"] for rank in "01"]
    assert "gradients_not_synchronized" in shown.output


FAULTS = {
    "desync": ("weights_out_of_step", "2.weight", 20, "rank_desync"),
    "nan": ("non_finite_rank", "rank 1", AT, "non_finite_rank"),
    "same batch": ("same_batch_on_ranks", "ranks 0, 1", 0, "duplicated_data"),
    "configuration": ("configuration_differs", "rank 1", 0, "ranks_configured_differently"),
    "straggler": ("straggling_rank", "rank 1", 10, "straggling_rank"),
}


@pytest.fixture(scope="module")
def faulty(tmp_path_factory, warm_python):
    return trained(warm_python, tmp_path_factory.mktemp("ranks"), [*FAULTS, "ddp", "fsdp"], 41)


@pytest.mark.slow
@pytest.mark.parametrize("kind", FAULTS)
def test_each_fault_is_named(faulty, kind):
    findings, causes = found(faulty, kind)
    what, name, step, cause = FAULTS[kind]
    assert (findings[what].name, findings[what].step) == (name, step)
    assert cause in causes or (kind == "configuration" and "rank_desync" in causes)
    expected = {what, "weights_out_of_step"} if kind == "configuration" else {what}
    assert findings.keys() == expected


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["ddp", "fsdp"])
def test_longer_sound_trainings_have_no_finding(faulty, kind):
    assert found(faulty, kind) == ({}, [])


@pytest.mark.slow
def test_a_rank_that_hangs_is_named_with_its_step_and_place(tmp_path, warm_python):
    environment = os.environ | {"STEPSCOPE_HANG_SECONDS": "1", "TORCH_FR_BUFFER_SIZE": "100"}
    trained(warm_python, tmp_path, ["hang"], STEPS, environment=environment, succeeds=False)
    findings, causes = found(tmp_path, "hang")
    assert (findings["hung_rank"].name, findings["hung_rank"].step, causes) == ("rank 1", AT - 1, ["hung_rank"])
    assert "rank 1 is in faulty_ranks.py, line" in findings["hung_rank"].evidence
    with stepscope.read_run(tmp_path / "hang") as record:
        for rank in range(2):  # a busy machine may also stop for a second before
            stacks = record.texts("stepscope/stack", rank)
            assert len(record.files(rank)) == len(stacks) > 0  # the Flight Recorder's


@pytest.mark.slow
def test_four_ranks_and_shards_with_copies(tmp_path, warm_python):
    trained(warm_python, tmp_path, ["ddp", "fsdp", "hsdp, desync"], STEPS, ranks=4)
    for kind in ("ddp", "fsdp"):
        check_merged(tmp_path, kind, 4)
        assert found(tmp_path, kind) == ({}, [])
    findings, causes = found(tmp_path, "hsdp, desync")
    assert (findings["weights_out_of_step"].name, causes) == ("2.weight", ["rank_desync"])
    assert "rank 3 are not those of rank 1" in findings["weights_out_of_step"].evidence
