"""Configurations, pages, comparisons and class activation maps as several tests of the debuggers need them."""

import math

import numpy as np
import pytest

from debuggers.gradcam import GradCAMDebugger
from debuggers.page_files.index import write_index
from debuggers.pages import write_page


def entry(name, cls, **args):
    """The entry of a debugger in a configuration."""
    return {"name": name, "debugger_config": {"class": cls, "args": args}}


def write_pages(folder, *pages):
    """Writes pages with their index to a folder, which it returns."""
    folder.mkdir(parents=True, exist_ok=True)
    write_index(folder, [write_page(folder, number, page) for number, page in enumerate(pages)])
    return folder


def assert_elements(elements, a, b):
    """Whether an ElementDifference is that of two arrays, by a float64 computation."""
    a, b = (np.asarray(value).astype(complex if np.iscomplexobj(value) else float).ravel() for value in (a, b))
    kept = np.isfinite(a) & np.isfinite(b)
    a, b = a[kept], b[kept]
    assert (elements.compared, elements.left_out) == (kept.sum(), (~kept).sum())
    if not kept.any():
        assert math.isnan(elements.max_abs)
        assert math.isnan(elements.mean_abs)
        return
    norms = np.linalg.norm(a), np.linalg.norm(b)
    assert elements.max_abs == np.abs(b - a).max()
    assert elements.mean_abs == pytest.approx(np.abs(b - a).mean(), rel=1e-12)
    if norms[0]:
        assert elements.relative == pytest.approx(np.linalg.norm(b - a) / norms[0], rel=1e-12)
    if all(norms):
        assert elements.cosine == pytest.approx((np.vdot(a, b) / norms[0] / norms[1]).real, abs=1e-12)
    else:
        assert math.isnan(elements.cosine)


def gradcam(model, inputs, layer="backbone.act2", target_class=3, **options):
    """The Grad-CAM maps of a layer, by default of ``digit_models.DigitNetwork``."""
    return GradCAMDebugger(layer, target_class, **options)({"inputs": inputs}, model)["gradcam"]
