"""`turngym sandbox`: what this machine can isolate, a program in a sandbox, and how fast that is."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import typer
from pydantic import ValidationError

from turngym.agents.sync import run_sync
from turngym.cli.console import err, print_json, print_table, say
from turngym.sandboxes import bench as benching
from turngym.sandboxes.capabilities import CAPABILITIES, MEANINGS, UNTRUSTED, Capabilities
from turngym.sandboxes.errors import Misuse, SandboxError, first_complaint
from turngym.sandboxes.limits import Limits
from turngym.sandboxes.opening import BACKENDS, DEFAULT, open_backend

app = typer.Typer(help="Isolate model-written code: look, try, measure.", no_args_is_help=True)

_BACKEND_HELP = "namespace, one-shot, remote:URL or subprocess."


@app.command()
def doctor(
    backend: list[str] = typer.Option([], "--backend", "-b", help="Look at this one only (repeatable)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Try what every backend really enforces here, and say what would help; exit code 1 if the default is too weak.

    Example: `turngym sandbox doctor`
    """
    specs = backend or [name for name in BACKENDS if name != "remote"]
    found = run_sync(lambda: _look_at(specs))
    if as_json:
        print_json({spec: _as_data(one) for spec, one in found.items()})
    else:
        _show(found)
    judged = found.get(DEFAULT, found[specs[0]])
    if isinstance(judged, str) or judged.missing(UNTRUSTED):
        raise typer.Exit(1)


@app.command()
def run(
    argv: list[str] = typer.Argument(
        metavar="PROGRAM [ARGS]…", help="What to run; put -- before options of its own."
    ),
    backend: str = typer.Option(DEFAULT, "--backend", "-b", help=_BACKEND_HELP),
    file: list[Path] = typer.Option(
        [], "--file", "-f", help="Copy this file into the sandbox first (repeatable)."
    ),
    wall_s: float = typer.Option(10.0, min=0.01, help="Time limit."),
    memory_mib: int = typer.Option(512, min=16, help="Memory limit."),
    network: bool = typer.Option(False, help="Let it reach the network."),
    as_json: bool = typer.Option(False, "--json", help="Print the result as JSON."),
) -> None:
    """Run one program in a sandbox, with this standard input; the exit code is the program's.

    Example: `turngym sandbox run -- python3 -c "print(6 * 7)"`
    """
    limits = Limits(wall_s=wall_s, cpu_s=wall_s, memory_mib=memory_mib, network=network)
    files = {path.name: path.read_bytes() for path in file}
    stdin = b"" if sys.stdin is None or sys.stdin.isatty() else sys.stdin.buffer.read()

    async def play() -> Any:
        made = open_backend(backend)
        try:
            async with await made.create(limits) as sandbox:
                for name, data in files.items():
                    await sandbox.write_file(name, data)
                return await sandbox.exec(argv, stdin=stdin)
        finally:
            await made.close()

    result = run_sync(play)
    if as_json:
        fields = dataclasses.asdict(result) | {"stdout": result.stdout_text, "stderr": result.stderr_text}
        print_json({name: value for name, value in fields.items() if name != "reply"})
    else:
        sys.stdout.buffer.write(result.stdout)
        sys.stderr.buffer.write(result.stderr)
        sys.stdout.flush()
        if result.status != "exited":
            what = (
                f"signal {result.signal}" if result.status == "signalled" else result.status.replace("_", " ")
            )
            say(f"ended by: {what} after {result.wall_s:.2f} s", err)
    raise typer.Exit(result.exit_code if result.exit_code is not None else 1)


@app.command()
def serve(
    backend: str = typer.Option(DEFAULT, "--backend", "-b", help="What is lent: namespace or one-shot."),
    host: str = typer.Option("127.0.0.1", help="Address to listen on; anything but loopback needs a token."),
    port: int = typer.Option(8765, min=0, max=65535, help="0 takes a free one."),
    token_env: str = typer.Option(
        "TURNGYM_SANDBOX_TOKEN", help="Environment variable with the bearer token."
    ),
    token_file: Path | None = typer.Option(None, help="File with the bearer token instead."),
    tls_certificate: Path | None = typer.Option(
        None, help="PEM file of the certificate; with it, HTTPS only."
    ),
    tls_key: Path | None = typer.Option(None, help="PEM file of the certificate's key."),
    max_sandboxes: int = typer.Option(
        64, min=1, help="The most at once; a further one is told to wait (429)."
    ),
    max_calls: int = typer.Option(32, min=1, help="The most programs that run at once."),
) -> None:
    """Lend this machine's sandboxes to others, until Ctrl-C. Clients name it as remote:URL.

    Example: `turngym sandbox serve --port 8765`
    """
    from turngym.sandboxes.server.config import ServeConfig
    from turngym.sandboxes.server.serving import serve as lend

    try:
        config = ServeConfig(
            host=host,
            port=port,
            token_env=token_env,
            token_file=token_file,
            tls_certificate=tls_certificate,
            tls_key=tls_key,
            max_sandboxes=max_sandboxes,
            max_calls=max_calls,
        )
    except ValidationError as error:
        raise Misuse(first_complaint(error)) from error

    async def play() -> None:
        made = open_backend(backend)
        try:
            (await made.capabilities()).require(UNTRUSTED)
            await lend(made, config, ready=lambda url: say(f"sandboxes at {url} (Ctrl-C ends them all)", err))
        finally:
            await made.close()

    run_sync(play)


