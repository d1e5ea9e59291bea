"""A run of several ranks whose clocks differ, resumed on fewer and on more, compacted, exported and queried."""

import json
import math

import pytest
import resumed_ranks
from tracker_adapters.store.upkeep.retention import retain

import stepscope
from debuggers.diagnosis.rules.diagnose import diagnose
from stepscope.diagnosing.stored_evidence import stored_evidence
from stepscope.ranks.comparison import compare_ranks

pytestmark = pytest.mark.slow
STARTS = ((4, 0, 38), (2, 25, 40), (4, 55, 45))
"""Ranks, first step and number of steps; each but the first goes back to a checkpoint."""
STEPS = 100


def started(warm_python, folder, kind, starts):
    for ranks, first_step, steps in starts:
        program = [resumed_ranks.__file__, str(folder), kind, str(first_step), str(steps)]
        warm_python.run_ranks(program, folder=folder, ranks=ranks)
    return folder / "run"


def check_merged(run, truth, least):
    """The norms of at least so many steps are those of the whole gradients, on the ranks that took them."""
    with stepscope.read_run(run) as record:
        merged = stepscope.MergedRanks(record)
        for name in ("0.weight", "2.bias"):
            found = merged.scalars(f"gradient_norm/{name}")
            expected = [truth[str(step)][name] for step in found.steps.tolist()]
            assert found.values.tolist() == pytest.approx(expected, rel=1e-5)
            assert len(found) >= least, name
        total = merged.scalars("total_norm/gradients")
        expected = [math.hypot(*truth[str(step)].values()) for step in total.steps.tolist()]
        assert total.values.tolist() == pytest.approx(expected, rel=1e-5)
        comparison = compare_ranks(record)
        assert (comparison.findings, comparison.world_size) == ((), 4)
        assert comparison.reached == dict.fromkeys(range(4), STEPS - 1)
        assert not diagnose(stored_evidence(record))
        return merged.scalars("loss")


@pytest.mark.parametrize("kind", ["fsdp", "ddp"])
def test_what_the_stores_say_together_is_true_however_often_they_were_resumed_and_compacted(
    kind, tmp_path, warm_python
):
    run = started(warm_python, tmp_path, kind, STARTS)
    truth = json.loads((tmp_path / "truth.json").read_text())
    losses = check_merged(run, truth, STEPS)
    assert losses.ranks.tolist() == [4] * 25 + [2] * 30 + [4] * 45

    before = retain(run, 10**9).bytes_before
    while (done := retain(run, before // 3)).made:
        before = done.bytes_after
    assert check_merged(run, truth, 4).highest_rank.max() == 3

    exported = stepscope.export_runs([run], tmp_path / "tables", names=["loss", "gradient_norm/*"])
    with stepscope.read_run(run) as record:
        rows = sum(
            len(record.scalars(info.name, rank))
            for rank in range(4)
            for info in record.names(rank)
            if info.kind == "scalar" and (info.name == "loss" or info.name.startswith("gradient_norm/"))
        )
        rewound = [len(record.scalars("loss", rank)) for rank in range(4)]
    assert exported.rows["scalars"] == rows
    sql = "select rank, count(*) from scalars where name = 'loss' group by rank order by rank"
    with stepscope.query_runs([run], sql) as result:
        assert list(result) == list(enumerate(rewound))


def test_a_rank_out_of_step_after_a_resume_is_named_where_the_start_before_was_in_order(tmp_path, warm_python):
    """The first start went on to step 62, beyond the second one's end at step 54."""
    run = started(warm_python, tmp_path, "ddp", [(2, 0, 63)])
    started(warm_python, tmp_path, "ddp, out of step", [(2, 25, 30)])
    with stepscope.read_run(run) as record:
        (finding,) = compare_ranks(record).findings
        assert [cause.code for cause in diagnose(stored_evidence(record))] == ["rank_desync"]
    assert (finding.kind, finding.name, finding.step) == ("weights_out_of_step", "2.weight", 40)
