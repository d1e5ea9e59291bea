"""A name that is taken: a new run gets the next number, in each process of a job the same one."""

import json
import multiprocessing
import os
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from recording_ranks import record_as_rank
from tracker_adapters.errors import RunError, RunExistsError
from tracker_adapters.testing import MemorySink
from waiting import in_threads

import stepscope


def open_and_close(path, **options):
    options.setdefault("sinks", [])
    with stepscope.open_run(path, **options) as run:  # type: ignore[arg-type]
        run.scalar("loss", 1.0, step=0)
    return run


def test_a_script_that_runs_again_gets_the_next_number_and_says_so(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    runs = [open_and_close(Path("runs/exp1")) for _ in range(3)]
    assert [run.path.name for run in runs] == ["exp1", "exp1-2", "exp1-3"]
    assert [run.info.name for run in runs] == ["exp1", "exp1-2", "exp1-3"]
    assert len({run.info.id for run in runs}) == 3
    assert all(len(stepscope.read_run(run.path).scalars("loss")) == 1 for run in runs)
    told = capsys.readouterr().err.splitlines()
    assert [line.split(";")[0] for line in told] == [
        "stepscope: runs/exp1 already holds a run: the new one is recorded in runs/exp1-2",
        "stepscope: runs/exp1 already holds a run: the new one is recorded in runs/exp1-3",
    ]


def test_resume_goes_on_with_the_named_run_and_tells_of_a_newer_one(tmp_path, capsys):
    first, second = open_and_close(tmp_path / "run"), open_and_close(tmp_path / "run")
    capsys.readouterr()
    again = open_and_close(tmp_path / "run", resume=True)
    assert (again.info.id, again.attempt) == (first.info.id, 2)
    assert f"there is a newer run, {tmp_path / 'run-2'}" in capsys.readouterr().err
    assert open_and_close(tmp_path / "run-2", resume=True).info.id == second.info.id
    assert capsys.readouterr().err == ""


def test_a_strict_opening_refuses_and_leaves_nothing(tmp_path):
    open_and_close(tmp_path / "run")
    with pytest.raises(RunExistsError, match="resume=True"):
        stepscope.open_run(tmp_path / "run", sinks=[], exists="raise")
    with pytest.raises(RunError, match="exists is 'ask'; expected 'number' or 'raise'"):
        stepscope.open_run(tmp_path / "run", sinks=[], exists="ask")  # type: ignore[arg-type]
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_number_passes_over_a_folder_that_is_no_run(tmp_path):
    open_and_close(tmp_path / "run")
    (tmp_path / "run-2").mkdir()
    (tmp_path / "run-2" / "thesis.tex").touch()
    (tmp_path / "run-3").touch()
    (tmp_path / "run-4").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "run-5").mkdir()
    assert open_and_close(tmp_path / "run").path.name == "run-5"
    assert not (tmp_path / "elsewhere").exists()


def test_a_name_that_was_given_stays_and_sinks_lie_in_the_numbered_folder(tmp_path):
    open_and_close(tmp_path / "run", name="digits")
    sink = MemorySink()
    run = open_and_close(tmp_path / "run", name="digits", sinks=["local", sink], delivery="thread")
    assert (run.path.name, run.info.name) == ("run-2", "digits")
    assert sink.info is not None
    assert sink.info.id == run.info.id
    assert (tmp_path / "run-2" / "local" / "scalars.csv").is_file()


@pytest.mark.slow
def test_a_folder_that_a_sink_was_given_gets_the_number_too(tmp_path):
    sinks = [{"type": kind, "path": str(tmp_path / f"{kind}-files/")} for kind in ("local", "tensorboard")]
    runs = [open_and_close(tmp_path / "run", sinks=sinks) for _ in range(2)]
    assert all(sink.pending == 0 and not sink.error for run in runs for sink in run.stats.sinks.values())
    for run, suffix in zip(runs, ("", "-2"), strict=True):
        assert run.look()["local"] == str(tmp_path / f"local-files{suffix}")
        assert (tmp_path / f"local-files{suffix}" / "scalars.csv").is_file()
        assert len(list((tmp_path / f"tensorboard-files{suffix}").iterdir())) == 1


@pytest.mark.slow
def test_runs_that_start_at_once_get_folders_of_their_own(tmp_path):
    code = (
        "import stepscope, sys; sys.stdin.readline(); run = stepscope.open_run('run', sinks=[]); "
        "run.scalar('loss', 1, step=0); run.close(); print(run.path.name)"
    )
    children = [
        subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            text=True,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        for _ in range(4)
    ]
    for child in children:
        assert child.stdin is not None
        child.stdin.write("go\n")
        child.stdin.flush()
    found = [child.communicate(timeout=120) for child in children]
    names = sorted(out.strip() for out, _ in found)
    assert names == ["run", "run-2", "run-3", "run-4"], found
    assert all(len(stepscope.read_run(tmp_path / name).scalars("loss")) == 1 for name in names)


