"""Reads the local sink's folder back with csv, json and Pillow alone."""

import csv
import hashlib
import io
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from tracker_adapters.testing.contract import Shown, pixel_digest

_FIELD = re.compile(r'(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r\n)')


def read_back(options: dict[str, Any]) -> list[Shown]:
    """Returns what the folder holds: scalars, histograms, alerts, then the files in the order of the index.

    Raises:
        AssertionError: When the files contradict each other, or a file is not in the index.
    """
    folder = Path(options["target"])
    if not folder.exists():
        return []
    indexed = list(read_lines(folder / "artifacts.jsonl"))
    on_disk = {path.relative_to(folder).as_posix() for path in folder.glob("*/**/*") if path.is_file()}
    assert on_disk == {line["path"] for line in indexed}
    assert len(on_disk) == len(indexed)
    return [
        *_scalars(folder / "scalars.csv"),
        *(_histogram(line) for line in read_lines(folder / "histograms.jsonl")),
        *(
            Shown("alert", line["name"], line["step"], (line["level"], line["message"]))
            for line in read_lines(folder / "alerts.jsonl")
        ),
        *(Shown(line["kind"], line["name"], line["step"], _value_of(folder, line)) for line in indexed),
    ]


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yields the objects of a file of strict JSON lines."""

    def refuse(constant: str) -> None:
        raise AssertionError(f"{path} holds {constant}, which is no JSON")

    with path.open(encoding="utf-8", newline="\n") as stream:
        for line in stream:
            yield json.loads(line, parse_constant=refuse)


def _scalars(path: Path) -> Iterator[Shown]:
    with path.open(encoding="utf-8", newline="") as stream:
        for row in csv.DictReader(stream, strict=True):
            yield Shown("scalar", row["name"], int(row["step"]), float(row["value"]))


def _histogram(line: dict[str, Any]) -> Shown:
    edges, counts = np.array(line["edges"]), line["counts"]
    finite = line["count"] - line["nan"] - line["pos_inf"] - line["neg_inf"]
    assert sum(counts) == finite
    assert len(edges) == (len(counts) + 1 if counts else 0)
    assert (np.diff(edges) > 0).all()
    return Shown("histogram", line["name"], line["step"], (finite, float(line["min"]), float(line["max"])))


def _value_of(folder: Path, line: dict[str, Any]) -> Any:
    content = (folder / line["path"]).read_bytes()
    match line["kind"]:
        case "image":
            return pixel_digest(content)
        case "text":
            return content.decode()
        case "curve":
            return tuple(zip(*read_table(content.decode())[1], strict=True))
        case "table":
            return read_table(content.decode())
        case _:
            digest = hashlib.sha256(content).hexdigest()
            assert (digest, len(content)) == (line["sha256"], line["size"])
            return digest


def read_table(text: str) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """Returns (columns, rows) of a table's CSV with the types that quoting tells, and checks it against csv."""
    rows: list[list[Any]] = [[]]
    texts: list[list[str]] = [[]]
    position = 0
    while position < len(text):
        field = _FIELD.match(text, position)
        assert field is not None, text[position : position + 80]
        quoted, bare, end = field.groups()
        rows[-1].append(quoted.replace('""', '"') if quoted is not None else _bare_cell(bare))
        texts[-1].append(quoted.replace('""', '"') if quoted is not None else bare)
        position = field.end()
        if end != ",":
            rows.append([])
            texts.append([])
    assert [row or [""] for row in csv.reader(io.StringIO(text, newline=""), strict=True)] == texts[:-1]
    columns, *cells = (tuple(row) for row in rows[:-1])
    return columns, tuple(cells)


def _bare_cell(text: str) -> Any:
    if text in {"", "true", "false"}:
        return {"": None, "true": True, "false": False}[text]
    return float(text) if re.search("[.enai]", text) else int(text)
