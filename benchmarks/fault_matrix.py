"""Does every fault of ``integrations_tests/faults`` and prints what came of it as a table, beside the native clients.

Run: ``python benchmarks/fault_matrix.py``, with ``--whole`` for the longest faults at their full size, or with
``--report FILE`` to print what tests run with ``STEPSCOPE_FAULT_REPORT=FILE`` have left.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

TESTS = Path(__file__).parent.parent / "integrations_tests" / "faults"
TITLES = ("fault", "runs", "lost", "duplicated", "seconds to recover", "the tracker's own client")


def main() -> None:
    parser = argparse.ArgumentParser(description="Faults done to trainings, and what came of them.")
    parser.add_argument("--report", type=Path, help="the lines of an earlier run; nothing is run then")
    parser.add_argument(
        "--whole", action="store_true", help="stall a million scalars; kill MLflow's runs 50 times, too"
    )
    parser.add_argument("--json", type=Path, help="a file for the lines")
    arguments = parser.parse_args()
    report = arguments.report
    lines = done_now(whole=arguments.whole) if report is None else report.read_text(encoding="utf-8").splitlines()
    rows = sorted((json.loads(line) for line in lines), key=lambda row: str(row["fault"]).casefold())
    print(table(rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def done_now(*, whole: bool) -> list[str]:
    """Runs the tests, at full size if ``whole``; raises SystemExit with pytest's code when one of them fails."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.jsonl"
        environment = os.environ | {"STEPSCOPE_FAULT_REPORT": str(report), "STEPSCOPE_WHOLE_FAULTS": str(int(whole))}
        command = [sys.executable, "-m", "pytest", "-q", str(TESTS)]
        done = subprocess.run(command, env=environment, stdout=sys.stderr, check=False, cwd=TESTS.parent.parent)
        if done.returncode:
            raise SystemExit(done.returncode)
        return report.read_text(encoding="utf-8").splitlines()


def table(rows: list[dict[str, Any]]) -> str:
    """Returns a Markdown table; one line for each fault, or several where a fault was done in several places."""
    lines = [" | ".join(("", *TITLES, "")).strip(), " | ".join(("", *["---"] * len(TITLES), "")).strip()]
    for row in rows:
        seconds = "" if row["recovery_s"] is None else f"{row['recovery_s']:.1f}"
        cells = (row["fault"], row["runs"], row["lost"], row["duplicated"], seconds, row["native"])
        lines.append(" | ".join(("", *(str(cell).replace("|", "\\|") for cell in cells), "")).strip())
    return "\n".join(lines)


if __name__ == "__main__":
    main()