def test_a_forked_child_gets_a_run_of_its_own_and_leaves_its_parents_alone(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        child = os.fork()
        if child == 0:
            own = stepscope.open_run(tmp_path / "run", sinks=[])
            own.scalar("loss", 2.0, step=0)
            own.close()
            os._exit(0 if own.path.name == "run-2" else 1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        run.scalar("loss", 1.0, step=0)
    values = [stepscope.read_run(tmp_path / name).scalars("loss").values.tolist() for name in ("run", "run-2")]
    assert values == [[1.0], [2.0]]


def test_threads_that_open_one_name_get_folders_of_their_own(tmp_path):
    runs: list[stepscope.Run] = []
    in_threads(lambda _: runs.append(stepscope.open_run(tmp_path / "run", sinks=[])), range(8))
    for run in runs:
        run.close()
    assert len({run.path for run in runs}) == len({run.info.id for run in runs}) == 8


@pytest.mark.parametrize(
    ("launcher", "order"),
    [
        ("torchrun", (0, 1, 2)),
        ("slurm", (2, 1, 0)),
        ("unknown", (0, 1, 2)),
        pytest.param("torchrun", (2, 1, 0), marks=pytest.mark.slow),
        pytest.param("slurm", (0, 1, 2), marks=pytest.mark.slow),
        pytest.param("unknown", (2, 1, 0), marks=pytest.mark.slow),
    ],
    ids=str,
)
def test_the_ranks_of_a_job_agree_in_each_start(tmp_path, monkeypatch, launcher, order):
    for start in range(3):
        runs = {}
        ranks = order if start else order[-2:]  # a rank that comes later to the name finds runs that it was not in
        for rank in ranks:
            environment = {
                "torchrun": {"TORCHELASTIC_ERROR_FILE": f"/tmp/none_{start}/attempt_0/{rank}/error.json"},
                "slurm": {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": str(start), "SLURM_NTASKS": "3"},
                "unknown": {},
            }[launcher]
            for name, value in {"RANK": str(rank), "WORLD_SIZE": "3", **environment}.items():
                monkeypatch.setenv(name, value)
            runs[rank] = stepscope.open_run(tmp_path / "run", sinks=[])
            if launcher != "unknown" and rank == order[0]:
                runs[rank].close()  # one that has ended already is found all the same
        for run in runs.values():
            run.close()
        assert {run.path.name for run in runs.values()} == {"run" if start == 0 else f"run-{start + 1}"}
        assert stepscope.read_run(run.path).ranks == tuple(sorted(ranks))


@pytest.mark.slow
def test_ranks_that_are_given_join_the_run_of_their_family_one_after_the_other(tmp_path):
    context = multiprocessing.get_context("spawn")
    for start in range(2):
        if start == 0:
            for rank in (0, 1):  # the first has died when the second one starts
                child = context.Process(target=record_as_rank, args=(tmp_path / "run", rank, rank == 0))
                child.start()
                child.join(120)
        else:
            for rank in (1, 0):
                record_as_rank(tmp_path / "run", rank, crashes=False)
    for name in ("run", "run-2"):
        assert stepscope.read_run(tmp_path / name).scalars("loss", rank="all").values.tolist() == [0.0, 1.0]
    assert not (tmp_path / "run-3").exists()


def test_a_rank_of_another_family_does_not_join_a_run_that_has_ended_and_says_so(tmp_path):
    record_as_rank(tmp_path / "run", 0, crashes=False)
    code = "import stepscope; print(stepscope.open_run('run', sinks=[], rank=1).path.name)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=True
    )
    assert done.stdout.strip() == "run-2"
    assert done.stderr.startswith("stepscope: run already holds a run: the new one is recorded in run-2;")


def test_two_jobs_at_once_do_not_mix(tmp_path, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")
    runs = {}
    for rank, job in [(0, "a"), (1, "b"), (0, "b"), (1, "a")]:
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", f"/tmp/{job}/attempt_0/{rank}/error.json")
        runs[job, rank] = stepscope.open_run(tmp_path / "run", sinks=[])
    for run in runs.values():
        run.close()
    assert {key: run.path.name for key, run in runs.items()} == {
        ("a", 0): "run", ("a", 1): "run", ("b", 0): "run-2", ("b", 1): "run-2",
    }  # fmt: skip


@pytest.mark.slow
def test_a_cell_that_runs_again_closes_the_run_that_it_left_open(tmp_path):
    cell = "run = stepscope.open_run('run', sinks=['local']); run.scalar('loss', 1, step=0)\n"
    done = subprocess.run(
        [sys.executable, "-i", "-c", "import stepscope"],
        input=f"{cell}old = run\n{cell}print(old.info.status, run.path.name)\n",
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "finished run-2" in done.stdout, done.stderr
    assert done.stderr.count("was still open in this process; it is closed") == 1
    statuses = [json.loads((tmp_path / name / "run.json").read_text())["status"] for name in ("run", "run-2")]
    assert statuses == ["finished", "finished"]


def test_a_script_may_hold_two_runs_of_one_name(tmp_path):
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as first,
        stepscope.open_run(tmp_path / "run", sinks=[]) as second,
    ):
        for run in (first, second):
            run.scalar("loss", 1, step=0)
    assert [first.stats.stored, second.stats.stored] == [1, 1]
    assert second.path.name == "run-2"


@pytest.mark.slow
def test_ranks_of_a_copied_run_take_the_number_that_rank_0_has_found(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_LOCAL_STORE", "always")
    for machine in ("one", "two"):  # where the second one starts, nothing says that the name is taken
        monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / machine))
        monkeypatch.setenv("WORLD_SIZE", "2")
        monkeypatch.setenv("TORCHELASTIC_ERROR_FILE", f"/tmp/none_{machine}/attempt_0/0/error.json")
        opened: list[stepscope.Run] = []
        other = threading.Thread(
            target=lambda opened=opened: opened.append(stepscope.open_run(tmp_path / "run", sinks=[], rank=1))
        )
        other.start()
        first = stepscope.open_run(tmp_path / "run", sinks=[], rank=0)
        other.join()
        opened[0].close()
        assert first.close()
        assert opened[0].path == first.path
    assert [stepscope.read_run(tmp_path / name).info.name for name in ("run", "run-2")] == ["run", "run-2"]
