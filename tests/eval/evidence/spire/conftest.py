"""A scripted server over HTTP that replies by the RULES of the test module."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = Path(__file__).parents[3] / "data_gen/llm/scripted_server.py"


@pytest.fixture(scope="module")
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Its URL."""
    folder = tmp_path_factory.mktemp("server")
    (folder / "rules.py").write_text(request.module.RULES)
    command = [sys.executable, str(SERVER), "--log", str(folder / "log.jsonl"), "--rules", str(folder / "rules.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip()
        process.kill()
