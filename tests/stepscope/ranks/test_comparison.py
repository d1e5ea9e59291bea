"""What tells one rank from the others is found in their stores, and sound ranks have no finding."""

import pytest
from rank_stores import shard, whole, write

import stepscope
from debuggers.diagnosis.facts import FACTS_NAME, Facts, GroupFacts
from debuggers.diagnosis.stored_facts import encode
from stepscope.ranks.comparison import compare_ranks

CHECKS = [0, 1, 2, 10, 20]
STACK = "last step: {step}\nseconds since: 61\ncollectives: {count}\nin: train.py, line 3, in {where}\n\n{files}"
WAITING = '  File "/x/site-packages/torch/_tensor.py", line 1, in backward\n'


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


def checks(*values, kind="weight", each=None, at=CHECKS):
    """The series of a checksum, and of the parameters behind it."""
    found = {f"diagnosis/{kind}_checksum": dict(zip(at, values, strict=False))}
    for name, column in (each or {}).items():
        found[f"diagnosis/{kind}_bits/{name}"] = dict(zip(at, column, strict=False))
    return found


def compared(path):
    with stepscope.read_run(path) as record:
        return compare_ranks(record)


def kinds(path):
    return [finding.kind for finding in compared(path).findings]


def of_two(path, first, second, **how):
    for rank, series in enumerate([first, second]):
        write(path, rank, placed=[whole(a=2, b=3)], series={"loss": [1.0] * 21} | series, **how)


SAME = [5.0] * 5


def test_weights_that_part_under_equal_gradients_name_step_and_parameter(path):
    each = {"b": [1.0] * 5, "a": [2.0] * 5}
    other = {"b": [1.0] * 5, "a": [2.0, 2.0, 2.0, 3.0, 3.0]}
    gradients = checks(*SAME, kind="gradient")
    of_two(path, checks(*SAME, each=each) | gradients, checks(5, 5, 5, 6, 7, each=other) | gradients)
    found = compared(path)
    (finding,) = found.findings
    assert (finding.kind, finding.name, finding.step, finding.last_step) == ("weights_out_of_step", "a", 10, 20)
    assert "of a, of 2 parameters, on rank 1 are not those of rank 0" in finding.evidence
    assert finding.evidence.endswith("at step 2 all weights were equal")
    assert (found.invariant.checked, found.invariant.broken, found.invariant.first_step) == (5, 2, 10)


def test_gradients_that_differ_name_the_step_by_the_norm_of_all(path):
    norms = {"total_norm/gradients": [1.0] * 21}, {"total_norm/gradients": [1.0] * 7 + [2.0] * 14}
    of_two(
        path,
        checks(*SAME) | checks(*SAME, kind="gradient", each={"a": SAME}) | norms[0],
        checks(5, 5, 5, 6, 6) | checks(5, 5, 5, 6, 6, kind="gradient", each={"a": [5, 5, 5, 6, 6]}) | norms[1],
    )
    (finding,) = compared(path).findings
    assert (finding.kind, finding.name, finding.step) == ("gradients_not_synchronized", "a", 7)
    assert "DistributedDataParallel was bypassed" in finding.evidence


@pytest.mark.parametrize(
    "theirs",
    [
        SAME,
        [5, 6, 6, 5, 6],  # they meet again, as under local SGD
        [5, 6, 6, 6, 5],
        [5],
    ],
)
def test_equal_weights_and_those_that_meet_again_are_in_order(path, theirs):
    of_two(path, checks(*SAME), checks(*theirs))
    assert kinds(path) == []


@pytest.mark.parametrize("strategy, expected", [("ddp", ["weights_out_of_step"]), ("", [])])
def test_weights_that_never_were_equal_are_out_of_step_where_they_were_made_equal(path, strategy, expected):
    of_two(path, checks(*SAME), checks(6, 7, 8, 9, 9), strategy=strategy)
    assert kinds(path) == expected


def test_gradients_alone_that_differ_are_in_order(path):
    """An optimizer may average them itself."""
    of_two(path, checks(*SAME) | checks(*SAME, kind="gradient"), checks(*SAME) | checks(1, 2, 3, 4, 5, kind="gradient"))
    assert kinds(path) == []


