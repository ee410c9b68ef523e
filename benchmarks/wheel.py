"""The wheel in a fresh environment: does the quickstart work, what does it weigh, how fast does it start?

    ./dev bench wheel [--python PYTHON]... [--installed]

Builds the wheel, installs it with plain pip into an environment of its own for each interpreter (the
running one by default), runs every Python block of `docs/user/getting-started.md` there in an empty
directory, and prints seconds, megabytes by package, and the cost of the import and of a first query.
With `--installed` nothing is built or installed: printed is what the package and its dependencies, without those of
extras and of developers, take in the environment that runs this. More than the bar is a failure.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
import venv
from importlib import metadata
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "user" / "getting-started.md"
BAR_MB = 650
IMPORT = "import time; s = time.process_time(); import omnigraph; print(time.process_time() - s)"


def main() -> None:
    """Try the wheel with each interpreter."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", help="an interpreter; may be given again")
    parser.add_argument("--installed", action="store_true", help="weigh what is installed here")
    arguments = parser.parse_args()
    if arguments.installed:
        sys.exit(weigh_installed())
    pythons = arguments.python or [sys.executable]
    with tempfile.TemporaryDirectory() as place:
        wheel = build(Path(place))
        print(f"wheel: {wheel.name}, {wheel.stat().st_size / 1e6:.2f} MB")
        for number, python in enumerate(pythons):
            report(python, wheel, Path(place) / str(number))


def weigh_installed() -> int:
    """Print what this environment holds for the package alone; 1 if that is more than the bar."""
    sizes = {name: distribution_size(name) for name in requirements("omnigraph")}
    sizes["omnigraph"] = size(ROOT / "src")  # installed as a link to its source
    total = sum(sizes.values())
    print(
        f"installed: {total:.0f} MB, bar {BAR_MB} MB, ratio {total / BAR_MB:.2f}; {len(sizes)} packages"
    )
    largest = sorted(sizes.items(), key=lambda one: -one[1])[:8]
    print("  " + ", ".join(f"{name} {mb:.0f}" for name, mb in largest))
    cost = [float(run([sys.executable, "-c", IMPORT], ROOT)) for _ in range(5)]
    print(f"  import omnigraph: {min(cost) * 1e3:.0f} ms of CPU")
    return int(total > BAR_MB)


def requirements(name: str) -> set[str]:
    """Return the names of a package and of all that it needs, without extras."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        one = canonicalize_name(waiting.pop())
        if one in found:
            continue
        found.add(one)
        needed = map(Requirement, metadata.requires(one) or ())
        waiting += [
            each.name
            for each in needed
            if each.marker is None or each.marker.evaluate({"extra": ""})
        ]
    return found


def distribution_size(name: str) -> float:
    """Megabytes of the files that a package installed."""
    found = metadata.distribution(name)
    places = [Path(str(found.locate_file(file))) for file in found.files or ()]
    return sum(place.stat().st_size for place in places if place.is_file()) / 1e6


def build(place: Path) -> Path:
    """Build the wheel without fetching anything."""
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(place)]
    subprocess.run(command, cwd=ROOT, check=True, capture_output=True)  # noqa: S603 - ours
    (wheel,) = place.glob("*.whl")
    return wheel


def report(python: str, wheel: Path, place: Path) -> None:
    """Install the wheel for one interpreter, and print what was found."""
    place.mkdir()
    env = place / "env"
    if python == sys.executable:
        venv.create(env, with_pip=True)
    else:
        run([python, "-m", "venv", str(env)], place)
    inside = str(env / "bin" / "python")
    version = run([inside, "-c", "import sys; print(sys.version.split()[0])"], place).strip()
    before = size(env)
    start = time.perf_counter()
    run([inside, "-m", "pip", "install", "-q", str(wheel)], place)
    installed = time.perf_counter() - start
    packages = weights(env)
    total = size(env) - before
    print(
        f"\nPython {version}: installed in {installed:.0f} s, {total:.0f} MB, bar {BAR_MB} MB,",
        end=" ",
    )
    print(f"ratio {total / BAR_MB:.2f}; {len(list(env.rglob('*.dist-info'))) - 1} packages")
    print("  " + ", ".join(f"{name} {mb:.0f}" for name, mb in packages[:8]))
    cost = [float(run([inside, "-c", IMPORT], place)) for _ in range(5)]
    print(f"  import omnigraph: {min(cost) * 1e3:.0f} ms of CPU")
    empty = place / "empty"
    empty.mkdir()
    (place / "page.py").write_text(quickstart(), "utf-8")
    start = time.perf_counter()
    run([inside, str(place / "page.py")], empty)
    print(
        f"  getting-started.md, word by word, in an empty directory: {time.perf_counter() - start:.1f} s"
    )
    run([str(env / "bin" / "omnigraph"), "examples", "examples"], empty)
    example = empty / "examples" / "agent_memory" / "run.py"
    run([inside, str(example), "--place", "out"], empty)
    print("  omnigraph examples, agent_memory: ok")


def quickstart() -> str:
    """The Python blocks of the page as one program."""
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.MULTILINE | re.DOTALL
    )
    return "\n".join(blocks)


def run(command: list[str], place: Path) -> str:
    """Run a command without the project in its way; what it prints."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # noqa: S603 - ours
        command, cwd=place, env=env, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def size(place: Path) -> float:
    """Megabytes of all files below a place."""
    return sum(path.stat().st_size for path in place.rglob("*") if path.is_file()) / 1e6


def weights(env: Path) -> list[tuple[str, float]]:
    """The largest packages of an environment."""
    (packages,) = env.glob("lib/python*/site-packages")
    found = [
        (path.name.split(".")[0], size(path) if path.is_dir() else path.stat().st_size / 1e6)
        for path in packages.iterdir()
    ]
    return sorted(found, key=lambda one: -one[1])


if __name__ == "__main__":
    main()
