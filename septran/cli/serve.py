"""`septran serve`: leaf tasks over HTTP, for trainers and agents."""

from __future__ import annotations

import os
import secrets
import signal
import threading
from pathlib import Path

import click

from septran.cli.files import OUTPUT_FOLDER
from septran.cli.options import common, terminal
from septran.cli.printed import Serving
from septran.cli.submission_bounds import bounded


@click.command("serve")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=8765,
    show_default=True,
    help="Where it listens; 0: any free port, which is printed.",
)
@click.option(
    "--workers",
    type=click.IntRange(min=1),
    default=1,
    show_default=True,
    help="Submissions judged at once.",
)
@click.option(
    "--queue",
    type=click.IntRange(min=1),
    default=64,
    show_default=True,
    help="Submissions that may wait.",
)
@click.option(
    "--dir",
    "folder",
    type=OUTPUT_FOLDER,
    help="Of the ledger; default: environment below SEPTRAN_HOME.",
)
@click.option(
    "--token",
    envvar="SEPTRAN_SERVE_TOKEN",
    help="What clients have to say; default: made anew and written to DIR/token.  [env: SEPTRAN_SERVE_TOKEN]",
)
@bounded
@common
def command(
    *,
    host: str,
    port: int,
    workers: int,
    queue: int,
    folder: Path | None,
    token: str | None,
    elements: int,
    seconds: float,
    memory_mib: int,
) -> int:
    """Judge leaves for trainers and agents over HTTP: tasks, contracts, submissions, reward vectors."""
    from septran import settings as settings_
    from septran.environment.request import Bounds
    from septran.environment.server import Server
    from septran.environment.service import Service

    settings = settings_.load()
    place = folder or settings.home / "environment"
    bounds = Bounds(elements=elements, seconds=seconds, memory_mib=memory_mib)
    service = Service(place, settings=settings, workers=workers, most=queue, bounds=bounds)
    try:
        server = Server((host, port), service, token or _made(place / "token"))
    except (OSError, UnicodeError) as e:
        service.close()
        raise _no_address(host, port, e) from e
    server.log = place / "server.log"
    term = terminal()
    term.show(Serving(url=server.url, dir=str(place)), f"{server.url}\n")
    term.note(f"the ledger is {place}; stop with Ctrl-C")
    service.start()
    signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=server.shutdown).start())
    try:
        server.serve_forever(poll_interval=0.2)
    except KeyboardInterrupt:
        term.note("stopped; what waits goes on at the next start")
    finally:
        service.close()
        server.server_close()
    return 0


def _no_address(host: str, port: int, e: OSError | UnicodeError) -> Exception:
    """Return what a person needs; an error of a file stays what it is."""
    from septran.errors import EnvironmentProblem

    if isinstance(e, OSError) and e.filename is not None:
        return e
    why = getattr(e, "strerror", None) or str(e)
    return EnvironmentProblem.of(
        "V002", f"cannot listen on {host}:{port}: {why}", help="--port 0 takes a free port"
    )


def _made(path: Path) -> str:
    """Return a new token, readable by its owner alone in `path`."""
    token = secrets.token_urlsafe(24)
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        stream.write(token + "\n")
    return token
