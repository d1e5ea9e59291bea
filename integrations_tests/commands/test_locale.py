"""In a locale whose encoding lacks the letters of a name, every sink takes everything and every command works."""

import json
import os
import subprocess
import sys

import pytest
from mlflow_delivery import with_database

TRAINING = r"""
import json, sys
from pathlib import Path
import numpy as np
import stepscope

folder, name = Path(sys.argv[1]), "\u03c3/\u00fc"
sinks = ["wandb", "local", "tensorboard", "mlflow"]
with stepscope.open_run(folder, sinks=sinks, config={name: name}, tags=[name], name=name) as run:
    for step in range(3):
        run.scalar(name, step, step=step)
        run.histogram(name + "h", np.arange(9.0), step=step)
        run.image(name + "i", np.zeros((8, 8), np.uint8), layout="HW", step=step)
        run.text(name + "x", name, step=step)
        run.table(name + "t", [name], [[name]], step=step)
        run.alert(name + "a", name, step=step)
    run.file(sys.argv[0], name=name + "f", step=1)
    run.finish(timeout=120)
stats = run.stats
print(json.dumps({key: [sink.delivered, sink.pending, sink.failed, sink.error] for key, sink in stats.sinks.items()}))
"""


@pytest.mark.slow
def test_names_that_the_locale_cannot_write_reach_every_sink(tmp_path):
    with_database({"target": f"sqlite:///{tmp_path / 'mlflow.db'}"})
    script, folder = tmp_path / "train.py", tmp_path / "run"
    script.write_text(TRAINING, encoding="utf-8")
    environment = os.environ | {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}

    def run(*command):
        words = [sys.executable, *map(str, command)]
        done = subprocess.run(words, env=environment, capture_output=True, encoding="utf-8", timeout=240, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert json.loads(run(script, folder)) == {
        sink: [19, 0, {}, ""] for sink in ("wandb", "local", "tensorboard", "mlflow")
    }
    assert r"\u03c3/\xfc" in run("-m", "stepscope", "ls", folder)
    run("-m", "stepscope", "export", folder, "--output", tmp_path / "out")
    assert "σ/ü" in (tmp_path / "out" / "scalars.csv").read_text(encoding="utf-8")
