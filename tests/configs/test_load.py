"""Strict YAML: what fits loads, what doesn't raises with file, key, wanted and found."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.load import ConfigError, load


@dataclass(frozen=True)
class Optim:
    lr: float
    weight_decay: float = 0.0


@dataclass(frozen=True)
class Config:
    out: Path
    optim: Optim
    steps: int = 3
    mode: Literal["naive", "judged"] = "judged"
    ranks: tuple[int, ...] = ()
    span: tuple[float, float] = (0.0, 1.0)
    pages: Path | None = None
    files: tuple[Path, ...] = ()
    shares: dict[str, float] = field(default_factory=dict)
    groups: dict[str, Optim] = field(default_factory=dict)
    quiet: bool = False
    name: str | None = None


def write(folder: Path, text: str) -> Path:
    path = folder / "run.yaml"
    path.write_text(f"kind: stage\nout: there\noptim: {{lr: 1.0e-3}}\n{text}", encoding="utf-8")
    return path


def test_values_arrive_typed(tmp_path: Path) -> None:
    text = "steps: 7\nranks: [1, 2]\nshares: {a: 1}\ngroups: {vit: {lr: 1}}\nfiles: [x, ../y]\nmode: naive\n"
    config = load(write(tmp_path, text), Config)
    assert config == Config(
        out=tmp_path / "there", optim=Optim(lr=1e-3), steps=7, ranks=(1, 2), shares={"a": 1.0},
        groups={"vit": Optim(lr=1.0)}, files=(tmp_path / "x", tmp_path.parent / "y"), mode="naive",
    )  # fmt: skip
    assert isinstance(config.shares["a"], float)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stepz: 3", r"run.yaml: unknown keys \['stepz'\] \(did you mean 'steps'\?\)"),
        ("steps: many", "run.yaml:steps: wanted int, found 'many'"),
        ("steps: true", "run.yaml:steps: wanted int, found True"),
        ("steps: 3.0", "run.yaml:steps: wanted int, found 3.0"),
        ("span: [.nan, 1.0]", r"run.yaml:span\[0\]: wanted a finite float, found nan"),
        ("shares: {a: .inf}", "run.yaml:shares.a: wanted a finite float, found inf"),
        ("quiet: 1", "run.yaml:quiet: wanted bool, found 1"),
        ("mode: judgd", r"run.yaml:mode: wanted one of .* \(did you mean 'judged'\?\)"),
        ("ranks: 3", "run.yaml:ranks: wanted a list"),
        ("ranks: [1, x]", r"run.yaml:ranks\[1\]: wanted int"),
        ("span: [1.0]", "run.yaml:span: wanted 2 values, found 1"),
        ("shares: [1]", "run.yaml:shares: wanted a mapping"),
        ("groups: {vit: {lrr: 1}}", r"run.yaml:groups.vit: unknown keys \['lrr'\]"),
        ("steps: 1\nsteps: 2", "key 'steps' stands twice"),
        ("1: 2", "key 1 is not a string"),
        ("steps: [", "run.yaml: "),
        ("steps: 2024-02-30", "run.yaml: "),
        pytest.param("steps: " + "[" * 5000, "run.yaml: ", id="deep"),
    ],
)
def test_what_does_not_fit_names_file_key_and_hint(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        load(write(tmp_path, text), Config)


@pytest.mark.parametrize(("written", "advice"), [("2e-5", "2.0e-5"), ("1E4", "1.0e+4"), ("2.5e3", "2.5e+3")])
def test_float_that_yaml_reads_as_string_says_how_to_write_it(tmp_path: Path, written: str, advice: str) -> None:
    path = tmp_path / "run.yaml"
    path.write_text(f"kind: stage\nout: x\noptim: {{lr: {written}}}\n", encoding="utf-8")
    with pytest.raises(ConfigError, match="run.yaml:optim.lr: wanted float.*write " + advice.replace("+", r"\+")):
        load(path, Config)
    path.write_text(f"kind: stage\nout: x\noptim: {{lr: {advice}}}\n", encoding="utf-8")
    assert load(path, Config).optim.lr == float(written)


def test_missing_key_missing_file_wrong_kind(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    with pytest.raises(ConfigError, match="no such config file"):
        load(path, Config)
    path.write_text("kind: stage\nout: x\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"missing keys \['optim'\]"):
        load(path, Config)
    for text in ("out: x\n", "kind: recipe\nstages: []\n", "- 1\n", ""):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigError, match=r"kind|mapping"):
            load(path, Config)


def test_overrides_go_deep_and_are_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path.parent)
    path = write(tmp_path, "")
    config = load(
        path, Config, ["optim.lr=2.0e-5", "ranks=[4]", "groups.llm.lr=3", "name=007", "pages=p", "quiet=true"]
    )
    assert (config.optim.lr, config.ranks, config.groups["llm"].lr, config.name) == (2e-5, (4,), 3.0, "007")
    assert config.pages == tmp_path.parent / "p", "a path on the command line is relative to the working directory"
    for override, message in [
        ("lr=1", "unknown keys"),
        ("steps", "wanted key=value"),
        ("steps=x", "wanted int"),
        ("optim.lr.x=1", "not a mapping"),
        ("groups={1: {lr: 2.0}}", "key 1 is not a string"),
        ("groups={llm: {lr: 2.0}, llm: {lr: 3.0}}", "stands twice"),
    ]:
        with pytest.raises(ConfigError, match=message):
            load(path, Config, [override])


def test_runs_placeholder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "run.yaml"
    path.write_text("kind: stage\nout: ${runs}/a\noptim: {lr: 1.0}\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TILEWRIGHT_RUNS", raising=False)
    assert load(path, Config).out == tmp_path / "runs" / "a"
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(tmp_path / "elsewhere"))
    assert load(path, Config).out == tmp_path / "elsewhere" / "a"


@given(st.floats(allow_nan=False, allow_infinity=False), st.integers(), st.text("abc /.:#", max_size=8))
def test_any_value_survives_a_round_trip(lr: float, steps: int, name: str) -> None:
    import tempfile

    import yaml

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "run.yaml"
        path.write_text(
            yaml.safe_dump({"kind": "stage", "out": "o", "optim": {"lr": lr}, "steps": steps, "name": name})
        )
        config = load(path, Config)
    assert (config.optim.lr, config.steps, config.name) == (lr, steps, name)


@dataclass(frozen=True)
class Flat:
    kind: Literal["flat"]


@dataclass(frozen=True)
class Stored:
    kind: Literal["stored", "mapped"]
    folder: Path
    parts: int = 1


@dataclass(frozen=True)
class Indexes:
    out: Path
    optim: Optim
    indexes: dict[str, Flat | Stored]


def test_a_union_of_dataclasses_is_told_apart_by_kind(tmp_path: Path) -> None:
    text = "indexes: {a: {kind: flat}, b: {kind: mapped, folder: x}}"
    config = load(write(tmp_path, text), Indexes)
    assert config.indexes == {"a": Flat("flat"), "b": Stored("mapped", tmp_path / "x")}
    for wrong, message in (
        ("{kind: flatt}", r"indexes\.a: kind: wanted one of .*'flat'.* found 'flatt' \(did you mean 'flat'"),
        ("{folder: x}", r"indexes\.a: kind: wanted one of .* found None"),
        ("{kind: stored, folder: x, part: 2}", r"unknown keys \['part'\] \(did you mean 'parts'"),
        ("{kind: [1]}", "kind: wanted one of"),
        ("[]", "wanted a mapping"),
    ):
        with pytest.raises(ConfigError, match=message):
            load(write(tmp_path, f"indexes: {{a: {wrong}}}"), Indexes)
