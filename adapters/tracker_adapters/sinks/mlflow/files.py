"""What the artifacts of a batch become as MLflow artifact files.

``<kind>s/<name>/step_<step>_<seq>…`` holds texts, alerts, tables, pages and files, the step with nine digits since
MLflow's page sorts names as text; ``images/`` follows the naming of MLflow's own image grid. Sequence numbers make
writing again land on the same paths.
"""

import json
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import Alert, Artifact, Curve, File, Histogram, Image, Page, Table, Text
from tracker_adapters.sink import Batch
from tracker_adapters.sinks.mlflow.index import histogram_fields, plain
from tracker_adapters.sinks.mlflow.names import file_stem, safe_file_name
from tracker_adapters.sinks.mlflow.page_html import page_html

_THUMBNAIL_SIDE = 256


class Stage:
    """A folder that mirrors a part of a run's MLflow artifacts until it is uploaded.

    ``paths`` are those of the staged files, in order; ``tables`` those of them that are tables. ``prefix`` is empty, or
    a folder ending in a slash that keeps ours apart from the user's own artifacts.
    """

    def __init__(self, folder: Path, run_id: str, prefix: str) -> None:
        self._folder = folder
        self._run_id = run_id
        self._prefix = prefix
        self.paths: list[str] = []
        self.tables: list[str] = []

    def add_batch(self, batch: Batch) -> bytes:
        """Stages every artifact but the scalars; returns their lines of the index."""
        lines = [
            self._line(seq, artifact)
            for column in batch.columns()
            for seq, artifact in zip(column.seqs, column.artifacts, strict=True)
        ]
        return "".join(lines).encode()

    def put(self, path: str, content: bytes | Path) -> str:
        """Stages bytes, or a link to a file, and returns its path among the run's artifacts."""
        path = path if path.startswith("images/") else self._prefix + path
        place = self._folder / path
        place.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, Path):
            place.symlink_to(content)
        else:
            place.write_bytes(content)
        self.paths.append(path)
        return path

    def put_table(self, path: str, table: dict[str, object]) -> str:
        """Stages a table in the form that MLflow's viewer shows; its path is kept in ``tables``."""
        path = self.put(path, json.dumps(table).encode())
        self.tables.append(path)
        return path

    def _line(self, seq: int, artifact: Artifact) -> str:
        described: dict[str, Any] = {
            "seq": seq,
            "kind": artifact.kind,
            "name": artifact.name,
            "step": artifact.step,
            "time_ns": artifact.time_ns,
        }
        return json.dumps(described | self._stage(seq, artifact)) + "\n"

    def _stage(self, seq: int, artifact: Artifact) -> dict[str, Any]:
        """Stages one artifact; returns what the index says beside the common fields."""
        place = f"{artifact.kind}s/{file_stem(artifact.name)}/step_{artifact.step:09d}_{seq}"
        match artifact:
            case Histogram():
                return histogram_fields(artifact)
            case Image():
                return {"path": self._put_image(seq, artifact)}
            case Text():
                return {"path": self.put(f"{place}.md", artifact.text.encode())}
            case Alert():
                return {"path": self.put(f"{place}.txt", _alert_text(artifact).encode()), "level": artifact.level}
            case Table() | Curve():
                if isinstance(artifact, Curve):
                    self.put(f"{place}.png", artifact.drawn().png)
                    artifact = artifact.plainer()
                rows = [[plain(cell) for cell in row] for row in artifact.rows]
                table: dict[str, object] = {"columns": artifact.columns, "data": rows}
                return {"path": self.put_table(f"{place}.json", table)}
            case Page():
                self.put(f"{place}.html", page_html(artifact).encode())
                return {"path": self.put(f"{place}/{safe_file_name(artifact.filename)}", artifact.path)}
            case File():
                path = self.put(f"{place}/{safe_file_name(artifact.filename)}", artifact.path)
                return {"path": path, "media_type": artifact.media_type}
        raise AssertionError(f"no rule for artifacts of kind {artifact.kind!r}")

    def _put_image(self, seq: int, image: Image) -> str:
        """The naming of ``MlflowClient.log_image`` (MLflow 3), with an identity that does not change."""
        identity = uuid.uuid5(uuid.NAMESPACE_OID, f"{self._run_id}/{self._prefix}{seq}")
        time_ms = image.time_ns // 1_000_000
        path = f"images/{file_stem(image.name)}+step+{image.step}+timestamp+{time_ms}+{identity}"
        # The grid shows the compressed file only.
        if max(image.width, image.height) <= _THUMBNAIL_SIDE:
            self.put(f"{path}+compressed.png", image.png)
        else:
            self.put(f"{path}+compressed.webp", _thumbnail(image.png))
        return self.put(f"{path}.png", image.png)


def _alert_text(alert: Alert) -> str:
    time = datetime.fromtimestamp(alert.time_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    return f"{alert.level} at step {alert.step}, {time}\n\n{alert.message}"


def _thumbnail(png: bytes) -> bytes:
    from io import BytesIO

    from PIL import Image as PillowImage

    picture = PillowImage.open(BytesIO(png))
    picture.thumbnail((_THUMBNAIL_SIDE, _THUMBNAIL_SIDE))
    stream = BytesIO()
    picture.save(stream, format="WEBP", quality=80)
    return stream.getvalue()
