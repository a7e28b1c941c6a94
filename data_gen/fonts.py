"""Which fonts this machine draws pages with: pixels depend on them, so manifests name them."""

import hashlib
import shutil
import subprocess

_TIMEOUT_S = 30.0


def installed_fonts() -> dict[str, str | int]:
    """{"families": how many, "sha256": of the sorted list of families and versions}; empty without fontconfig."""
    program = shutil.which("fc-list")
    if program is None:
        return {}
    command = [program, "--format", "%{family}|%{style}|%{fontversion}\n"]
    listed = subprocess.run(command, capture_output=True, timeout=_TIMEOUT_S, check=False)
    if listed.returncode != 0:
        return {}
    lines = sorted(set(listed.stdout.splitlines()))
    return {
        "families": len({line.partition(b"|")[0] for line in lines}),
        "sha256": hashlib.sha256(b"\n".join(lines)).hexdigest(),
    }
