"""``stepscope view``: a web page that shows runs, live or later."""

import gc

import click

from stepscope.commands.common import echo, one_line_errors


@click.command("view", epilog="\b\nExamples:\n  stepscope view runs\n  stepscope view runs/exp1 runs/exp2 --port 0")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--port", type=click.IntRange(0, 65535), help="The port, 0 for any free one [8765, or the next free].")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on. Any other than a "
              "loopback address requires the token in the URL.")  # fmt: skip
@click.option("--token", is_flag=True, help="Require a token on a loopback address, too: other users can reach it.")
@click.option(
    "--allowed-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Another host name "
    "under which the viewer is reached, such as a proxy's; requires a token. May be given several times.",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("--export", metavar="FOLDER", help="Write the page and its data to FOLDER, to open it from a file.")
@one_line_errors
def command(
    runs: tuple[str, ...],
    *,
    port: int | None,
    host: str,
    token: bool,
    allowed: tuple[str, ...],
    no_browser: bool,
    export: str | None,
) -> None:
    """Show each RUN in the browser: what is wrong, and every series, histogram, image and datapoint.

    RUN is a run's folder, a folder that contains runs, a pattern, or the URL of either. The page follows live runs, and
    new runs of a folder appear in it. Only the runs are served, and nothing is written. Ctrl-C stops the server.
    """
    if export is not None:
        from stepscope.viewer.export import export_page

        echo(f"wrote {export_page(runs, export)}")
        return
    gc.disable()  # somebody waits for the page, and modules that are imported are no garbage
    try:
        from stepscope.viewer.serving import ViewerServer, allow_open_files, end_process
        from stepscope.viewer.watched_runs import RunList

        allow_open_files()
        server = ViewerServer(RunList(runs), host=host, port=port, token=token, allowed=allowed)
        gc.freeze()
    finally:
        gc.enable()
    echo(f"stepscope view: {server.url} (Ctrl-C ends it)")
    server.run((lambda: None) if no_browser else lambda: _show(server.url))
    end_process()


def _show(url: str) -> None:
    import webbrowser

    webbrowser.open(url)
