"""What a notebook embeds is light or dark as the notebook is, whatever the system prefers."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from viewer_pages import NEEDS_THE_PAGE, viewer

import stepscope
from debuggers.pictures.html_page import framed, html_page
from stepscope.viewer.notebook import EmbeddedPage

pytestmark = [*NEEDS_THE_PAGE, pytest.mark.slow]
# As JupyterLab and Notebook, VS Code, Colab and documentation made of notebooks say it.
DARK = ('data-jp-theme-light="false"', 'class="vscode-dark"', 'class="vscode-high-contrast"', 'data-theme="dark"')
LIGHT = (
    'data-jp-theme-light="true"',
    'class="vscode-light"',
    'class="vscode-high-contrast vscode-high-contrast-light"',
    'data-theme="light"',
)
IN_COLAB = "<html theme={scheme}><body>{output}</body></html>"
BACKGROUNDS = {"dark": "rgb(13, 17, 23)", "light": "rgb(255, 255, 255)"}


@pytest.fixture
def notebook(page):
    """Shows a notebook of a server on a system whose scheme is not forced on frames; returns the frame in it."""
    shown = []

    class Notebook(BaseHTTPRequestHandler):
        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(shown[-1].encode())

        def log_message(self, *args):
            pass

    def show(content):
        shown.append(content)
        page.goto(f"http://127.0.0.1:{server.server_port}/notebook")
        return page.locator("iframe").element_handle().content_frame()

    with ThreadingHTTPServer(("127.0.0.1", 0), Notebook) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        page.emulate_media(color_scheme="null")
        yield show
        page.emulate_media(color_scheme="light")
        page.goto("about:blank")
        server.shutdown()
        thread.join()


def background(frame):
    frame.wait_for_load_state()
    return frame.evaluate("getComputedStyle(document.body).backgroundColor")


@pytest.mark.parametrize(("scheme", "marks"), [("dark", DARK), ("light", LIGHT)])
def test_a_card_has_the_scheme_of_its_notebook(notebook, scheme, marks):
    card = framed(html_page("card", "<p>text</p>"))
    pages = [f"<body {mark}>{card}</body>" for mark in marks]
    for shown in (*pages, IN_COLAB.format(scheme=scheme, output=card)):
        assert background(notebook(shown)) == BACKGROUNDS[scheme], shown[:80]


def test_the_page_in_a_frame_has_it_too_and_changes_with_it(notebook, page, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
    with viewer(tmp_path / "run") as url:
        frame = notebook(f'<body data-jp-theme-light="false">{EmbeddedPage(url, 400)._repr_html_()}</body>')
        frame.wait_for_selector(":root[data-scheme=dark]")
        page.evaluate("document.body.dataset.jpThemeLight = 'true'")
        frame.wait_for_selector(":root[data-scheme=light]")
        page.goto("about:blank")
