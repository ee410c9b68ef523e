"""The promises the project makes about itself: what is tracked, locked, listed and documented."""

import inspect
import os
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

import omnigraph
from omnigraph import errors, settings

ROOT = Path(__file__).parents[1]
USER_PAGES = sorted((ROOT / "docs" / "user").glob("*.md"))
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("benchmarks/*.md")])

FOREIGN = re.compile(
    r"(?<![\w.])/(?:work|root|home|opt|farm|tmp|Users)/[\w.]"
    r"|python[h]osted|pypi[.]org|(?<!emit-)(?:index-ur[l]|find-link[s])\b"
)


def tracked_files():
    try:
        names = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        ).stdout
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    return [ROOT / name for name in names.split("\0") if name and (ROOT / name).is_file()]


@pytest.mark.parametrize(
    "parts", [("see /", "home/me/x"), ("files.python", "hosted.org"), ("--extra-index", "-url x")]
)
def test_what_is_foreign_is_recognised(parts):
    assert FOREIGN.search("".join(parts))


def test_no_tracked_file_names_a_registry_or_a_path_of_one_machine():
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()[:120]}"
        for path in tracked_files()
        for number, line in enumerate(path.read_text("utf-8", "replace").splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert found == []


@pytest.fixture(scope="module")
def pyproject():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))


def entries_of(lock):
    """Name to the lines of its entries in a lock file, one for each Python that needs another version."""
    text = (ROOT / lock).read_text("utf-8")
    found = {}
    for entry in re.split(r"^(?=[a-z0-9])", text, flags=re.MULTILINE):
        if entry.strip():
            found.setdefault(re.split(r"[=\[ ]", entry)[0], []).append(entry)
    return found


@pytest.fixture(scope="module")
def locked():
    return {name: "".join(entries) for name, entries in entries_of("requirements.lock").items()}


def names_of(requirements, groups):
    """The names of packages, those of groups that a group includes as well."""
    for one in requirements:
        if isinstance(one, dict):
            yield from names_of(groups[one["include-group"]], groups)
        else:
            yield re.split(r"[\[<>=~! ]", one)[0].lower().replace(".", "-")


@pytest.mark.parametrize(
    ("lock", "group"), [("requirements.lock", "dev"), ("requirements-demo.lock", "demo")]
)
def test_every_dependency_is_locked(pyproject, lock, group):
    groups = pyproject["dependency-groups"]
    wanted = {
        *names_of(pyproject["project"]["dependencies"], groups),
        *names_of(groups[group], groups),
    }
    assert wanted - entries_of(lock).keys() == set()


@pytest.mark.parametrize("lock", sorted(path.name for path in ROOT.glob("requirements*.lock")))
def test_every_locked_package_has_one_version_and_hashes(lock):
    entries = entries_of(lock)
    assert entries
    for name, found in entries.items():
        for entry in found:
            assert re.match(rf"{re.escape(name)}==\S+", entry), name
            assert "--hash=sha256:" in entry, name
        # Several versions only for several Pythons or systems.
        assert len(found) == 1 or all(";" in entry.partition("\n")[0] for entry in found), name


def test_the_demo_installs_a_part_of_what_everything_needs_in_the_same_versions():
    """So `./dev test` after `./dev demo` only adds."""

    def files(lock):
        return {
            (name, re.match(r"\S+==\S+", entry)[0].partition("==")[2], digest)
            for name, entries in entries_of(lock).items()
            for entry in entries
            for digest in re.findall(r"sha256:\w+", entry)
        }

    demo, everything = files("requirements-demo.lock"), files("requirements.lock")
    assert demo <= everything
    needless = {"pytest", "mypy", "ruff", "moto", "mkdocs-material", "polars", "scipy", "numba"}
    assert not needless & {name for name, _, _ in demo}


def test_lance_is_pinned_and_locked_alike(pyproject, locked):
    (pin,) = (d for d in pyproject["project"]["dependencies"] if d.startswith("pylance"))
    assert locked["pylance"].startswith(pin)


