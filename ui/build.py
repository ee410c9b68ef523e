"""What `./dev ui` does after Vite: notices of third parties, and the list of what was built.

    python ui/build.py            write static/THIRD-PARTY.txt and static/build.json
    python ui/build.py --check    exit 1 unless static/ was built from these sources

`build.json` tells whether the committed files are what `ui/` builds, also where there is no Node.
"""

from __future__ import annotations

import gzip
import hashlib
import json
import subprocess
import sys
from pathlib import Path

UI = Path(__file__).parent
STATIC = UI.parent / "src" / "omnigraph" / "explorer" / "static"
SOURCES = ("index.html", "package.json", "package-lock.json", "tsconfig.json", "vite.config.ts")


def sources_digest() -> str:
    """Return one digest of everything that the built files are made of."""
    paths = [UI / name for name in SOURCES]
    paths += sorted(path for path in (UI / "src").rglob("*") if path.is_file())
    digest = hashlib.sha256()
    for path in paths:
        content = path.read_bytes()
        digest.update(f"{path.relative_to(UI).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def described(path: Path) -> dict[str, str | int]:
    """Return what `build.json` says of one file."""
    content = path.read_bytes()
    return {
        "path": path.relative_to(STATIC).as_posix(),
        "bytes": len(content),
        "gzip_bytes": len(gzip.compress(content, 9, mtime=0)),
        "sha256": hashlib.sha256(content).hexdigest(),
    }


def notices() -> str:
    """Return the licences of the packages that are part of the built files."""
    lock = json.loads((UI / "package-lock.json").read_text("utf-8"))["packages"]
    parts = []
    for place, package in sorted(lock.items()):
        if not place or package.get("dev"):
            continue
        folder = UI / place
        texts = sorted(
            path for path in folder.iterdir() if path.name.lower().startswith(("licen", "notice"))
        )
        name = place.rpartition("node_modules/")[2]
        head = f"{name} {package['version']} ({package['license']})"
        body = "\n\n".join(path.read_text("utf-8").strip() for path in texts)
        parts.append(f"{head}\n{'=' * len(head)}\n\n{body or package['license']}\n")
    return "The explorer contains these packages.\n\n" + "\n\n".join(parts)


def main(arguments: list[str]) -> int:
    """Write what belongs beside the built files, or check it."""
    if arguments == ["--check"]:
        built = json.loads((STATIC / "build.json").read_text("utf-8"))
        return int(built["sources_sha256"] != sources_digest())
    (STATIC / "THIRD-PARTY.txt").write_text(notices(), "utf-8")
    node = subprocess.run(["node", "--version"], capture_output=True, text=True, check=True)  # noqa: S607
    files = sorted(path for path in STATIC.rglob("*") if path.is_file())
    document = {
        "sources_sha256": sources_digest(),
        "node": node.stdout.strip(),
        "files": [described(path) for path in files if path.name != "build.json"],
    }
    (STATIC / "build.json").write_text(json.dumps(document, indent=2) + "\n", "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
