"""A page's table of contents as an HTML document, for MLflow's viewer of artifacts."""

import base64
import html

from tracker_adapters.artifacts import Page, PageEntry

_MAX_ROWS = 2000
# Nothing is loaded from anywhere, and nothing runs: what a page says may come from the data.
_HEAD = """<!doctype html>
<html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'">
<style>
body { font: 14px/1.4 system-ui, sans-serif; margin: 1em; color: #222; background: #fff }
h1 { font-size: 1.3em } p { color: #666; overflow-wrap: anywhere }
table { border-collapse: collapse } td, th { padding: 4px 10px; text-align: left; border-bottom: 1px solid #ddd }
img { width: 96px; image-rendering: pixelated; display: block }
</style>
"""


def page_html(page: Page) -> str:
    """Returns the document: one row a datapoint and debugger, with its picture; at most 2000 rows.

    Everything that comes from the page is escaped. Pictures lie in the document itself, as data URIs.
    """
    title = html.escape(f"{page.name}, step {page.step}")
    rows = "".join(map(_row, page.contents[:_MAX_ROWS]))
    missing = len(page.contents) - _MAX_ROWS
    more = f"<p>and {missing:,} more, which the page itself holds</p>\n" if missing > 0 else ""
    return (
        f"{_HEAD}<title>{title}</title></head>\n<body><h1>{title}</h1>\n"
        f"<p>{html.escape(page.filename)}, {page.size} bytes, sha256 {page.sha256}</p>\n"
        "<table><tr><th>datapoint</th><th>debugger</th><th>picture</th><th>values</th></tr>\n"
        f"{rows}</table>\n{more}</body></html>\n"
    )


def _row(entry: PageEntry) -> str:
    picture = ""
    if entry.picture:
        picture = f'<img alt="" src="data:image/png;base64,{base64.b64encode(entry.picture).decode()}">'
    cells = (str(entry.datapoint), html.escape(entry.debugger), picture, html.escape(entry.summary))
    return f"<tr>{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n"
