"""How programs end: the kernel's word for it, and what an interpreter owes a program that ends."""

from __future__ import annotations

import signal

import pytest


async def run(sandbox, code, *arguments, **options):
    return await sandbox.exec(["python3", "-c", code, *arguments], **options)


async def script(sandbox, text, *arguments, **options):
    await sandbox.write_file("program.py", text.encode())
    return await sandbox.exec(["python3", "program.py", *arguments], **options)


@pytest.mark.parametrize("code", [0, 1, 2, 77, 124, 125, 126, 127, 128, 137, 139, 143, 255])
async def test_exit_codes_are_the_programs_own(sandbox, code):
    result = await run(sandbox, f"raise SystemExit({code})")
    assert (result.status, result.exit_code, result.signal) == ("exited", code, None)
    assert result.ok == (code == 0)


@pytest.mark.parametrize(
    ("statement", "code", "said"),
    [
        ("sys.exit()", 0, ""),
        ("sys.exit(None)", 0, ""),
        ("sys.exit('went wrong')", 1, "went wrong\n"),
        ("sys.exit(256 + 3)", 3, ""),
        ("sys.exit(-1)", 255, ""),
        ("sys.exit(['a', 1])", 1, "['a', 1]\n"),
        ("sys.exit(True)", 1, ""),
        ("exit(4)", 4, ""),
        ("os._exit(5)", 5, ""),
    ],
)
async def test_ways_to_exit(sandbox, statement, code, said):
    result = await run(sandbox, f"import os, sys\n{statement}")
    assert (result.status, result.exit_code, result.stderr_text) == ("exited", code, said)


async def test_an_uncaught_exception(sandbox):
    result = await script(sandbox, "def f():\n    return 1 / 0\n\nf()\n")
    assert (result.status, result.exit_code) == ("exited", 1)
    assert result.stderr_text.splitlines()[0] == "Traceback (most recent call last):"
    assert 'home/program.py", line 4, in <module>' in result.stderr_text
    assert result.stderr_text.endswith("ZeroDivisionError: division by zero\n")
    assert "<turngym>" not in result.stderr_text


async def test_a_syntax_error(sandbox):
    result = await script(sandbox, "print('never'\n")
    assert (result.exit_code, result.stdout) == (1, b"")
    assert "SyntaxError" in result.stderr_text
    assert "<turngym>" not in result.stderr_text


async def test_a_missing_script_and_a_missing_program(sandbox):
    result = await sandbox.exec(["python3", "no_such.py"])
    assert (result.status, result.exit_code) == ("exited", 2)
    assert b"no_such.py" in result.stderr
    result = await sandbox.exec(["no-such-program"])
    assert (result.status, result.exit_code) == ("exited", 127)
    result = await sandbox.exec(["./program.sh"])
    assert (result.status, result.exit_code) == ("exited", 127)
    await sandbox.write_file("program.sh", b"#!/bin/sh\nexit 9\n")
    assert (await sandbox.exec(["./program.sh"])).exit_code == 126
    await sandbox.write_file("program.sh", b"#!/bin/sh\nexit 9\n", executable=True)
    assert (await sandbox.exec(["./program.sh"])).exit_code == 9


DEADLY = ["SIGSEGV", "SIGKILL", "SIGABRT", "SIGTERM", "SIGBUS", "SIGFPE", "SIGPIPE", "SIGILL", "SIGUSR1", "SIGHUP",
          "SIGALRM", "SIGSYS", "SIGRTMIN", "SIGRTMAX", "SIGINT", "SIGQUIT"]  # fmt: skip


@pytest.mark.parametrize("name", DEADLY)
async def test_deaths_by_signal_are_told_from_exits(sandbox, name):
    code = (
        "import os, signal, sys\n"
        "number = getattr(signal, sys.argv[1])\n"
        "if number != signal.SIGKILL: signal.signal(number, signal.SIG_DFL)\n"
        "os.write(1, b'dying')\n"
        "os.kill(os.getpid(), number)\n"
    )
    result = await run(sandbox, code, name)
    assert (result.status, result.exit_code, result.signal) == ("signalled", None, getattr(signal, name))
    assert result.stdout == b"dying"


async def test_an_unhandled_keyboard_interrupt(sandbox):
    result = await run(
        sandbox, "import os, signal; print('on', flush=True); os.kill(os.getpid(), signal.SIGINT)"
    )
    assert (result.status, result.signal) == ("signalled", signal.SIGINT)
    assert b"KeyboardInterrupt" in result.stderr
    assert result.stdout == b"on\n"


async def test_files_left_open_are_flushed(sandbox):
    result = await script(sandbox, "file = open('left.txt', 'w')\nfile.write('all of it')\n")
    assert result.ok
    assert await sandbox.read_file("left.txt") == b"all of it"


