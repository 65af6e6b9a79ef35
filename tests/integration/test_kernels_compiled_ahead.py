"""`auctune doctor --compile` where nothing was compiled before, as set-up calls it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def test_all_kernels_are_compiled_once(tmp_path: Path) -> None:
    def said() -> str:
        command = [sys.executable, "-m", "auctune", "doctor", "--compile"]
        env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
        done = subprocess.run(command, capture_output=True, text=True, env=env, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stderr

    assert said().count("compiled kernels of") == 6
    assert "compil" not in said()
