#!/usr/bin/env bash
# Fonts, tesseract, git and venv support, where they are missing. Debian and Ubuntu (root or sudo); elsewhere it says
# what to install.
set -euo pipefail

python=${1:-python3}
missing=()
"$python" -c 'import ensurepip' 2>/dev/null || missing+=(python3-venv)
command -v tesseract >/dev/null || missing+=(tesseract-ocr)
fc-list 2>/dev/null | grep -q 'Liberation Sans' || missing+=(fontconfig fonts-liberation)
command -v git >/dev/null || missing+=(git)
[ "${#missing[@]}" -eq 0 ] && exit 0

if ! command -v apt-get >/dev/null; then
  echo "please install with your package manager: ${missing[*]} (names as on Debian), then run make again" >&2
  exit 1
fi
sudo=""
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "as root: apt-get install ${missing[*]}" >&2; exit 1; }
  sudo=sudo
fi
$sudo apt-get update -q
DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "${missing[@]}"
