#!/usr/bin/env bash
# A Chromium for rendering: one that is there, else Playwright's build, else the distribution's package.
set -euo pipefail

bin=$1 # the venv's bin folder
for name in chromium-headless-shell chromium chromium-browser google-chrome; do
  # Ubuntu's `chromium` may be a stub that asks for a snap: only one that answers counts
  if command -v "$name" >/dev/null && timeout 30 "$name" --version >/dev/null 2>&1; then exit 0; fi
done
if compgen -G "${PLAYWRIGHT_BROWSERS_PATH:-$HOME/.cache/ms-playwright}/chromium-*" >/dev/null; then exit 0; fi

sudo=""
[ "$(id -u)" -eq 0 ] || sudo=sudo
if timeout 300 "$bin/playwright" install chromium >/dev/null 2>&1; then
  $sudo "$bin/playwright" install-deps chromium && exit 0
  echo "playwright could not install Chromium's libraries; trying the distribution's Chromium" >&2
fi
if command -v apt-get >/dev/null; then
  $sudo apt-get update -q
  for package in chromium-headless-shell chromium; do # the shell is the lighter one; older releases have it not
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -q --no-install-recommends "$package" && exit 0
  done
fi
echo "please install Chromium (\`playwright install chromium\` failed, and so did the distribution's package)" >&2
exit 1