def test_shards_are_compared_with_their_copies_alone(path):
    for rank in range(2):
        write(path, rank, placed=[shard(rank, 2, a=2)], strategy="fsdp", series={"loss": [1.0]} | checks(*[rank] * 5))
    assert compared(path).invariant.broken == 0


def test_the_rank_with_nan_is_named_and_one_that_ended_before_is_no_witness(path):
    nan = float("nan")
    of_two(path, {"loss": [1.0, 1.0, 1.0, nan]}, {"loss": [1.0, 1.0, nan, nan]})
    write(path, 2, placed=[whole(a=2, b=3)], ranks=3, series={"loss": [1.0]})
    (finding,) = compared(path).findings
    assert (finding.kind, finding.name, finding.step) == ("non_finite_rank", "rank 1", 2)


def test_ranks_that_are_all_nan_name_none(path):
    of_two(path, {"loss": [1.0, float("nan")]}, {"loss": [1.0, float("inf")]})
    assert kinds(path) == []


@pytest.mark.parametrize("level, expected", [(1.2, []), (2.0, [("outlier_rank", "info", "rank 7")])])
def test_a_loss_far_from_the_others_is_told(path, level, expected):
    for rank in range(8):
        write(path, rank, placed=[whole(a=2)], ranks=8, series={"loss": [level if rank == 7 else 1 + rank / 100] * 20})
    assert [(one.kind, one.level, one.name) for one in compared(path).findings] == expected


def batches(*values):
    return {"diagnosis/batch_checksum": dict(zip(CHECKS, values, strict=True))}


@pytest.mark.parametrize(
    "first, second, strategy, expected",
    [
        (batches(1, 2, 3, 4, 5), batches(1, 2, 3, 4, 5), "ddp", ["same_batch_on_ranks"]),
        (batches(1, 2, 3, 4, 5), batches(1, 2, 3, 4, 5), "dtensor", []),
        (batches(1, 1, 1, 1, 1), batches(1, 1, 1, 1, 1), "ddp", []),
        (batches(1, 2, 3, 4, 5), batches(1, 2, 3, 7, 8), "ddp", []),
    ],
)
def test_shared_batches_are_found_where_each_rank_should_have_its_own(path, first, second, strategy, expected):
    of_two(path, first, second, strategy=strategy)
    assert kinds(path) == expected


@pytest.mark.parametrize("rate, expected", [(0.1, []), (0.2, ["configuration_differs"])])
def test_settings_that_differ_are_named(path, rate, expected):
    for rank, lr in enumerate([0.1, rate]):
        facts = Facts(steps=9, last_step=8, groups=(GroupFacts(parameters=2, settings={"lr": lr}),))
        write(path, rank, placed=[whole(a=2)], series={"loss": [1.0]}, texts={FACTS_NAME: encode(facts)})
    found = compared(path).findings
    assert [finding.kind for finding in found] == expected
    assert [finding.evidence for finding in found] == [
        "lr of the optimizer's group 0 is 0.2, and 0.1 on rank 0" for _ in expected
    ]


def times(data, forward=10.0, backward=20.0, windows=3):
    steps = range(10, 10 * windows + 1, 10)
    rows = {"data": data, "forward": forward, "backward": backward}
    return {f"diagnosis/{name}_ms": dict.fromkeys(steps, value) for name, value in rows.items()}


@pytest.mark.parametrize(
    "second, strategy, expected",
    [
        (times(30.0, backward=5.0), "ddp", ["straggling_rank"]),
        (times(2.0), "ddp", []),
        (times(2.0, forward=25.0, backward=10.0), "ddp", ["straggling_rank"]),
        (times(2.0, forward=25.0, backward=10.0), "fsdp", []),  # it waits for shards in the forward pass
        (times(6.0, backward=5.0), "ddp", []),
        (times(30.0, windows=1), "ddp", []),
    ],
)
def test_a_rank_that_is_slow_by_itself_is_named(path, second, strategy, expected):
    of_two(path, times(1.0, backward=40.0), second, strategy=strategy)
    found = compared(path).findings
    assert [finding.kind for finding in found] == expected
    assert [finding.name for finding in found] == ["rank 1" for _ in expected]


