"""Runs every benchmark of this folder, one after the other, and stops at the first that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def main() -> int:
    """Run them in the order of their names; their output goes to the terminal as it comes."""
    here = Path(__file__).resolve()
    for script in sorted(here.parent.glob("*.py")):
        if script != here:
            print(f"\n== {script.name}", flush=True)
            code = subprocess.run([sys.executable, str(script)], check=False).returncode
            if code:
                return code
    return 0


if __name__ == "__main__":
    sys.exit(main())