def test_the_version_has_one_source_and_a_changelog_entry(pyproject):
    assert pyproject["project"]["dynamic"] == ["version"]
    heading = rf"^## {re.escape(omnigraph.__version__)}\b"
    assert re.search(heading, (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", omnigraph.__all__)
def test_every_public_name_exists_with_a_docstring_and_is_documented(name):
    member = getattr(omnigraph, name)
    if not isinstance(member, str):
        assert inspect.getdoc(member)
    text = "\n".join(page.read_text("utf-8") for page in USER_PAGES)
    assert re.search(rf"\b(og|omnigraph)\.{name}\b", text)


def test_dir_lists_the_public_names_and_an_unknown_one_is_an_attribute_error():
    assert set(omnigraph.__all__) <= set(dir(omnigraph))
    with pytest.raises(AttributeError, match="no_such_name"):
        omnigraph.no_such_name  # noqa: B018


def error_classes():
    return [
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, errors.OmniGraphError) and member.__module__ == errors.__name__
    ]


def test_the_error_reference_lists_every_class_with_its_code():
    text = (ROOT / "docs" / "user" / "errors.md").read_text("utf-8")
    listed = dict(re.findall(r"^\| `(\w+)` \| `(\w+)` \|", text, re.MULTILINE))
    bases = {"OmniGraphError", "SourceError"}
    classes = {cls.__name__: cls.code for cls in error_classes() if cls.__name__ not in bases}
    assert listed == classes
    assert all(re.search(rf"\b{base}\b", text) for base in bases)


def dev_commands():
    text = (ROOT / "dev").read_text("utf-8")
    return set(re.findall(r"^    ([a-z]+)(?: \|[^)]*)?\) ", text, re.MULTILINE))


def test_dev_help_lists_exactly_the_commands():
    shown = subprocess.run(
        ["sh", str(ROOT / "dev"), "help"], capture_output=True, text=True, check=True
    ).stdout
    assert set(re.findall(r"^  ([a-z]+) ", shown, re.MULTILINE)) == dev_commands()


def test_dev_refuses_an_unknown_command():
    result = subprocess.run(
        ["sh", str(ROOT / "dev"), "frobnicate"], capture_output=True, text=True, check=False
    )
    assert result.returncode == 1
    assert '"frobnicate"' in result.stderr
    assert result.stdout == ""


def test_the_benchmarks_named_by_dev_help_exist():
    usage = re.search(r"benchmark NAME \(([^)]*)\)", (ROOT / "dev").read_text("utf-8"))
    assert usage is not None
    named = set(re.split(r",\s+", usage.group(1)))
    assert named == {path.stem for path in (ROOT / "benchmarks").glob("*.py")}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
class TestPages:
    def test_commands_exist(self, page):
        used = set(re.findall(r"\./dev ([a-z]+)", page.read_text("utf-8")))
        assert used <= dev_commands()

    def test_links_lead_somewhere(self, page):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", page.read_text("utf-8")):
            if "://" not in target:
                assert (page.parent / target).exists(), target


def test_the_readme_shows_the_two_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    assert "./dev demo" in text
    assert "./dev test" in text


def test_every_setting_is_documented_with_its_default():
    rows = dict(
        re.findall(
            r"^\| `([A-Z]\w+)` \| (.+?) \|",
            (ROOT / "docs/user/settings.md").read_text("utf-8"),
            re.MULTILINE,
        )
    )
    known = {
        each.variable: each
        for each in vars(settings).values()
        if isinstance(each, settings.Setting)
    }
    assert rows.keys() == known.keys()
    for variable, shown in rows.items():
        if variable == "OMNIGRAPH_CACHE_DIR":
            continue  # a directory of the user, in words
        default = str(known[variable].default())
        words = {"None": "none", "True": "on", "False": "off"}
        assert os.path.expanduser(shown.strip("`")) == words.get(default, default), variable


def test_no_setting_is_read_elsewhere():
    """A variable of ours that is spelled outside settings.py is a setting that nobody documents."""
    source = Path(omnigraph.__file__).parent
    known = {
        each.variable for each in vars(settings).values() if isinstance(each, settings.Setting)
    }
    for path in source.rglob("*.py"):
        unknown = set(re.findall(r"OMNIGRAPH_[A-Z][A-Z_]+", path.read_text("utf-8"))) - known
        # Failpoints are for fault tests (docs/dev/testing.md), not for users; the addresses of a server are
        # printed, not read. Tokens go on with the name of a server; the page has them beside another one.
        printed = {"OMNIGRAPH_LISTEN_ADDR", "OMNIGRAPH_METRICS_ADDR"}
        apart = {"OMNIGRAPH_FAILPOINTS", "OMNIGRAPH_TOKEN_", *printed}
        assert unknown <= apart, (path, unknown)


PUBLIC_OF_A_SESSION = {
    "actor", "algorithms", "blame", "blobs", "branches", "catalog_document", "changes", "commits", "diff", "edges", "embed", "embedder", "entity", "explain",
    "export", "frame", "history", "internal_schema_version", "load", "load_edges", "load_nodes", "may_load", "may_write", "mode", "mutate", "neighbors", "nodes", "profile", "purge", "query", "schema",
    "snapshot", "status", "subgraph", "tags", "to_networkx", "uri",
}  # fmt: skip
PUBLIC_OF_A_GRAPH = PUBLIC_OF_A_SESSION | {
    "cleanup", "close", "ensure_indices", "optimize", "refresh", "repair", "session", "upkeep",
    "verify",
}  # fmt: skip


def shown(handle):
    return {name for name in dir(handle) if not name.startswith("_")}


def test_a_graph_shows_its_api_and_nothing_else(tmp_path):
    with omnigraph.init(tmp_path / "g", "node Person { name: String @key }") as graph:
        assert shown(graph) == PUBLIC_OF_A_GRAPH
        assert shown(graph.session("ada")) == PUBLIC_OF_A_SESSION


@pytest.mark.parametrize(
    "page", sorted((ROOT / "docs" / "dev").glob("*.md")), ids=lambda page: page.name
)
def test_pages_for_developers_name_files_that_exist(page):
    """A file is named by the end of its path: `match/solve.py`. `NEW.py` is the reader's own."""
    places = [
        place
        for root in ("src", "tests", "benchmarks", "examples")
        for place in (ROOT / root).rglob("*.*")
    ]
    known = ["/" + place.as_posix() for place in places]
    named = set(re.findall(r"`([\w/]+\.(?:py|lark|json))`", page.read_text("utf-8")))
    gone = {"types.py"}  # a file of the design that became a package
    missing = {
        name
        for name in named - gone
        if "NEW" not in name and not any(path.endswith(f"/{name}") for path in known)
    }
    assert not missing
