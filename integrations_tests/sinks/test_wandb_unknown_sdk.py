"""The W&B sink beside an SDK whose messages differ from those that it writes: the SDK writes the offline run."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from changed_wandb import changed_wandb
from readback_wandb import read_back, run_folders
from tracker_adapters.sinks.wandb import WandbSink
from wandb_runs import in_python

pytestmark = pytest.mark.slow

SHOW = """
import json, os, signal, sys
from tracker_adapters.errors import StartOver
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO, Batch, Scalar
options, token, first, last, end = (json.loads(argument) for argument in sys.argv[1:])
sink = WandbSink(**options)
try:
    sink.open(INFO, bytes.fromhex(token) if token else None)
    over = False
except StartOver:
    sink = WandbSink(**options)
    sink.open(INFO, None)
    over, first = True, 0
sink.write(Batch.of([Scalar(name="loss", value=step / 2, step=step) for step in range(first, last)]))
token = sink.flush()
if end == "killed":
    import psutil
    print(json.dumps([token.hex(), over]), flush=True)
    for child in psutil.Process().children():
        child.kill()
    os.kill(os.getpid(), signal.SIGKILL)
sink.finish("finished")
sink.close()
print(json.dumps([token.hex(), over, "wandb" in sys.modules]))
"""
HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def unknown_sdk(tmp_path_factory):
    """A PYTHONPATH with an SDK that calls one of the fields differently."""
    changed = changed_wandb(tmp_path_factory.mktemp("packages"), "version_info", "version_infx")
    return os.pathsep.join([str(changed), *filter(None, [os.environ.get("PYTHONPATH")])])


def test_nothing_is_doubled_or_missing_when_the_writer_changes_or_is_killed(server_of_wandb, tmp_path, unknown_sdk):
    options = WandbSink.resolve({"project": "p"}, tmp_path / "run")

    def shown(token, first, last, *, known=False, end=""):
        environment = {} if known else {"PYTHONPATH": unknown_sdk}
        done = in_python(SHOW, *map(json.dumps, (options, token, first, last, end)), **environment)
        assert done.returncode == (-signal.SIGKILL if end else 0), done.stderr
        found: list[str | bool] = json.loads(done.stdout)
        return found

    token, over, imported = shown("", 0, 1, known=True)
    assert (over, imported) == (False, False)
    token, over = shown(str(token), 1, 2, end="killed")
    assert over
    token, over, imported = shown(str(token), 2, 3)
    assert (over, imported) == (True, True)
    token, over, _ = shown(str(token), 3, 4)
    assert not over
    assert [seen.step for seen in read_back(options)] == [0, 1, 2, 3]
    assert "Finished syncing" in server_of_wandb.sync(Path(options["target"], "wandb"))
    found = {run_id: [row["step"] for row in run.history] for run_id, run in server_of_wandb.runs.items()}
    assert found == {"contract.3": [0, 1, 2, 3]}
    token, over, imported = shown(str(token), 4, 5, known=True)
    assert (over, imported) == (True, False)
    assert [seen.step for seen in read_back(options)] == [0, 1, 2, 3, 4]
    assert len(run_folders(options, superseded=True)) == 4


def test_the_doctor_says_so(unknown_sdk):
    script = (
        "import sys; sys.modules.update(torch=None, mlflow=None);"
        "from stepscope.doctor import examine; rows = dict(row for _, rows in examine() for row in rows);"
        "print(rows['wandb'])"
    )
    known, unknown = (in_python(script, **environment).stdout for environment in ({}, {"PYTHONPATH": unknown_sdk}))
    assert known.startswith("works (wandb ")
    assert "SDK" not in known
    assert unknown.startswith(known.rstrip("\n"))
    assert "written by W&B's SDK" in unknown
    assert "the field HeaderRecord.version_info is missing" in unknown


@pytest.mark.slow
@pytest.mark.timeout(900)  # some thirty tests, most of which start the SDK
def test_the_contract_holds_and_uploads_are_the_same(unknown_sdk, tmp_path):
    upload = HERE / "test_wandb_upload.py"
    tests = [f"{HERE / 'test_wandb.py'}::TestWandbSink", f"{HERE / 'test_wandb_process.py'}"]
    tests += [f"{upload}::{name}" for name in (
        "test_every_kind_is_uploaded_as_the_sdk_has_it", "test_what_comes_after_an_upload_is_appended_to_the_run",
        "test_a_name_of_any_length_and_script_arrives",
    )]  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--basetemp", str(tmp_path / "inner"), *tests],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parents[1],
        env=os.environ | {"PYTHONPATH": unknown_sdk},
    )
    assert done.returncode == 0, done.stdout
