import pytest

from turngym.envs.builtin.repo.workspace import Workspace, WorkspaceError, told
from turngym.sandboxes import ExecResult, Limits
from turngym.sandboxes.service import sandbox_service

LIMITS = Limits(wall_s=5.0, disk_mib=16)


@pytest.fixture
def workspace():
    return Workspace({"a.py": "x = 1\ny = 2\n", "sub/b.py": "x = 3\n"}, LIMITS)


def test_looking(workspace):
    assert workspace.listed() == "a.py (12)\nsub/b.py (6)"
    assert workspace.listed("sub/") == "sub/b.py (6)"
    assert workspace.shown("./a.py", 2) == "2: y = 2\n3: "
    assert workspace.shown("a.py", 1, 1) == "1: x = 1"
    assert workspace.found("x =") == "a.py:1: x = 1\nsub/b.py:1: x = 3"
    assert workspace.found("x =", "sub") == "sub/b.py:1: x = 3"
    assert workspace.found("nowhere") == "nothing found"


def test_editing(workspace):
    workspace.edit("a.py", "x = 1\ny", "z")
    assert workspace.text("a.py") == "z = 2\n"
    workspace.write("new/c.txt", "ü")
    assert workspace.listed("new") == "new/c.txt (2)"
    for old in ("", "q", " "):
        with pytest.raises(WorkspaceError, match="not once"):
            workspace.edit("a.py", old, "")


@pytest.mark.parametrize(
    "path",
    ["/etc/passwd", "../x", "sub/../../x", "a\0b", "x" * 300, "\ud800", "..", "/", "a.py/x", "sub", "."],
)
def test_paths_that_lead_elsewhere_are_refused(workspace, path):
    with pytest.raises(WorkspaceError):
        workspace.write(path, "x")
    with pytest.raises(WorkspaceError):
        workspace.text(path)


def test_sizes_are_bounded(workspace):
    with pytest.raises(WorkspaceError, match="1 MiB"):
        workspace.write("big", "x" * ((1 << 20) + 1))
    for number in range(4):
        workspace.write(f"big{number}", "x" * ((1 << 20) - 10))
    with pytest.raises(WorkspaceError, match="4 MiB"):
        workspace.write("more", "x" * (1 << 20))
    assert "more" not in workspace.files


@pytest.mark.usefixtures("namespaces")
class TestRun:
    async def run(self, workspace, *argv):
        return await workspace.run(sandbox_service(), list(argv))

    async def test_what_a_program_leaves_of_files_stays(self, workspace):
        code = "import a, os; open('made', 'w').write(str(a.x)); os.remove('sub/b.py'); os.symlink('/etc/passwd', 'l')"
        assert await self.run(workspace, "python3", "-c", code) == "exit code 0"
        assert workspace.files == {"a.py": b"x = 1\ny = 2\n", "made": b"1"}

    async def test_how_it_ended_is_told(self, workspace):
        assert await self.run(workspace, "python3", "-c", "print(1); exit(3)") == "exit code 3\n1"
        assert "exit code 127" in await self.run(workspace, "nothing")
        assert "signal 9" in await self.run(workspace, "python3", "-c", "import os; os.kill(os.getpid(), 9)")

    async def test_too_much_is_dropped_and_told(self, workspace):
        before = dict(workspace.files)
        said = await self.run(workspace, "python3", "-c", "open('big', 'wb').write(b'x' * (6 << 20))")
        assert "was dropped" in said
        assert workspace.files == before

    async def test_binary_files_survive_and_are_not_shown(self, workspace):
        await self.run(workspace, "python3", "-c", "open('blob', 'wb').write(bytes(range(256)))")
        with pytest.raises(WorkspaceError, match="no text"):
            workspace.text("blob")
        assert (
            await self.run(workspace, "python3", "-c", "print(len(open('blob', 'rb').read()))")
            == "exit code 0\n256"
        )


def test_times_are_left_out():
    result = ExecResult(
        "exited", 0, None, b"", b"..\nRan 2 tests in 0.013s\n\nOK", False, False, 0.1, 0.1, 1.0
    )
    assert told(result) == "exit code 0\n..\nRan 2 tests in …\n\nOK"