async def test_exit_functions_run_once_and_last(sandbox):
    text = (
        "import atexit, sys\n"
        "atexit.register(lambda: print('second'))\n"
        "atexit.register(lambda: print('first'))\n"
        "print('body', end=' ')\n"
        "sys.exit(3)\n"
    )
    result = await script(sandbox, text)
    assert (result.stdout_text, result.exit_code) == ("body first\nsecond\n", 3)


async def test_an_exit_function_that_raises(sandbox):
    text = "import atexit\natexit.register(lambda: 1 / 0)\nprint('body')\n"
    result = await script(sandbox, text)
    assert result.stdout == b"body\n"
    assert b"ZeroDivisionError" in result.stderr
    assert result.exit_code == 0  # as CPython has it


async def test_threads_are_waited_for_and_daemons_are_not(sandbox):
    text = (
        "import threading, time\n"
        "def late(): time.sleep(0.3); print('late')\n"
        "threading.Thread(target=late).start()\n"
        "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
        "print('main ends')\n"
    )
    result = await script(sandbox, text)
    assert (result.status, result.stdout) == ("exited", b"main ends\nlate\n")
    assert result.wall_s < 4


async def test_an_exception_in_a_thread_is_not_the_programs(sandbox):
    text = "import threading\nt = threading.Thread(target=lambda: 1 / 0)\nt.start(); t.join()\nprint('on')\n"
    result = await script(sandbox, text)
    assert (result.exit_code, result.stdout) == (0, b"on\n")
    assert b"ZeroDivisionError" in result.stderr


async def test_output_that_cannot_be_flushed_shows_in_the_code(sandbox):
    result = await script(sandbox, "import os, sys\nsys.stdout.write('x')\nos.close(1)\n")
    assert (result.status, result.exit_code) == ("exited", 120)


async def test_destructors_of_the_program_run(sandbox):
    text = "class A:\n    def __del__(self): print('gone')\na = A()\n"
    assert (await script(sandbox, text)).stdout == b"gone\n"


async def test_figures_are_plausible(sandbox):
    text = "import time\nend = time.process_time() + 0.3\nwhile time.process_time() < end: pass\ntime.sleep(0.2)\n"
    result = await script(sandbox, text)
    assert 0.5 <= result.wall_s < 4
    assert 0.29 <= result.cpu_s < 1.5
    assert 1 < result.peak_memory_mib < 256


async def test_the_module_switch_and_the_rest_of_the_line(sandbox):
    await sandbox.write_file("package/__init__.py", b"name = 'package'\n")
    await sandbox.write_file("package/other.py", b"value = 41\n")
    await sandbox.write_file(
        "package/__main__.py",
        b"import sys\nfrom . import name\nfrom .other import value\nprint(name, value + 1, sys.argv[1:], __name__)\n",
    )
    result = await sandbox.exec(["python3", "-m", "package", "-x", "y"])
    assert result.stdout_text == "package 42 ['-x', 'y'] __main__\n"
    result = await sandbox.exec(["python3", "-m", "json.tool"], stdin=b'{"a": 1}')
    assert result.stdout_text == '{\n    "a": 1\n}\n'


async def test_a_script_sees_its_own_folder_and_name(sandbox):
    await sandbox.write_file("code/helper.py", b"def seven(): return 7\n")
    await sandbox.write_file(
        "code/main.py",
        b"import sys, helper, __main__\n"
        b"print(helper.seven(), __file__, __name__, sys.argv, __main__.helper is helper, __doc__)\n",
    )
    result = await sandbox.exec(["python3", "code/main.py", "a"])
    home = (await run(sandbox, "import os; print(os.getcwd())")).stdout_text.strip()
    assert result.stdout_text == f"7 {home}/code/main.py __main__ ['code/main.py', 'a'] True None\n"


async def test_scripts_with_an_encoding_or_a_byte_order_mark(sandbox):
    await sandbox.write_file(
        "latin.py", "# -*- coding: latin-1 -*-\nprint('ü' == '\\xfc')\n".encode("latin-1")
    )
    await sandbox.write_file("mark.py", b"\xef\xbb\xbfprint('marked')\n")
    assert (await sandbox.exec(["python3", "latin.py"])).stdout == b"True\n"
    assert (await sandbox.exec(["python3", "mark.py"])).stdout == b"marked\n"