def stack(step=20, count=9, where="load", files=""):
    return {"stepscope/stack": STACK.format(step=step, count=count, where=where, files=files)}


@pytest.mark.parametrize(
    "first, second, expected",
    [
        (stack(files=WAITING), stack(), "rank 1 is in train.py, line 3, in load after step 20; rank 0 waited for 61 s"),
        (stack(files=WAITING), {}, "rank 1 ended, or says nothing after step 20; rank 0 waited for 61 s"),
        (stack(files=WAITING), stack(files=WAITING, count=8), "rank 1 is in train.py, line 3, in load after step 20"),
        (stack(files=WAITING), stack(files=WAITING), "all ranks wait since step 20"),
        (stack(step=10), stack(step=10), None),  # steps came after it
        (stack(), stack(), None),  # none waits: a validation that takes long
        ({}, {}, None),
    ],
)
def test_the_rank_that_the_others_wait_for_is_named(path, first, second, expected):
    for rank, texts in enumerate([first, second]):
        write(path, rank, placed=[whole(a=1)], series={"loss": [1.0] * 21}, texts=texts, status="failed")
    found = compared(path).findings
    assert [finding.kind for finding in found] == (["hung_rank"] if expected else [])
    assert all(finding.evidence.startswith(expected) for finding in found)


@pytest.mark.parametrize("seconds, expected", [(299, []), (301, ["hung_rank"])])
def test_a_live_run_has_hung_after_five_minutes(path, seconds, expected):
    began_ns = 10**18
    runs = [stepscope.open_run(path, sinks=[], rank=rank, resume=rank > 0) for rank in range(2)]
    for rank, run in enumerate(runs):
        run.scalars(["step_ms"], [1.0], step=20, time_ns=began_ns)
        run.scalars(["stepscope/heartbeat"], [9.0], step=20, time_ns=began_ns + seconds * 10**9)
        run.text("stepscope/stack", stack(files=WAITING if rank else "")["stepscope/stack"], step=20)
        run.flush_store()
    assert kinds(path) == expected
    for run in runs:
        run.close()


def test_a_run_that_finished_has_not_hung(path):
    for rank in range(2):
        write(path, rank, placed=[whole(a=1)], series={"loss": [1.0] * 21}, texts=stack())
    assert kinds(path) == []


def test_a_rank_that_never_started_is_named_where_no_step_was_taken(path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "3")
    for rank in range(2):
        write(path, rank, status="failed")
    (finding,) = compared(path).findings
    assert (finding.kind, finding.name) == ("missing_rank", "rank 2")


def test_ranks_that_are_not_recorded_while_training_goes_on_are_no_finding_but_named(path):
    of_two(path, {}, {}, ranks=4)
    found = compared(path)
    assert (found.findings, found.world_size) == ((), 4)
    assert found.not_compared == ("ranks 2, 3 of 4: no store",)


def test_a_rank_between_others_that_has_no_store_is_named_among_all(path):
    for rank in (0, 2):
        with stepscope.open_run(path, sinks=[], rank=rank) as run:
            run.scalar("loss", 1.0, step=0)
    found = compared(path)
    assert (found.world_size, found.not_compared) == (3, ("rank 1 of 3: no store",))


def test_a_rank_whose_segment_was_moved_away_is_named_as_not_compared(path):
    of_two(path, {}, {})
    assert compared(path).not_compared == ()

    (path / "store" / "rank_00001" / "segment_000000.db").unlink()

    found = compared(path)
    assert (found.findings, found.not_compared) == ((), ("rank 1: no step was recorded",))


def test_ranks_with_other_parameters_are_compared_in_what_they_share(path):
    write(path, 0, placed=[whole(a=2)], series={"loss": [1.0]} | times(1.0))
    write(path, 1, placed=[whole(b=2)], series={"loss": [1.0]} | times(90.0))
    found = compared(path)
    assert found.findings == ()
    assert found.not_compared == ("the ranks hold different parameters: rank 0 has a, rank 1 has not",)


