"""An artifact that a tracker cannot take, in each tracker: it is isolated and counted, and all others are shown."""

import json
from collections import Counter

import pytest
from all_sinks import SINKS, assert_each_shows_everything_once, prepared, wait_until_each_has
from fault_training import emitted_by, losses_without_us
from faults import SUPPORT, program

pytestmark = [pytest.mark.fault, pytest.mark.slow]

STEPS = 60
SOURCE = f"""
import json, pathlib, sys, numpy as np, stepscope
from fault_training import Regression, emit_step
folder = pathlib.Path(sys.argv[1])
run, model, losses = stepscope.open_run(folder, sinks={SINKS!r}), Regression(), []
pixels = np.random.default_rng(0).integers(0, 256, (320, 320, 3), np.uint8)
for step in range({STEPS}):
    values = model.step()
    losses.append(values["loss"].hex())
    emit_step(run, model, values, step)
    if step in (20, 30, 40):
        path = folder.parent / f"file{{step}}"
        path.write_text(f"{{step}}")
        run.file(path, name="file", step=step)
        run.image("large", pixels + np.uint8(step), layout="HWC", step=step)
    if step in (10, {STEPS} - 1):
        run.flush_store()
        print("paused", step)
        sys.stdin.readline()
complete = run.close(60)
stats = run.stats
print(json.dumps([losses, complete, stats.emitted, stats.stored, stats.lost]))
"""


def test_what_no_tracker_can_take_is_isolated_in_each(tmp_path, fault_report):
    """A file and a picture vanish from the run's folder before anybody has delivered them."""
    folder = prepared(tmp_path / "run")
    with program(folder, SOURCE, SUPPORT) as run:
        run.wait_for_line("paused 10")
        wait_until_each_has(folder, emitted_by(11).total())
        children = run.suspend_deliveries(len(SINKS))
        run.go_on()
        run.wait_for_line(f"paused {STEPS - 1}")
        lying = sorted(
            (path for path in (folder / "blobs").rglob("*") if path.is_file()), key=lambda path: path.stat().st_size
        )
        assert len(lying) == 6
        for path in (lying[0], lying[-1]):
            path.unlink()
        for child in children:
            child.resume()
        emitted = emitted_by(STEPS).total() + 6
        seconds = wait_until_each_has(folder, emitted - 2)
        run.go_on()
        losses, *counts = json.loads(run.wait_for_line("["))
        assert run.end() == 0, run.errors()
    assert losses == losses_without_us(STEPS)
    assert counts == [True, emitted, emitted, {}]
    picture = Counter({("image", "unreadable"): 1})
    assert_each_shows_everything_once(
        folder,
        unshown={
            "local": picture + Counter({("file", "missing_file"): 1}),
            "wandb": picture + Counter({("file", "missing_file"): 1}),
            "mlflow": picture + Counter({("file", "refused"): 1}),
            "tensorboard": picture,  # it shows the file's name and checksum, which are known
        },
    )
    fault_report.add("all four sinks: a poison record, its content gone", runs=len(SINKS), lost=2, recovery_s=seconds)
