"""`turngym sandbox`: what it prints, and the exit codes that scripts rely on."""

import json
import os
import subprocess
import sys

import pytest

from turngym.sandboxes import async_bridge
from turngym.sandboxes.errors import SandboxError
from turngym.sandboxes.opening import open_backend


def turngym(*args, stdin=b"", timeout=120):
    return subprocess.run(
        [sys.executable, "-m", "turngym", *args],
        input=stdin,
        capture_output=True,
        timeout=timeout,
        check=False,
    )


@pytest.fixture(scope="module")
def _namespaces():
    """Skip where there are no namespaces, unless they must be there."""

    async def try_it():
        backend = open_backend("namespace")
        try:
            await (await backend.create()).close()
        finally:
            await backend.close()

    try:
        async_bridge.run(try_it())
    except SandboxError as error:
        if "namespace" in os.environ.get("TURNGYM_REQUIRE", "").split():
            raise
        pytest.skip(str(error))


@pytest.mark.usefixtures("_namespaces")
def test_run_passes_streams_files_and_the_exit_code_on(tmp_path):
    script = tmp_path / "twice.py"
    script.write_text("import sys; print(sys.stdin.read() * 2, end=''); sys.exit(7)")
    done = turngym("sandbox", "run", "-f", str(script), "--", "python3", "twice.py", stdin=b"ab")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"abab", b"")


@pytest.mark.usefixtures("_namespaces")
def test_run_says_how_a_program_ended_that_did_not_exit():
    done = turngym(
        "sandbox",
        "run",
        "--wall-s",
        "0.5",
        "--",
        "python3",
        "-c",
        "print(1, flush=True); [0 for _ in iter(int, 1)]",
    )
    assert done.returncode == 1
    assert done.stdout.startswith(b"1")
    done = turngym("sandbox", "run", "--json", "--wall-s", "0.5", "--", "sleep", "9")
    found = json.loads(done.stdout)
    assert (done.returncode, found["status"], found["exit_code"]) == (1, "timeout", None)


@pytest.mark.usefixtures("_namespaces")
def test_doctor_tells_what_holds_and_its_exit_code_whether_that_is_enough():
    done = turngym("sandbox", "doctor", "-b", "namespace", "--json")
    found = json.loads(done.stdout)["namespace"]
    assert found["available"]
    assert done.returncode == int(not found["fit_for_untrusted_code"])
    assert {"files", "network", "processes", "credentials"} <= set(found["enforced"])
    assert "kernel" in found["missing"]
    weak = turngym("sandbox", "doctor", "-b", "subprocess")
    assert weak.returncode == 1
    assert b"isolates nothing" in weak.stdout


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("run", "-b", "namspace", "--", "true"), "did you mean 'namespace'"),
        (("run", "-b", "remote:", "--", "true"), "remote:http://"),
        (("run", "-b", "remote:ftp://x", "--", "true"), "url"),
        (("serve", "--host", "0.0.0.0"), "needs a token"),
        (("serve", "--tls-key", "key.pem"), "TLS needs both"),
    ],
)
def test_misuse_is_a_line_and_exit_code_2(args, says, monkeypatch):
    monkeypatch.delenv("TURNGYM_SANDBOX_TOKEN", raising=False)
    done = turngym("sandbox", *args)
    assert done.returncode == 2
    assert says in done.stderr.decode()
    assert b"Traceback" not in done.stderr
    assert b"not foreseen" not in done.stderr


def test_help_has_an_example_for_every_command():
    for command in ("doctor", "run", "bench", "serve"):
        done = turngym("sandbox", command, "--help")
        assert done.returncode == 0
        assert f"turngym sandbox {command}".encode() in done.stdout
