"""One HTML file for everything: no scripts, nothing loaded from elsewhere, light or dark as system or notebook is."""

from collections.abc import Sequence
from html import escape

from tracker_adapters.terminal_text import printable_line

_STYLE = """
:root { color-scheme: light dark; --page: #fff; --ink: #1b1f24; --soft: #57606a; --edge: #d0d7de; --card: #f6f8fa;
  --good: #1a7f37; --warn: #9a6700; --bad: #cf222e; --c0: #0072b2; --c1: #b37400; --c2: #00805c; --c3: #d55e00;
  --c4: #a8527f; --grid: #e3e7eb; }
@media (prefers-color-scheme: dark) { :root { --page: #0d1117; --ink: #e6edf3; --soft: #9aa5b1; --edge: #30363d;
  --card: #161b22; --good: #56d364; --warn: #e3b341; --bad: #ff7b72; --c0: #56b4e9; --c1: #e69f00; --c2: #2fc79a;
  --c3: #ff8a4c; --c4: #e49ac0; --grid: #262c34; } }
* { box-sizing: border-box; }
body { background: var(--page); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; margin: 0 auto;
  max-width: 1080px; padding: 24px; overflow-wrap: anywhere; }
h1 { font-size: 22px; margin: 0 0 8px; } h2 { font-size: 18px; margin: 32px 0 8px; } h3 { font-size: 16px; margin: 0; }
h4 { font-size: 13px; margin: 10px 0 2px; color: var(--soft); font-weight: 600; }
p { margin: 6px 0; } ul { margin: 2px 0; padding-left: 20px; } a { color: var(--c0); }
.soft { color: var(--soft); } .good { color: var(--good); } .warn { color: var(--warn); } .bad { color: var(--bad); }
.card { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 14px 16px;
  margin: 12px 0; }
.verdict { font-size: 17px; border-left: 5px solid currentColor; } .verdict > * { color: var(--ink); }
.pictures { display: flex; flex-wrap: wrap; gap: 12px; } .pictures > * { flex: 1 1 440px; min-width: 0; margin: 0; }
.pictures > .line { max-width: 510px; } figure { display: flex; flex-direction: column; } figcaption { order: -1; }
figure img { align-self: flex-start; } td, th { min-width: 6em; }
td.kind, td:last-child { min-width: 12em; } td.name { min-width: 10em; } td.number, th.number { min-width: 0; }
.wide { overflow-x: auto; }
.session { margin-top: 56px; } .card .pictures { margin-top: 12px; } .key { white-space: nowrap; margin-right: 12px; }
figcaption { color: var(--soft); font-size: 13px; } figure img { max-width: 100%; background: #fff; }
table { border-collapse: collapse; width: 100%; font-size: 14px; }
th, td { text-align: left; padding: 4px 10px 4px 0; border-bottom: 1px solid var(--edge); vertical-align: top; }
th { color: var(--soft); font-weight: 600; } td.number, th.number { text-align: right; white-space: nowrap; }
pre { background: var(--card); border: 1px solid var(--edge); border-radius: 8px; padding: 12px; white-space: pre-wrap;
  font-size: 13px; }
svg { width: 100%; height: auto; display: block; } svg text { fill: var(--soft); font: 11px system-ui, sans-serif; }
:target { outline: 2px solid var(--c1); }
@media print { body { max-width: none; } .wide { overflow: visible; } .card, figure, tr { break-inside: avoid; } }
"""

_NOTEBOOKS = {
    "dark": (
        "body[data-jp-theme-light=false]",
        "body.vscode-dark",
        "body.vscode-high-contrast:not(.vscode-high-contrast-light)",
        "html[theme=dark]",
        "[data-theme=dark]",
    ),
    "light": (
        "body[data-jp-theme-light=true]",
        "body.vscode-light",
        "body.vscode-high-contrast-light",
        "html[theme=light]",
        "[data-theme=light]",
    ),
}
"""How notebooks say which scheme they have: Jupyter, VS Code, Colab, and pages made of notebooks."""
_FRAME_STYLE = "".join(
    f":is({','.join(marks)}) iframe.stepscope{{color-scheme:{scheme}}}" for scheme, marks in _NOTEBOOKS.items()
)


def html_page(title: str, body: str) -> str:
    """Returns a whole page.

    Args:
        title: As it is; it is escaped here.
        body: HTML, in which everything is escaped already.
    """
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
        'img-src data:">\n'
        f"<title>{safe(title)}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def framed(page: str, height: int = 420) -> str:
    """Returns a whole page as a frame of ``height`` pixels, for a notebook: nothing in it runs, styles stay inside."""
    return notebook_frame(f'sandbox srcdoc="{escape(page)}"', height)


def notebook_frame(attributes: str, height: int) -> str:
    """Returns a frame for a notebook; what is in it is light or dark as the notebook is, where that says so.

    Args:
        attributes: HTML: what the frame shows.
        height: In pixels.
    """
    shown = f'class="stepscope" width="100%" height="{height}" style="border: 0"'
    return f"<style>{_FRAME_STYLE}</style><iframe {attributes} {shown}></iframe>"


def safe(text: object) -> str:
    """Returns a text for HTML and SVG, in one line: escaped, and control characters shown as Python writes them."""
    return escape(printable_line(str(text)))


def table(head: str, rows: Sequence[str]) -> str:
    """Returns a table, which scrolls in its own box where it is wider than the page.

    Args:
        head: HTML: the cells of the first row.
        rows: HTML: the further rows, whole.
    """
    return f'<div class="wide" tabindex="0"><table><tr>{head}</tr>{"".join(rows)}</table></div>'


def bullets(texts: Sequence[str]) -> str:
    """Returns texts as a list; nothing for none."""
    return f"<ul>{''.join(f'<li>{safe(text)}</li>' for text in texts)}</ul>" if texts else ""
