from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys, time
start = time.process_time()
import turngym.envs
print(time.process_time() - start)
print(*(name for name in ("torch", "transformers", "renderers", "docker", "openai") if name in sys.modules))
"""


def test_import_is_fast_and_light():
    best, heavy = 99.0, ""
    for _ in range(5):  # processor seconds, and the best of five: the machine may be busy with other things
        ran = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
        seconds, heavy = ran.stdout.split("\n")[:2]
        best = min(best, float(seconds))
        if best < 0.5:
            break
    assert heavy == ""
    assert best < 0.5


def test_the_bare_name_is_refused(tmp_path):
    root = __import__("pathlib").Path(__file__).parents[2]
    ran = subprocess.run(
        [sys.executable, "-c", "import envs"],
        cwd=root,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        text=True,
    )
    assert "import turngym.envs, not envs" in ran.stderr
