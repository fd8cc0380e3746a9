"""Makes one portable program of the modules in `inside/`, for Pythons that have no turngym installed.

The program is a small start text (`BOOT`) and a table from module names to source or to compiled code. Compiled
code belongs to one Python version; it is made by that Python itself, once per backend.
"""

from __future__ import annotations

import functools
import subprocess
from pathlib import Path
from typing import Final

from turngym.sandboxes.errors import SandboxUnavailable

_PACKAGE: Final = "turngym.sandboxes.inside"
_PARENTS: Final = ("turngym", "turngym.sandboxes", _PACKAGE)

_LOADER: Final = """
import sys, _frozen_importlib
class Bundle:
    def __init__(self, table): self.table = table
    def find_spec(self, name, path=None, target=None):
        if name in self.table:
            return _frozen_importlib.ModuleSpec(name, self, is_package=self.table[name] is None)
    def create_module(self, spec): return None
    def exec_module(self, module):
        code = self.table[module.__name__]
        if isinstance(code, bytes):
            import marshal
            code = marshal.loads(code)
        elif isinstance(code, str):
            code = compile(code, "<turngym>/" + module.__name__.rpartition(".")[2] + ".py", "exec", dont_inherit=True)
        if code is not None: exec(code, module.__dict__)
"""
_RUN: Final = """
sys.meta_path.insert(0, Bundle(table))
from turngym.sandboxes.inside.main import main
main(sys.argv[1:])
"""
_COMPILE: Final = """
import __future__, ast, marshal, sys
table = {}
for name, source in eval(sys.stdin.buffer.read()).items():
    file = "<turngym>/" + name.rpartition(".")[2] + ".py"
    if source is not None:
        tree = ast.parse(source, file)
        # The statement would look for a module, which takes a while; its effect is a flag of the compiler.
        tree.body = [line for line in tree.body if getattr(line, "module", None) != "__future__"]
        flags = __future__.annotations.compiler_flag
        source = marshal.dumps(compile(tree, file, "exec", flags, dont_inherit=True))
    table[name] = source
sys.stdout.buffer.write(marshal.dumps(table))
"""

BOOT_COMPILED: Final = (
    _LOADER
    + """
import marshal, os
fd = int(sys.argv.pop(1))
table = marshal.loads(os.pread(fd, os.fstat(fd).st_size, 0))
os.close(fd)
"""
    + _RUN
)
"""Text for `python3 -I -S -c`; its first argument is a descriptor of what `compiled` made."""

BOOT_STREAMED: Final = (
    _LOADER
    + """
import marshal, os
inner, outer = os.pipe()
if os.fork() == 0:
    def take(count):
        data = b""
        while len(data) < count:
            part = os.read(0, count - len(data))
            if not part: os._exit(1)
            data += part
        return data
    table = eval(take(int.from_bytes(take(4), "big")).partition(b":")[2])
    for name, source in table.items():
        file = "<turngym>/" + name.rpartition(".")[2] + ".py"
        table[name] = source and marshal.dumps(compile(source, file, "exec", dont_inherit=True))
    with open(outer, "wb") as pipe: pipe.write(marshal.dumps(table))
    os._exit(0)
os.close(outer)
with open(inner, "rb") as pipe: table = marshal.loads(pipe.read())
os.wait()
"""
    + _RUN
)
"""Text for `python3 -I -S -c` of any version; the first frame on its standard input is `repr(sources())`.

A child compiles them: the holes that compiling leaves in memory would make every later fork dearer.
"""


def sources() -> dict[str, str | None]:
    """Source of every module inside, by full name; None for packages."""
    folder = Path(__file__).parents[1] / "inside"
    table: dict[str, str | None] = dict.fromkeys(_PARENTS)
    for path in sorted(folder.glob("*.py")):
        if path.stem != "__init__":
            table[f"{_PACKAGE}.{path.stem}"] = path.read_text(encoding="utf-8")
    return table


@functools.cache
def boot_from_source() -> str:
    """Text for `python3 -I -S -c` of any version: it carries the sources with it."""
    return f"{_LOADER}\ntable = {sources()!r}\n{_RUN}"


@functools.cache
def compiled(python: str) -> bytes:
    """The modules as code of one interpreter's version.

    Raises:
        SandboxUnavailable: the interpreter does not run.
    """
    try:
        done = subprocess.run(
            [python, "-I", "-S", "-c", _COMPILE],
            input=repr(sources()).encode(),
            capture_output=True,
            timeout=60,
            check=True,
            env={},
        )
    except (OSError, subprocess.SubprocessError) as error:
        detail = getattr(error, "stderr", b"") or str(error).encode()
        raise SandboxUnavailable(
            f"the Python of the sandboxes, {python}, does not work: {detail.decode('utf-8', 'replace').strip()[-300:]}"
        ) from error
    return done.stdout
