"""An MLflow package that is too old, or broken where the delivery process imports it."""

import os
import re
import subprocess
import sys

import pytest
from fault_training import emitted_by
from faults import accounts, first_on_path, training
from mlflow_delivery import with_database
from mlflow_faults import assert_shown_exactly_once, position
from tracker_adapters.delivery.worker import DeliveryWorker
from tracker_adapters.sinks.mlflow import MLflowSink

pytestmark = pytest.mark.fault

BROKEN = {
    "too old": ("__version__ = '2.9.1'", r"needs mlflow>=3\.1, and 2\.9\.1 is installed: pip install"),
    "raises ImportError at import": ("import no_such_module", "cannot import mlflow: .*no_such_module.*pip install"),
    "raises SystemExit at import": ("raise SystemExit('bye')", "cannot import mlflow: SystemExit.*pip install"),
}


@pytest.mark.parametrize(
    "what", ["too old", *(pytest.param(what, marks=pytest.mark.slow) for what in BROKEN if what != "too old")]
)
def test_a_broken_package_waits_for_a_later_delivery(tmp_path, fault_report, what):
    source, message = BROKEN[what]
    folder, shadow = tmp_path / "run", tmp_path / "shadow"
    (shadow / "mlflow").mkdir(parents=True)
    (shadow / "mlflow" / "__init__.py").write_text(source)
    options = with_database(MLflowSink.resolve({}, folder))
    environment = first_on_path(shadow)
    with training(folder, [{"type": "mlflow", **options}], steps=40, environment=environment) as run:
        found = run.result()
        assert "Training continues" in run.errors()
    assert not found["complete"]
    assert found["emitted"] == found["stored"] == emitted_by(40).total()
    account = accounts(folder)["mlflow"]
    assert (account.delivered, account.pending) == (0, emitted_by(40).total())
    assert re.search(message, position(folder).error)
    deliver_now(folder, options["target"], options)
    assert_shown_exactly_once(options, folder, 40)
    fault_report.add(f"MLflow package {what}", native=native_import(environment))


def deliver_now(folder, target, options):
    """Carries a run that has ended into MLflow, with the package as it should be."""
    assert DeliveryWorker(folder, 0, "mlflow", target, lambda: MLflowSink(**options)).run() == "done"


def native_import(environment):
    """Imports the package as a training script does; returns how that ended."""
    script = [sys.executable, "-c", "import mlflow"]
    done = subprocess.run(script, env=os.environ | environment, capture_output=True, text=True, check=False)
    if done.returncode == 0:
        return ""
    return f"import mlflow ends the training: {done.stderr.strip().splitlines()[-1]}"