HONEST = {
    "asyncio": """
import asyncio
async def main():
    done = await asyncio.gather(*(asyncio.sleep(0.01, n) for n in range(5)))
    process = await asyncio.create_subprocess_exec("echo", "hi", stdout=asyncio.subprocess.PIPE)
    out, _ = await process.communicate()
    print(done, out, await asyncio.to_thread(lambda: 1))
asyncio.run(main())
""",
    "multiprocessing": """
import multiprocessing as mp
def double(x): return 2 * x
def send(end): end.send("through"); end.close()
if __name__ == "__main__":
    with mp.Pool(2) as pool: print(pool.map(double, range(4)))
    ours, theirs = mp.Pipe()
    child = mp.Process(target=send, args=(theirs,)); child.start(); print(ours.recv()); child.join()
    with mp.Lock(): print(mp.Value("i", 3).value)
    queue = mp.Queue(); queue.put(1); print(queue.get())
    with mp.Manager() as manager: print(dict(manager.dict(a=1)))
""",
    "spawned": """
import multiprocessing as mp
def double(x): return 2 * x
if __name__ == "__main__":
    with mp.get_context("spawn").Pool(1) as pool: print(pool.map(double, [21]))
""",
    "executors": """
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
if __name__ == "__main__":
    with ThreadPoolExecutor(4) as pool: print(list(pool.map(str, range(3))))
    with ProcessPoolExecutor(2) as pool: print(list(pool.map(abs, [-1, 2])))
""",
    "subprocess": """
import os, subprocess, sys
print(subprocess.run(["sh", "-c", "echo $0 && exit 3"], capture_output=True))
print(subprocess.run([sys.executable, "-c", "print(input())"], input="in", text=True, capture_output=True).stdout)
print(subprocess.check_output("ls /usr | head -1", shell=True) != b"", os.system("true"))
""",
    "sqlite": """
import sqlite3
with sqlite3.connect("data.db") as base:
    base.execute("create table t (a, b)"); base.executemany("insert into t values (?, ?)", [(1, "x"), (2, "y")])
print(sqlite3.connect("data.db").execute("select sum(a), max(b) from t").fetchall())
""",
    "temporary files": """
import os, tempfile
with tempfile.NamedTemporaryFile() as file, tempfile.TemporaryDirectory() as folder:
    file.write(b"abc"); file.flush(); print(os.path.getsize(file.name), os.listdir(folder))
with tempfile.TemporaryFile() as file: file.write(b"x"); print(file.tell())
""",
    "threads and signals": """
import queue, signal, threading, time
q = queue.Queue()
threads = [threading.Thread(target=q.put, args=(n,)) for n in range(8)]
[t.start() for t in threads]; [t.join() for t in threads]
print(sorted(q.queue))
signal.signal(signal.SIGALRM, lambda *_: print("rang")); signal.setitimer(signal.ITIMER_REAL, 0.05); signal.pause()
""",
    "the standard library": """
import abc, argparse, array, ast, base64, bz2, calendar, cmath, code, collections, configparser, csv, dataclasses
import datetime, decimal, difflib, dis, doctest, email, enum, fractions, functools, getpass, gettext, glob, gzip
import hashlib, heapq, hmac, html, http.client, inspect, io, ipaddress, itertools, json, locale, logging, lzma, math
import mmap, optparse, pathlib, pickle, platform, pprint, random, re, sched, secrets, selectors, shelve, shlex
import shutil, smtplib, socketserver, ssl, statistics, string, tarfile, textwrap, timeit, tomllib, trace, types
import typing, unicodedata, unittest, urllib.request, uuid, wave, weakref, xml.etree.ElementTree, zipfile, zoneinfo
print(getpass.getuser() != "", statistics.mean([1, 3]))
print(hashlib.sha256(b"").hexdigest()[:4], len(secrets.token_bytes(8)))
""",
    "a test run": """
import unittest
class T(unittest.TestCase):
    def test_a(self): self.assertEqual(1 + 1, 2)
unittest.main(argv=["x", "-v"], exit=False); print("ran")
""",
    "time zones and locale": """
import datetime, os, time
os.environ["TZ"] = "UTC"; time.tzset()
print(datetime.datetime(2024, 2, 29).astimezone(datetime.timezone.utc).isoformat(), "ü".encode(), flush=True)
""",
    "shared memory": """
from multiprocessing import shared_memory
block = shared_memory.SharedMemory(create=True, size=1000)
again = shared_memory.SharedMemory(block.name)
block.buf[:3] = b"abc"; print(bytes(again.buf[:3])); again.close(); block.close(); block.unlink()
""",
}


@pytest.mark.parametrize("name", HONEST)
async def test_honest_programs_work(sandbox, name):
    result = await script(sandbox, HONEST[name])
    assert (result.status, result.exit_code) == ("exited", 0), result.stderr_text[-2000:]
    assert result.stdout
    assert b"Traceback" not in result.stderr, result.stderr_text[-2000:]


async def test_a_server_and_its_client_on_loopback(isolating, sandbox):
    text = """
import http.server, threading, urllib.request
server = http.server.ThreadingHTTPServer(("127.0.0.1", 8000), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(urllib.request.urlopen("http://localhost:8000/program.py").read()[:20])
server.shutdown()
"""
    for _ in range(2):  # the port is free again at once
        result = await script(sandbox, text)
        assert b"import http" in result.stdout, result.stderr_text


async def test_two_runs_draw_different_numbers(create):
    code = "import os, random, uuid; print(random.random(), uuid.uuid4(), os.urandom(4).hex())"
    sandbox = await create()
    other = await create()
    drawn = [(await run(box, code)).stdout for box in (sandbox, sandbox, other, other)]
    assert len(set(drawn)) == 4
