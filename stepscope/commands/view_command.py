"""``stepscope view``: a web page that shows runs, live or later."""

import webbrowser

import click

from stepscope.commands.common import echo, one_line_errors


@click.command("view", epilog="\b\nExamples:\n  stepscope view runs\n  stepscope view runs/exp1 runs/exp2 --port 0")
@click.argument("runs", nargs=-1, required=True, metavar="RUN...")
@click.option("--port", type=click.IntRange(0, 65535), help="The port, 0 for any free one [8765, or the next free].")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address; others than this machine's loopback "
              "addresses need the token in the URL.")  # fmt: skip
@click.option("--token", is_flag=True, help="Ask for a token, also at a loopback address: other users share them.")
@click.option(
    "--allowed-host",
    "allowed",
    multiple=True,
    metavar="NAME",
    help="Another name under which the viewer is "
    "reached, such as a proxy's; asks for a token. May be given several times.",
)
@click.option("--no-browser", is_flag=True, help="Do not open a browser.")
@click.option("--export", metavar="FOLDER", help="Write the page with its data there instead: to open from a file.")
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
    """Open a page that shows each RUN: what is wrong, every series, histogram, picture and datapoint.

    RUN is a run's folder, a folder that contains runs, a pattern, or the URL of either. Runs may be written meanwhile,
    and new ones are found. Only the runs are served, and nothing is written. Ctrl-C ends it.
    """
    if export is not None:
        from stepscope.viewer.export import export_page

        echo(f"wrote {export_page(runs, export)}")
        return
    from stepscope.viewer.serving import ViewerServer, allow_open_files, end_process
    from stepscope.viewer.watched_runs import RunList

    allow_open_files()
    server = ViewerServer(RunList(runs), host=host, port=port, token=token, allowed=allowed)
    echo(f"stepscope view: {server.url} (Ctrl-C ends it)")
    server.run((lambda: None) if no_browser else lambda: webbrowser.open(server.url))
    end_process()