@app.command()
def bench(
    rounds: int = typer.Option(5, min=1, help="Rounds of each contender."),
    per_round: int = typer.Option(100, min=2, help="Programs in a round."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Measure how many isolated `print(1)` a second each backend runs, side by side.

    Example: `turngym sandbox bench`
    """
    found = run_sync(lambda: _bench(rounds, per_round))
    if as_json:
        print_json([{**dataclasses.asdict(one), "rate": one.rate} for one in found])
        return
    plain = next((one.rate for one in found if one.name == "plain subprocess" and one.rate), 0.0)
    print_table(
        "print(1) from nothing to a closed sandbox",
        ["what", "in flight", "per second", "median ms", "p99 ms", "× subprocess"],
        [
            [one.name, str(one.in_flight), one.problem]
            if one.problem
            else [
                one.name,
                str(one.in_flight),
                f"{one.rate:,.0f}",
                f"{one.percentile_ms(0.5):.2f}",
                f"{one.percentile_ms(0.99):.2f}",
                f"{one.rate / plain:.2f}" if plain else "",
            ]
            for one in found
        ],
    )


async def _look_at(specs: list[str]) -> dict[str, Capabilities | str]:
    return {spec: await _look(spec) for spec in specs}


async def _look(spec: str) -> Capabilities | str:
    """Capabilities of a backend, or why there is none."""
    try:
        made = open_backend(spec)
    except SandboxError as error:
        return str(error)
    try:
        return await made.capabilities()
    except SandboxError as error:
        return str(error)
    finally:
        await made.close()


async def _bench(rounds: int, per_round: int) -> list[benching.Measured]:
    contenders: dict[tuple[str, int], benching.Run] = {}
    closers: list[Callable[[], Awaitable[None]]] = []
    broken: list[benching.Measured] = []
    for spec, name in (("namespace", "namespace (warm)"), ("one-shot", "one-shot (bubblewrap)")):
        made = open_backend(spec)
        closers.append(made.close)
        for in_flight in (1, 2, 4):
            contenders[name, in_flight] = benching.one_program(made)
    contenders["raw bubblewrap", 2] = benching.raw_bubblewrap
    contenders["plain subprocess", 2] = benching.plain_subprocess
    for spec, name, start in (
        ("namespace", "session call", benching.session_call),
        ("namespace", "program in an open sandbox", benching.repeated_exec),
        ("docker", "program in an open container", benching.repeated_exec),
        ("", "docker exec", lambda _: benching.docker_exec()),
    ):
        try:
            made = open_backend(spec or DEFAULT)
            closers.append(made.close)
            contenders[name, 1], close = await start(made)
            closers.insert(0, close)
        except SandboxError as error:
            broken.append(benching.Measured(name, 1, problem=str(error)))
    try:
        return await benching.measure(contenders, rounds=rounds, per_round=per_round) + broken
    finally:
        for close in closers:
            await close()


def _as_data(one: Capabilities | str) -> dict[str, Any]:
    if isinstance(one, str):
        return {"available": False, "why": one}
    return {
        "available": True,
        "enforced": [name for name in CAPABILITIES if name in one.enforced],
        "missing": {name: one.remedies.get(name, MEANINGS[name]) for name in one.missing(CAPABILITIES)},
        "fit_for_untrusted_code": not one.missing(UNTRUSTED),
    }


def _show(found: dict[str, Capabilities | str]) -> None:
    names = list(found)
    rows = [
        [
            name,
            MEANINGS[name],
            *(
                "–" if isinstance(one, str) else "yes" if name in one.enforced else "no"
                for one in found.values()
            ),
        ]
        for name in CAPABILITIES
    ]
    print_table("What is really enforced here (each was tried)", ["", "meaning", *names], rows)
    for spec, one in found.items():
        if isinstance(one, str):
            say(f"{spec}: not available: {one}")
            continue
        if not one.enforced:
            say(f"{spec}: isolates nothing; for programs that you trust like your own")
            continue
        fit = (
            "fit for code that nobody has read"
            if not one.missing(UNTRUSTED)
            else "NOT fit for code that nobody has read"
        )
        say(f"{spec}: {fit}")
        for name in one.missing(CAPABILITIES):
            say(f"  {name}: {one.remedies.get(name, 'not enforced')}")
