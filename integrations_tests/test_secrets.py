"""Secrets are planted wherever they can come from; not a byte of any output holds one."""

import gzip
import json
import os
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner
from mlflow_delivery import with_database

import stepscope
from stepscope.cli import main

SECRETS = {
    "in the environment": "zanzibar-environment-4711",
    "in the configuration": "zanzibar-config-4711",
    "deep in the configuration": "zanzibar-nested-4711",
    "in a URL of the configuration": "zanzibar-url-4711",
    "of a known form, under any key": "ghp_zanzibar4711zanzibar4711zanzibar4711",
    "behind an option of the script": "zanzibar-option-4711",
    "in the address of a tracker": "zanzibar-tracker-4711",
    "in a sink's option": "zanzibar-sink-4711",
    "in what a sink raises": "zanzibar-raised-4711",
    "in what a sink prints and logs": "zanzibar-printed-4711",
    "in a tag": "zanzibar-tag-4711",
    "in the name of the run": "zanzibar-name-4711",
    "in an alert made from an exception": "zanzibar-alert-4711",
}

LEAKY_SINK = """
import logging, sys
from tracker_adapters.testing import MemorySink

class LeakySink(MemorySink):
    def __init__(self, target, api_key):
        super().__init__(target)
        self.api_key = api_key

    @classmethod
    def resolve(cls, options, run_folder):
        return {"target": "leaky", **options}

    def write(self, batch):
        raised, printed = open(__file__ + ".secrets").read().split()
        print(f"connecting with password={printed}", flush=True)
        print(f"connecting with password={printed}", file=sys.stderr)
        logging.getLogger("leaky").warning("tried http://me:%s@host", printed)
        raise ConnectionError(f"refused by https://me:{raised}@host/api with {self.api_key!r} as token={self.api_key}")
"""

TRAINING = """
import json, sys, psutil, stepscope
config, tags, name, sinks, alert = json.loads(sys.stdin.read())
run = stepscope.open_run("runs/exp1", sinks=sinks, config=config | {"argv": sys.argv}, tags=tags, name=name)
for step in range(30):
    run.scalar("loss", 1.0 / (1 + step), step=step)
    run.histogram("weights", [1.0, 2.0], step=step)
run.alert("tracker_failed", repr(ConnectionError(f"no answer from https://me:{alert}@host")), step=3)
run.text("notes", "nothing secret", step=3)
me = psutil.Process()
lines = [child.cmdline() for child in me.children(recursive=True)]
print(json.dumps([line for line in lines if line != me.cmdline()]))  # a child just forked has its parent's for a moment
run.close(timeout=60)
print(run.stats, run.info)
"""


@dataclass(frozen=True)
class Outputs:
    folder: Path
    printed: bytes
    config: dict[str, object]


@pytest.fixture(scope="module")
def outputs(tmp_path_factory):
    folder, site = tmp_path_factory.mktemp("secrets"), tmp_path_factory.mktemp("site")
    metadata = site / "leaky-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: leaky\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[stepscope.sinks]\nleaky = leaky:LeakySink\n")
    (site / "leaky.py").write_text(LEAKY_SINK)
    secret = SECRETS.__getitem__
    (site / "leaky.py.secrets").write_text(
        f"{secret('in what a sink raises')} {secret('in what a sink prints and logs')}"
    )
    config = {
        "lr": 0.1,
        "max_tokens": 512,
        "password": secret("in the configuration"),
        "services": [{"hub": {"hf_token": secret("deep in the configuration")}}],
        "database": f"postgresql://me:{secret('in a URL of the configuration')}@host/db",
        "note": f"clone with {secret('of a known form, under any key')}",
        "from the environment": secret("in the environment"),
    }
    tracker = f"mlflow:http://me:{secret('in the address of a tracker')}@127.0.0.1:9"
    leaky = {"type": "leaky", "api_key": secret("in a sink's option")}
    sinks = ["tensorboard", "mlflow", "wandb", "local", tracker, leaky]
    tags = [f"token={secret('in a tag')}"]
    name = f"run https://me:{secret('in the name of the run')}@host"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("MLFLOW_", "WANDB_", "STEPSCOPE_"))}
    path = os.pathsep.join([str(site), *filter(None, [os.environ.get("PYTHONPATH")])])
    with_database({"target": f"sqlite:///{folder / 'runs' / 'mlflow.db'}"})
    done = subprocess.run(
        [sys.executable, "-c", TRAINING, "--password", secret("behind an option of the script")],
        input=json.dumps([config, tags, name, sinks, secret("in an alert made from an exception")]).encode(),
        capture_output=True,
        cwd=folder,
        env=kept | {"PYTHONPATH": path, "SERVICE_TOKEN": secret("in the environment")},
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Outputs(folder, done.stdout + done.stderr, config)


def contents(folder):
    """Yields the bytes of every file, and what is packed in it."""
    for path in sorted(folder.rglob("*")):
        if not path.is_file():
            continue
        content = path.read_bytes()
        yield path, str(path).encode() + content
        if content.startswith(b"\x1f\x8b"):
            yield path, gzip.decompress(content)
        elif zipfile.is_zipfile(path):
            with zipfile.ZipFile(path) as packed:
                yield from ((path, packed.read(name)) for name in packed.namelist())


@pytest.mark.parametrize("where", SECRETS)
def test_no_output_holds_a_secret_that_stands(outputs, where):
    secret = SECRETS[where].encode()
    found = [str(path.relative_to(outputs.folder)) for path, content in contents(outputs.folder) if secret in content]
    assert found == []
    assert secret not in outputs.printed, outputs.printed


def test_every_output_is_there_and_shows_what_is_no_secret(outputs):
    """Else the test above would pass on nothing."""
    run = outputs.folder / "runs" / "exp1"
    all_bytes = b"".join(content for _, content in contents(outputs.folder))
    suffixes = {path.suffix for path, _ in contents(outputs.folder)}
    assert {".db", ".wandb", ".log", ".json", ".csv"} <= suffixes
    assert list(run.glob("events.*"))
    assert list(run.glob("store/rank_00000/delivery*.log"))
    assert b"password=***" in all_bytes
    assert b"http://***@127.0.0.1:9" in all_bytes
    assert b"refused by https://***@host/api" in all_bytes
    assert b"no answer from https://***@host" in all_bytes
    info = json.loads((run / "local" / "run_info.json").read_text())
    assert info["config"] == outputs.config | {
        "password": "***",
        "services": [{"hub": {"hf_token": "***"}}],
        "database": "postgresql://***@host/db",
        "note": "clone with ***",
        "from the environment": "***",
        "argv": ["-c", "--password", "***"],
    }
    assert info["tags"] == ["token=***"]
    assert info["name"] == "run https://***@host"


def test_no_process_has_a_secret_on_its_command_line(outputs):
    lines = json.loads(outputs.printed.splitlines()[0])
    assert any("tracker_adapters.deliver" in line for line in lines)
    assert not [part for line in lines for part in line for secret in SECRETS.values() if secret in part]


def test_readers_show_none(outputs):
    run = outputs.folder / "runs" / "exp1"
    shown = CliRunner().invoke(main, ["ls", str(run)]).output
    assert "loss" in shown
    with stepscope.read_run(run) as record:
        shown += repr(record.info) + repr(record.alerts())
    assert not [secret for secret in SECRETS.values() if secret in shown]
