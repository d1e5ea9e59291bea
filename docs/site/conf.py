"""The site of the documentation: Sphinx with furo. ``make docs`` builds it into ``build/site``."""

import sys
import tomllib
from pathlib import Path

from sphinx.application import Sphinx

SITE = Path(__file__).parent
ROOT = SITE.parent.parent
sys.path[:0] = [str(SITE), str(ROOT), str(ROOT / "adapters")]

from reference import keep_colons, write_reference  # noqa: E402

project = "stepscope"
author = "the authors of stepscope"
version = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["site"]

autodoc_typehints_format = "short"
napoleon_numpy_docstring = False
add_module_names = False
python_maximum_signature_line_length = 100
toc_object_entries_show_parents = "hide"
# A type that only annotates, ours or another package's, has no page here. Public names have: they must be found.
nitpick_ignore_regex = [(r"py:\w+", r"(?!(stepscope|debuggers|stability)\.\w+$).*")]

html_theme = "furo"
html_title = f"stepscope {version}"
html_copy_source = False
html_static_path = ["static"]
html_css_files = ["site.css"]

myst_heading_anchors = 3  # links to headings, as on a git host


def setup(app: Sphinx) -> None:
    """Writes the pages of the API reference before Sphinx looks for pages."""
    app.connect("builder-inited", lambda _: write_reference(ROOT))
    app.connect("autodoc-process-docstring", keep_colons, priority=400)  # before napoleon, which has 500
