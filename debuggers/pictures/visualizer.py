"""Visualizer: draws pictures with matplotlib into a folder, and puts them together on one page."""

import base64
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from os import PathLike
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from tracker_adapters.atomic_files import write_atomically
from tracker_adapters.errors import ArtifactError
from tracker_adapters.formats.file_names import safe_component
from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.values.plain import storable
from tracker_adapters.wording import counted

from debuggers.pictures import figures
from debuggers.pictures.canvas import rendered
from debuggers.pictures.html_page import html_page, safe
from debuggers.pictures.numbers import as_floats, as_points, as_table
from debuggers.pictures.svg_map import layers_over_steps

_MOST_OF_A_RUN = 24
_FEWEST_LAYERS = 3
_OF_LAYERS = re.compile(
    r"((?:gradient|weight|update|activation|optimizer)\w*_(?:norm|ratio|zero_fraction)"
    r"|diagnosis/(?!(?:inputs|outputs|targets|evaluation|validation)/)\w+)/"
)
"""How series begin that hold one statistic of each layer; others have units of their own, and are drawn one by one."""
_BESIDE = ("diagnosis/", "system/")
"""How series begin that are drawn after all others."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VisualizationConfig:
    """Where and how pictures are written.

    Attributes:
        output_directory: The folder, made when it does not exist.
        formats: Of each picture: ``png``, ``svg``, or both.
    """

    output_directory: str | PathLike[str] = "plots"
    formats: tuple[Literal["png", "svg"], ...] = ("png",)

    def __post_init__(self) -> None:
        if not self.formats or not set(self.formats) <= {"png", "svg"}:
            raise ArtifactError(f"formats is {self.formats!r}; expected ('png',), ('svg',) or both")


class Visualizer:
    """Draws pictures; each is written at once, and again if its name comes again. Needs ``stepscope[plots]``.

    Values may be sequences, arrays, or tensors on any device. NaN and infinities are counted and marked, and stay out
    of the scales. Each method returns the matplotlib figure, which notebooks show and ``run.image`` takes. matplotlib's
    settings, its backend and pyplot's figures are left as they are.

    Args:
        config: Where and how pictures are written.

    Raises:
        MissingPackageError: At the first picture, without matplotlib.
        ArtifactError: For values that are no numbers, or whose shapes do not fit.
        OSError: When a picture cannot be written.
    """

    def __init__(self, config: VisualizationConfig | None = None) -> None:
        self.config = config or VisualizationConfig()
        self._pictures: dict[str, bytes] = {}

    @classmethod
    def of_run(cls, record: RunRecord, config: VisualizationConfig | None = None) -> Self:
        """Draws what a run has recorded, without torch: its scalars, statistics of layers as maps, and histograms.

        At most 24 pictures of each sort are drawn, in the order of their names, those under ``diagnosis/`` and
        ``system/`` last.
        """
        visualizer = cls(config)
        names = {kind: [one.name for one in record.names(0) if one.kind == kind] for kind in ("scalar", "histogram")}
        groups: dict[str, list[str]] = {}
        for name in sorted(names["scalar"], key=lambda name: name.startswith(_BESIDE)):
            found = _OF_LAYERS.match(name)
            groups.setdefault(found[1] if found else "", []).append(name)
        maps = {group: members for group, members in groups.items() if group and len(members) >= _FEWEST_LAYERS}
        single = [name for group, members in groups.items() if group not in maps for name in members]
        for name in single[:_MOST_OF_A_RUN]:
            series = record.scalars(name)
            visualizer.plot_training_metrics(name, series.steps, {name: series.values})
        for group, members in list(maps.items())[:_MOST_OF_A_RUN]:
            read = {one.removeprefix(f"{group}/"): record.scalars(one) for one in members}
            table, steps, measured = layers_over_steps({name: (one.steps, one.values) for name, one in read.items()})
            visualizer.plot_layer_heat_map(group, np.where(measured, table, np.nan), list(read), steps)
        for name in names["histogram"][:_MOST_OF_A_RUN]:
            visualizer.plot_histogram_ridge(name, record.histograms(name))
        return visualizer

    def plot_tensor_distribution(self, name: str, values: Any, bins: int = 50) -> Any:
        """Draws how many values of a tensor of any shape are in each of ``bins`` bins of equal width."""
        return self._keep(f"{name}/distribution", figures.distribution(name, as_floats(name, values), bins))

    def plot_gradient_flow(self, layer: str, steps: Any, gradients: Any) -> Any:
        """Draws the norms of a layer's gradients (n,) over the steps (n,)."""
        points = as_points(layer, steps, gradients)
        return self._keep(f"{layer}/gradient_flow", figures.lines(layer, {layer: points}, y_label="gradient norm"))

    def plot_training_metrics(self, name: str, steps: Any, metrics: Mapping[str, Any], unit: str = "") -> Any:
        """Draws a line for each metric (n,) over the steps (n,); ``unit`` names the values, such as ``nats``."""
        series = {key: as_points(f"{name}: {key}", steps, values) for key, values in metrics.items()}
        return self._keep(f"{name}/metrics", figures.lines(name, series, y_label=unit or "value"))

    def plot_activation_patterns(self, layer: str, activations: Any) -> Any:
        """Draws a layer's output (datapoints, units, ...) as a map; further dimensions are averaged."""
        values = as_floats(layer, activations)
        if values.ndim < 2:
            raise ArtifactError(f"{layer}: activations have shape {values.shape}; expected (datapoints, units, ...)")
        table = values.reshape(*values.shape[:2], -1).mean(2) if values.size else values.reshape(len(values), -1)
        return self._map(f"{layer}/activations", layer, table, axes=("unit", "datapoint"), value="activation")

    def plot_attention(self, name: str, weights: Any, tokens: Sequence[str] | None = None) -> Any:
        """Draws attention weights (queries, keys); ``tokens`` names both where they are the same."""
        values = as_floats(name, weights)
        if values.ndim != 2:
            raise ArtifactError(f"{name}: attention has shape {values.shape}; expected (queries, keys), one head's")
        if tokens is not None and values.shape != (len(tokens), len(tokens)):
            raise ArtifactError(
                f"{name}: {counted(len(tokens), 'tokens')} for attention of shape {values.shape}; expected as many as "
                "queries and as keys, or no tokens where these differ"
            )
        return self._map(
            f"{name}/attention", name, values, axes=("key", "query"), value="attention weight", names=tokens
        )

    def plot_layer_heat_map(self, name: str, values: Any, layers: Sequence[str], steps: Any) -> Any:
        """Draws any statistic (layers, steps) with a row for each layer."""
        table, places = as_table(name, values, layers, steps)
        texts = [f"{one:.10g}" for one in places.tolist()]
        figure = figures.layer_map(name, table, layers, texts, axes_names=("step", "layer"), value=name)
        return self._keep(f"{name}/heat_map", figure)

    def plot_histogram_ridge(self, name: str, histograms: Any, steps: Any = None) -> Any:
        """Draws a histogram for each step, one above the other.

        Args:
            name: Of the tensor.
            histograms: Of a run (``record.histograms(name)``), or the tensors themselves.
            steps: Of the tensors, (n,); 0, 1, … by default.
        """
        given = list(histograms)
        places = range(len(given)) if steps is None else as_floats(f"{name}: steps", steps).astype(int).tolist()
        if len(places) != len(given):
            raise ArtifactError(f"{name}: {len(given)} histograms and {len(places)} steps; expected as many")
        found = [
            one if isinstance(one, Histogram) else Histogram.from_values("values", as_floats(name, one), step=step)
            for one, step in zip(given, places, strict=True)
        ]
        return self._keep(f"{name}/ridge", figures.ridge(name, found))

    def get_plot_names(self) -> list[str]:
        """Returns the names of all pictures so far, in order, such as ``weights/distribution``."""
        return list(self._pictures)

    def create_dashboard(self, names: Sequence[str] | None = None) -> Path:
        """Writes ``dashboard.html``: one file with pictures inside.

        Args:
            names: Of the pictures; all by default.

        Raises:
            ArtifactError: For a name that no picture has.
        """
        chosen = self.get_plot_names() if names is None else list(names)
        for name in chosen:
            if name not in self._pictures:
                near = get_close_matches(str(name), self._pictures, n=5, cutoff=0.4) or list(self._pictures)[:5]
                raise ArtifactError(
                    f"there is no plot {name!r}; nearest names: {', '.join(near) or 'none, none is drawn'}"
                )
        body = ["<h1>Dashboard</h1>", '<div class="pictures">']
        for name in chosen:
            data = base64.b64encode(self._pictures[name]).decode()
            picture = f'<img src="data:image/png;base64,{data}" alt="{safe(name)}">'
            body.append(f"<figure>{picture}<figcaption>{safe(name)}</figcaption></figure>")
        return self._write("dashboard.html", html_page("Dashboard", "\n".join([*body, "</div>"])).encode())

    def _map(
        self, key: str, title: str, table: Any, *, axes: tuple[str, str], value: str, names: Sequence[str] | None = None
    ) -> Any:
        rows, columns = (list(map(str, names or range(length))) for length in table.shape)
        return self._keep(key, figures.layer_map(title, table, rows, columns, axes_names=axes, value=value))

    def _keep(self, name: str, figure: Any) -> Any:
        png = rendered(figure, "png")
        self._pictures[name] = png
        for suffix in self.config.formats:
            content = png if suffix == "png" else rendered(figure, suffix)
            self._write(f"{safe_component(storable(name))}.{suffix}", content)
        return figure

    def _write(self, file: str, content: bytes) -> Path:
        folder = Path(self.config.output_directory)
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(folder, file, content, sync="nothing")
        return folder / file
