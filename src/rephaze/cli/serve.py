"""``rephaze serve``: the runs of a folder in a browser."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path
from typing import Annotated

import typer

from rephaze.cli.output import JsonOption, print_json, stdout
from rephaze.errors import MissingExtraError, SpecError


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("serve")(serve)


def serve(
    folder: Annotated[Path, typer.Argument(help="Runs lie right below it.")] = Path("runs"),
    host: Annotated[
        str, typer.Option(help="Address to listen on; beyond the loopback a token is needed.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 takes any that is free.", min=0, max=65535)] = 8321,
    json_output: JsonOption = False,
) -> None:
    """Show the runs of a folder in a browser: filter, open, compare two, start a search, watch it, stop it.

    Only this machine can reach it unless --host says otherwise; then every request needs the token in the address
    that is printed. Nothing outside the folder is read or written. Needs the extra "serve".

    Example:  rephaze serve runs
    """
    try:
        from rephaze.serve.app import Server, run_server
        from rephaze.serve.guard import is_loopback
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in ("starlette", "uvicorn"):
            raise
        raise MissingExtraError(
            "rephaze serve needs starlette and uvicorn: pip install 'rephaze[serve]'"
        ) from None
    token = "" if is_loopback(host) else secrets.token_urlsafe(24)
    server = Server(folder, token)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as opened:
        opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            opened.bind((host, port))
            # Before the address is told: who comes at once waits instead of being refused.
            opened.listen()
        except (TypeError, UnicodeError):  # of a name that cannot be one
            raise SpecError("--host", host, "is no address", "127.0.0.1 is this machine") from None
        except OSError as error:
            raise SpecError(
                "--port", port, f"cannot be listened on ({error.strerror})", "--port 0 takes a free one"
            ) from None
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{opened.getsockname()[1]}/" + (f"?token={token}" if token else "")
        if json_output:
            print_json({"url": url, "folder": str(server.folder.root)})
        else:
            stdout.print(f"runs of {server.folder.root} at {url} (Ctrl-C ends it)", markup=False, soft_wrap=True)
        run_server(server, opened)
