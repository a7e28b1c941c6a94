"""run_stage in real processes: complete or nothing, resumable after kill -9, loud about another request."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("stage_program.py")


@pytest.fixture
def config(tmp_path: Path) -> Path:
    (tmp_path / "numbers.txt").write_text(" ".join(map(str, range(12))))
    path = tmp_path / "run.yaml"
    path.write_text("kind: stage\nout: out\nnumbers: numbers.txt\n")
    return path


def run(*arguments: object, env: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(PROGRAM), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=os.environ | (env or {}))


def manifest(folder: Path) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder / "manifest.json").read_text())
    return loaded


def test_result_is_stored_and_returned_without_work(config: Path, tmp_path: Path) -> None:
    first, second = run(config), run(config)
    assert first.stdout.count("working") == 12 and second.stdout.count("working") == 0
    assert second.returncode == 0 and '{"numbers": 12, "dropped_broken": 0}' in second.stdout
    assert (tmp_path / "out/values.txt").read_text().splitlines()[3] == "3 6"
    assert not (tmp_path / "out.partial").exists() and not list((tmp_path / "out").glob(".*"))


def test_another_request_in_the_folder_is_an_error_that_shows_the_difference(config: Path) -> None:
    run(config)
    result = run(config, "factor=3")
    assert result.returncode == 1 and "holds another request" in result.stderr
    assert "config.factor: stored 2, asked for 3" in result.stderr and "Traceback" not in result.stderr


def test_changed_input_is_another_request(config: Path, tmp_path: Path) -> None:
    run(config)
    (tmp_path / "numbers.txt").write_text("1 2")
    assert "inputs.numbers: stored" in run(config).stderr


def test_identity_does_not_depend_on_where_things_lie(config: Path, tmp_path: Path) -> None:
    run(config)
    run(config, f"out={tmp_path / 'elsewhere/deep'}")
    here, there = manifest(tmp_path / "out"), manifest(tmp_path / "elsewhere/deep")
    assert here["identity"] == there["identity"] and here["outputs"] == there["outputs"]


def kill_after(config: Path, lines: int) -> None:
    command = [sys.executable, str(PROGRAM), str(config), "pause_s=0.05"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        assert process.stdout is not None
        for _ in range(lines):
            process.stdout.readline()
        process.send_signal(signal.SIGKILL)


def test_kill_9_at_several_points_then_resume_equals_an_uninterrupted_run(config: Path, tmp_path: Path) -> None:
    run(config, "pause_s=0.05", f"out={tmp_path / 'whole'}")
    kill_after(config, 3)
    journal = tmp_path / "out.partial/.journal.jsonl"
    finished = journal.read_bytes().count(b"\n")
    with journal.open("ab") as file:
        file.write(b'{"key": "7", "val')  # as if killed in the middle of a line
    kill_after(config, 4)
    result = run(config, "pause_s=0.05")
    assert 2 <= finished <= 3 and 0 < result.stdout.count("working") < 12 - finished
    assert manifest(tmp_path / "out")["outputs"] == manifest(tmp_path / "whole")["outputs"]


@pytest.mark.parametrize("moment", ["before the manifest", "working files deleted", "request deleted"])
def test_kill_while_publishing_is_no_loss(config: Path, tmp_path: Path, moment: str) -> None:
    run(config)
    whole = manifest(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "out.partial")
    if moment != "request deleted":
        (tmp_path / "out.partial/.request.json").write_text(json.dumps(whole["request"]))
    if moment == "before the manifest":
        (tmp_path / "out.partial/manifest.json").unlink()
    result = run(config)
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("working") == (12 if moment == "before the manifest" else 0)
    assert manifest(tmp_path / "out")["outputs"] == whole["outputs"]
    assert not list((tmp_path / "out").glob(".*")) and not (tmp_path / "out.partial").exists()


def test_other_request_does_not_resume_a_partial_folder(config: Path) -> None:
    kill_after(config, 3)
    assert "config.factor: stored 2, asked for 3" in run(config, "pause_s=0.05", "factor=3").stderr


def test_a_request_that_failed_before_any_work_gives_way_to_the_corrected_one(config: Path) -> None:
    everything = list(range(12))
    assert run(config, f"broken={everything}", "folder_first=true").returncode == 1
    assert run(config).returncode == 0


def test_execution_settings_are_no_part_of_the_request(config: Path) -> None:
    assert run(config, "broken=[3, 4]").returncode == 1
    raised = run(config, "broken=[3, 4]", "max_error_share=0.2")
    assert raised.returncode == 0 and raised.stdout.count("working") == 2, "what was finished is kept"
    assert run(config, "broken=[3, 4]", "max_error_share=0.9").stdout.count("working") == 0
    assert "config.broken: stored" in run(config, "max_error_share=0.2").stderr


def test_progress_is_logged_always(config: Path, tmp_path: Path) -> None:
    run(config)
    last = json.loads((tmp_path / "out/logs/progress.jsonl").read_text().splitlines()[-1])
    assert (last["stage"], last["step"], last["total"]) == ("double", 12, 12)


@pytest.mark.parametrize("garbage", ["", "{}", "[]", "not json"])
def test_garbage_in_place_of_our_files_is_a_clear_error(config: Path, tmp_path: Path, garbage: str) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/manifest.json").write_text(garbage)
    (tmp_path / "b.partial").mkdir()
    (tmp_path / "b.partial/.request.json").write_text(garbage)
    for result, message in [
        (run(config), "is no finished stage"),
        (run(config, f"out={tmp_path / 'b'}"), "not a stage"),
    ]:
        assert result.returncode == 1 and message in result.stderr and "Traceback" not in result.stderr


def test_output_inside_an_input_or_around_it_is_refused(config: Path, tmp_path: Path) -> None:
    (tmp_path / "source").mkdir()
    (tmp_path / "source/numbers.txt").write_text("1 2")
    inside = run(config, f"numbers={tmp_path / 'source'}", f"out={tmp_path / 'source/out'}")
    around = run(config, f"numbers={tmp_path / 'source/numbers.txt'}", f"out={tmp_path}")
    for result in (inside, around):
        assert result.returncode == 1 and "Traceback" not in result.stderr
    assert "lie in each other" in inside.stderr and not (tmp_path / "source/out.partial").exists()


def test_foreign_folders_are_left_alone(config: Path, tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out/thesis.txt").write_text("precious")
    assert "is no finished stage" in run(config).stderr
    (tmp_path / "fresh.partial").mkdir()
    (tmp_path / "fresh.partial/thesis.txt").write_text("precious")
    assert "files of no known request" in run(config, f"out={tmp_path / 'fresh'}").stderr
    assert (tmp_path / "out/thesis.txt").read_text() == "precious"


def test_read_only_output_is_a_clear_error(config: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a file where a folder is wanted")  # also stops root, whom modes don't
    result = run(config, f"out={tmp_path / 'file/out'}")
    assert result.returncode == 1 and "can't be written" in result.stderr and "Traceback" not in result.stderr


def test_missing_and_unfinished_inputs_are_named(config: Path, tmp_path: Path) -> None:
    result = run(config, f"numbers={tmp_path / 'gone'}")
    assert "gone is missing" in result.stderr and "Traceback" not in result.stderr
    kill_after(config, 2)
    assert (
        "its stage is unfinished"
        in run(config, f"numbers={tmp_path / 'out/values.txt'}", f"out={tmp_path / 'b'}").stderr
    )


def test_lost_output_file_is_noticed(config: Path, tmp_path: Path) -> None:
    run(config)
    (tmp_path / "out/values.txt").unlink()
    assert "files are gone or changed since it was made (first: values.txt)" in run(config).stderr


def test_failed_items_are_counted_and_too_many_stop_the_stage(config: Path, tmp_path: Path) -> None:
    result = run(config, "broken=[3, 4]")
    assert result.returncode == 1 and "2 of 12 items failed" in result.stderr
    assert (tmp_path / "out.partial/logs/errors.jsonl").read_text().count("broken") == 2
    again = run(config, "broken=[3, 4]")
    assert again.stdout.count("working") == 2, "finished items aren't repeated, failed ones are"
    allowed = run(config, "broken=[3, 4]", "max_error_share=0.2", f"out={tmp_path / 'b'}")
    assert '"dropped_broken": 2' in allowed.stdout


def test_second_process_in_one_folder_is_refused(config: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(config), "pause_s=3.0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        process.stdout.readline()
        result = run(config, "pause_s=3.0")
        assert "another process is running this stage" in result.stderr
        process.kill()


def test_second_process_gets_the_result_that_the_first_is_about_to_publish(config: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(config), "pause_s=0.1"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL) as process:
        assert process.stdout is not None
        for _ in range(4):
            process.stdout.readline()
        result = run(config, "pause_s=0.1")
        process.communicate()
    assert process.returncode == 0 and result.returncode == 0, result.stderr
    assert result.stdout.count("working") == 0 and '{"numbers": 12, "dropped_broken": 0}' in result.stdout
    assert not (tmp_path / "out.partial").exists() and not list((tmp_path / "out").glob(".*"))


def test_several_processes_at_once_do_the_work_once(config: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(PROGRAM), str(config), "pause_s=0.01"]
    several = [subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for _ in range(4)]
    outputs = [process.communicate(timeout=60) for process in several]
    assert [process.returncode for process in several] == [0] * 4, outputs
    assert sum(output.count("working") for output, _ in outputs) == 12
    assert not (tmp_path / "out.partial").exists() and not list((tmp_path / "out").glob(".*"))


@pytest.mark.parametrize("target", ["nowhere", "out", "empty"])
def test_links_that_lead_to_no_result_are_refused_at_the_start(config: Path, tmp_path: Path, target: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "out").symlink_to(tmp_path / target)
    result = run(config)
    assert result.returncode == 1 and "out" in result.stderr and "Traceback" not in result.stderr
    assert result.stdout.count("working") == 0 and not (tmp_path / "out.partial").exists()


def test_link_to_a_finished_result_is_that_result(config: Path, tmp_path: Path) -> None:
    run(config)
    (tmp_path / "out").rename(tmp_path / "moved")
    (tmp_path / "out").symlink_to(tmp_path / "moved")
    result = run(config)
    assert result.returncode == 0 and result.stdout.count("working") == 0


def test_error_of_the_system_is_one_message_and_keeps_what_is_finished(config: Path, tmp_path: Path) -> None:
    numbers = tmp_path / "numbers.txt"
    numbers.write_text(" ".join(map(str, range(30))))
    limit = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (600, 600));"
    program = f"{limit} sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    command = [sys.executable, "-c", program, str(PROGRAM), str(config)]
    result = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1 and "File too large" in result.stderr and "is kept in" in result.stderr
    assert "Traceback" not in result.stderr
    done = result.stdout.count("working")
    again = run(config)
    assert again.returncode == 0 and 0 < again.stdout.count("working") <= 30 - done + 1 < 30


@pytest.mark.parametrize("which", ["STAGE", "DISTRIBUTED"])
def test_other_ranks_wait_for_the_manifest_of_rank_0(config: Path, tmp_path: Path, which: str) -> None:
    (tmp_path / "out").mkdir()  # an empty folder is no result: the other rank must not take it for one
    command = [sys.executable, str(PROGRAM), which, str(config)]
    environment = os.environ | {"WORLD_SIZE": "2", "RANK": "1"}
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as other:
        time.sleep(0.5)
        assert other.poll() is None
        assert run(which, config, env={"WORLD_SIZE": "2", "RANK": "0"}).returncode == 0
        output, _ = other.communicate(timeout=30)
    assert other.returncode == 0 and ("rank 1 worked too" in output) == (which == "DISTRIBUTED")
    assert (tmp_path / "out/manifest.json").is_file()
