"""The wheel holds the whole package, and works from another folder in a venv without the checkout."""

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("configs", "data_gen", "train", "mining", "eval")


@pytest.fixture(scope="module")
def python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The interpreter of a new venv that has the wheel; third-party packages are borrowed from this one."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]  # sdist, and the wheel from it
    subprocess.run(build, check=True, capture_output=True, timeout=300)
    venv.create(folder / "venv", with_pip=False)
    (wheel,) = folder.glob("tilewright-*.whl")
    interpreter = folder / "venv/bin/python"
    (site,) = (folder / "venv/lib").glob("python*/site-packages")
    install = [sys.executable, "-m", "pip", "--python", str(interpreter), "install", "-q", "--no-deps", str(wheel)]
    subprocess.run(install, check=True, capture_output=True, timeout=300)
    # a plain path line: the .pth of this checkout's editable install isn't followed from there
    (site / "borrowed.pth").write_text(sysconfig.get_paths()["purelib"] + "\n")
    return interpreter


def call(python: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    result = subprocess.run(
        [str(python), *arguments], cwd=cwd, env=environment, capture_output=True, text=True, timeout=300
    )
    assert result.returncode == 0, result.stderr
    return result


def test_wheel_is_what_is_imported_and_carries_yamls_and_markers(python: Path, tmp_path: Path) -> None:
    code = "import tilewright, pathlib; print(pathlib.Path(tilewright.__file__).parent)"
    installed = Path(call(python, "-c", code, cwd=tmp_path).stdout.strip())
    assert python.parents[1] in installed.parents
    for package in PACKAGES:
        wanted = {
            path.relative_to(ROOT).as_posix()
            for pattern in ("*.py", "*.yaml", "*.tsv", "*.js", "*.css", "*.json")
            for path in (ROOT / package).rglob(pattern)
        }
        found = {path.relative_to(installed).as_posix() for path in (installed / package).rglob("*") if path.is_file()}
        assert wanted <= found, f"missing from the wheel: {sorted(wanted - found)}"
    assert (installed / "py.typed").is_file()


def test_console_script_and_a_smoke_stage_run_from_another_folder(python: Path, tmp_path: Path) -> None:
    script = str(python.with_name("tilewright"))
    assert "make_pages" in call(python, script, "--help", cwd=tmp_path).stdout
    call(python, script, "make_pages", "configs/data_gen/make_pages/smoke.yaml", cwd=tmp_path)
    assert (tmp_path / "runs/smoke/pages/pages.jsonl").is_file()


def test_source_links_are_relative() -> None:
    for package in PACKAGES:
        link = ROOT / "src/tilewright" / package
        assert link.is_symlink() and link.readlink() == Path("../..", package)
