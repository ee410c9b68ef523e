"""The committed files of the explorer are what `ui/` builds, and small."""

import hashlib
import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from ui.build import SOURCES, STATIC, UI, described, sources_digest

BUILT = json.loads((STATIC / "build.json").read_text("utf-8"))
FILES = {each["path"]: each for each in BUILT["files"]}
FREE = {"MIT", "ISC", "Apache-2.0"}


def test_they_were_built_from_these_sources():
    assert BUILT["sources_sha256"] == sources_digest(), "run ./dev ui and commit what it makes"


def test_the_list_names_every_file_with_its_size_and_digest():
    there = [path for path in STATIC.rglob("*") if path.is_file() and path.name != "build.json"]
    assert {path.relative_to(STATIC).as_posix() for path in there} == {*FILES}
    assert [described(path) for path in sorted(there)] == BUILT["files"]


def test_a_changed_source_changes_the_digest(tmp_path, monkeypatch):
    for name in SOURCES:
        (tmp_path / name).write_bytes((UI / name).read_bytes())
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "a.ts").write_text("1")
    monkeypatch.setattr("ui.build.UI", tmp_path)
    before = sources_digest()
    (tmp_path / "src" / "a.ts").write_text("2")
    assert sources_digest() != before


def test_the_first_page_and_all_pages_are_small():
    index = (STATIC / "index.html").read_text("utf-8")
    first = {"index.html", *re.findall(r"\./(assets/[^\"]+)", index)}
    workers = {path for path in FILES if "worker" in path}
    # The view of queries, with its editor, is what most visits open next.
    second = {path for path in FILES if path.startswith("assets/query-")}
    assert sum(FILES[path]["gzip_bytes"] for path in first | workers | second) <= 220 * 1024
    shipped = [each for path, each in FILES.items() if path != "THIRD-PARTY.txt"]
    assert sum(each["gzip_bytes"] for each in shipped) <= 450 * 1024
    assert sum(each["bytes"] for each in shipped) <= 1_600_000


def test_scripts_have_no_evaluated_text_and_no_address_elsewhere():
    for path in (STATIC / "assets").glob("*.js"):
        text = path.read_text("utf-8")
        assert not re.search(r"\beval\(|new Function\(", text), path.name
        assert not re.search(r"sourceMappingURL", text), path.name


def test_what_is_shipped_is_freely_licensed_and_named():
    lock = json.loads((UI / "package-lock.json").read_text("utf-8"))["packages"]
    shipped = {name: each for name, each in lock.items() if name and not each.get("dev")}
    assert {each["license"] for each in shipped.values()} <= FREE
    notices = (STATIC / "THIRD-PARTY.txt").read_text("utf-8")
    for name, each in shipped.items():
        assert f"{name.rpartition('node_modules/')[2]} {each['version']} (" in notices


def test_versions_are_exact_and_no_registry_is_named():
    package = json.loads((UI / "package.json").read_text("utf-8"))
    versions = [*package["dependencies"].values(), *package["devDependencies"].values()]
    assert all(re.fullmatch(r"\d+\.\d+\.\d+", version) for version in versions)
    assert "resolved" not in (UI / "package-lock.json").read_text("utf-8")
    assert "codemirror" not in package["dependencies"]


def test_the_digest_does_not_depend_on_where_the_sources_lie():
    assert re.fullmatch(r"[0-9a-f]{64}", sources_digest())
    assert hashlib.sha256(b"").hexdigest() != sources_digest()
    assert Path(UI).name == "ui"


@pytest.mark.skipif(not (UI / "node_modules").is_dir(), reason="./dev ui was never run here")
def test_building_again_makes_the_same_files(tmp_path):
    node = shutil.which("node")
    assert node is not None
    vite = UI / "node_modules" / "vite" / "bin" / "vite.js"
    build = [node, vite, "build", "--logLevel", "error", "--outDir", tmp_path]
    subprocess.run(build, cwd=UI, check=True, capture_output=True)
    made = {path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()}
    assert {*FILES} - made == {"THIRD-PARTY.txt"}
    for name in made:
        assert (tmp_path / name).read_bytes() == (STATIC / name).read_bytes(), name
