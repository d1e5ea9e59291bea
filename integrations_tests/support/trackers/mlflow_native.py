"""What MLflow's own client does under a fault, in a process of its own: ``python mlflow_native.py TRACKING_URI``.

Each line of standard input, ``<id> <call>``, makes one call in a thread of its own: ``metric`` logs a point,
``run`` starts a run. When the call has returned, it prints JSON with ``id``, ``seconds`` and ``error``.
"""

import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

EXPERIMENT = "native"


class NativeClient:
    """Calls MLflow's client, with its defaults, in another process; ``native_client`` starts one."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self._started: dict[int, float] = {}
        self._answers: dict[int, dict[str, Any]] = {}
        self._said = threading.Condition()
        threading.Thread(target=self._read, daemon=True).start()

    def call(self, what: str) -> int:
        """Begins a call, ``metric`` or ``run``; returns its number for ``outcome``."""
        number = len(self._started)
        self._started[number] = time.monotonic()
        assert self._process.stdin is not None
        self._process.stdin.write(f"{number} {what}\n")
        self._process.stdin.flush()
        return number

    def outcome(self, number: int) -> str:
        """Returns what became of a call so far, in words of the fault matrix."""
        answer = self._answers.get(number)
        if answer is None:
            return f"blocks the training: no return after {time.monotonic() - self._started[number]:.0f} s"
        ended = f"raises {answer['error']}" if answer["error"] else "returns"
        return f"blocks {answer['seconds']:.1f} s, then {ended}"

    def wait(self, number: int, timeout_s: float) -> bool:
        """Waits for a call; returns whether it came back in time."""
        with self._said:
            return self._said.wait_for(lambda: number in self._answers, timeout_s)

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            answer = json.loads(line)
            with self._said:
                self._answers[answer["id"]] = answer
                self._said.notify_all()


@contextmanager
def native_client(tracking_uri: str) -> Iterator[NativeClient]:
    """Starts a client and lets it log one point; kills it at the end of the block, with whatever still blocks."""
    # A sink that was opened in this process has left settings of its own, which would make MLflow impatient.
    defaults = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW_")}
    process = subprocess.Popen(
        [sys.executable, __file__, tracking_uri],
        env=defaults,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        client = NativeClient(process)
        assert client.wait(client.call("metric"), 120), "MLflow's client did not start"
        yield client
    finally:
        process.kill()
        process.wait(60)


def main() -> None:
    """Serves calls until standard input ends."""
    import mlflow

    mlflow.set_tracking_uri(sys.argv[1])
    mlflow.set_experiment(EXPERIMENT)
    run_id = mlflow.start_run().info.run_id
    printing = threading.Lock()

    def call(number: int, what: str) -> None:
        start, error = time.monotonic(), ""
        try:
            if what == "run":
                mlflow.MlflowClient().create_run(mlflow.get_experiment_by_name(EXPERIMENT).experiment_id)
            else:
                mlflow.log_metric("loss", 0.5, step=number, run_id=run_id)
        except Exception as caught:
            error = type(caught).__name__
        with printing:
            print(json.dumps({"id": number, "seconds": time.monotonic() - start, "error": error}), flush=True)

    for line in sys.stdin:
        number, what = line.split()
        threading.Thread(target=call, args=(int(number), what), daemon=True).start()


if __name__ == "__main__":
    main()