def started(path, stacks=({}, {}), **how):
    """Both ranks of a start; the text of each says where it is."""
    for rank, texts in enumerate(stacks):
        write(path, rank, placed=[whole(a=1)], texts=texts, status="failed", **how)


def test_a_start_that_hangs_before_the_step_that_an_earlier_one_reached_is_named(path):
    started(path, series={"loss": [1.0] * 21})
    waits, loads = stack(step=12, files=WAITING), stack(step=12)
    started(path, (waits, loads), series={"loss": {10: 1.0, 11: 1.0, 12: 1.0}}, resume=True)
    found = compared(path)
    assert [(one.kind, one.name, one.step) for one in found.findings] == [("hung_rank", "rank 1", 12)]
    assert found.reached == {0: 12, 1: 12}


def test_a_start_that_hangs_before_its_first_step_is_named(path):
    started(path, series={"loss": [1.0] * 21})
    for rank, texts in enumerate([stack(step=-1, files=WAITING), stack(step=-1)]):
        write(path, rank, texts=texts, status="failed", resume=True)
    assert compared(path).findings[0].evidence.startswith("rank 1 is in train.py, line 3, in load after step -1")


def test_where_an_earlier_start_hung_is_no_finding(path):
    started(path, (stack(files=WAITING), stack()), series={"loss": [1.0] * 21})
    assert kinds(path) == ["hung_rank"]
    started(path, series={"loss": {10: 1.0, 11: 1.0}}, resume=True)
    assert kinds(path) == []


def test_weights_that_part_after_a_resume_are_named_where_an_earlier_start_was_in_order(path):
    started(path, series={"loss": [1.0] * 21} | checks(*SAME))
    for rank, last in enumerate([5, 6]):
        series = {"loss": {9: 1.0, 10: 1.0}} | checks(5, last, at=[9, 10])
        write(path, rank, placed=[whole(a=1)], series=series, resume=True)
    assert [(one.kind, one.step) for one in compared(path).findings] == [("weights_out_of_step", 10)]


def test_a_rank_that_only_an_earlier_start_had_is_named_and_not_compared(path):
    for rank in range(3):
        write(path, rank, placed=[whole(a=1)], ranks=3, series={"loss": [1.0] * 21} | checks(*SAME))
    for rank in range(2):
        series = {"loss": {9: 1.0, 10: 1.0, 20: 1.0}} | checks(5, 6, 7, at=[9, 10, 20])
        write(path, rank, placed=[whole(a=1)], ranks=2, series=series, resume=True)
    found = compared(path)
    assert (found.findings, found.world_size, found.reached) == ((), 2, {0: 20, 1: 20})
    assert found.not_compared == ("rank 2: only an earlier start had it; the last one has 2 ranks",)


def test_a_run_that_is_opened_again_to_record_a_score_is_compared_as_it_was(path):
    of_two(path, checks(*SAME), checks(5, 5, 5, 6, 7))
    with stepscope.open_run(path, sinks=[], rank=0, resume=True) as run:
        run.scalar("test/score", 1.0, step=21)
    assert kinds(path) == ["weights_out_of_step"]


def test_clocks_that_differ_by_minutes_change_nothing(path):
    for rank in range(2):
        write(path, rank, placed=[whole(a=2)], series={"loss": [1.0] * 21} | checks(*SAME), clock_s=-600.0 * rank)
    found = compared(path)
    assert (found.findings, found.invariant.checked, found.reached) == ((), 5, {0: 20, 1: 20})


def test_one_rank_is_compared_with_none(path):
    write(path, 0, placed=[whole(a=2)], ranks=1, series={"loss": [1.0]})
    assert compared(path).world_size == 1


def test_what_a_rank_says_of_itself_may_be_damaged(path):
    for rank in range(2):
        write(path, rank, series={"loss": [1.0]}, texts={"stepscope/rank": '{"rank": "no"', "stepscope/stack": "?"})
    assert compared(path).findings == ()
