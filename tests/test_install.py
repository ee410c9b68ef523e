"""How `./dev` sets up its environment: which lock, by which installer, with whose settings. Without a network."""

import base64
import hashlib
import importlib.util
import os
import shutil
import site
import subprocess
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def installer():
    spec = importlib.util.spec_from_file_location("install_locked", ROOT / "install_locked.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestSettingsOfPip:
    """uv does not read them, so it is told."""

    @pytest.fixture(autouse=True)
    def no_other_settings(self, monkeypatch):
        for name in [name for name in os.environ if name.startswith("PIP_")]:
            monkeypatch.delenv(name)

    def test_files_and_variables_count_as_for_pip(self, installer, tmp_path, monkeypatch):
        config = tmp_path / "pip.conf"
        config.write_text(
            "[global]\ncert = /etc/a.pem\ntimeout = 7\nproxy = http://proxy:1\n"
            "[install]\ncert = /etc/b.pem\n[download]\ncert = /etc/c.pem\n"
        )
        monkeypatch.setenv("PIP_CONFIG_FILE", str(config))
        monkeypatch.setenv("PIP_TIMEOUT", "9")
        settings = installer.pip_settings()
        assert settings["cert"] == "/etc/b.pem"
        assert settings["timeout"] == "9"
        assert settings["proxy"] == "http://proxy:1"

    def test_uv_gets_them_in_its_words(self, installer):
        told = installer.uv_settings(
            {
                "index_url": "https://mirror.example/simple",
                "extra_index_url": "\nfile:///a\nfile:///b",
                "find_links": "/wheels /more",
                "cert": "/etc/a.pem",
                "trusted_host": "mirror.example",
                "default_timeout": "180",
                "proxy": "http://proxy:1",
            },
            {},
        )
        assert told == {
            "UV_DEFAULT_INDEX": "https://mirror.example/simple",
            "UV_INDEX": "file:///a file:///b",
            "UV_FIND_LINKS": "/wheels,/more",
            "SSL_CERT_FILE": "/etc/a.pem",
            "UV_INSECURE_HOST": "mirror.example",
            "UV_HTTP_TIMEOUT": "180",
            "HTTPS_PROXY": "http://proxy:1",
            "HTTP_PROXY": "http://proxy:1",
            "UV_SYSTEM_CERTS": "1",
            "UV_INDEX_STRATEGY": "unsafe-best-match",
        }

    def test_what_is_set_for_uv_already_stays(self, installer):
        told = installer.uv_settings({"cert": "/etc/a.pem"}, {"SSL_CERT_FILE": "/etc/mine.pem"})
        assert "SSL_CERT_FILE" not in told


def make_wheel(directory, name, version):
    """The least that is a wheel; returns its line for a lock."""
    info = f"{name}-{version}.dist-info"
    members = {
        f"{name}.py": f"VERSION = '{version}'\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    records = []
    for path, text in members.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=")
        records.append(f"{path},sha256={digest.decode()},{len(text)}")
    members[f"{info}/RECORD"] = "\n".join([*records, f"{info}/RECORD,,", ""])
    wheel = directory / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        for path, text in members.items():
            archive.writestr(path, text)
    return f"{name}=={version} --hash=sha256:{hashlib.sha256(wheel.read_bytes()).hexdigest()}\n"


@pytest.mark.skipif(
    importlib.util.find_spec("uv") is None, reason="uv was not to be had when .venv was made"
)
class TestInstalling:
    @pytest.fixture
    def place(self, tmp_path):
        """An environment that finds pip, uv and what builds the project, and has no network."""
        venv.create(tmp_path / "env", with_pip=False)
        python = tmp_path / "env" / "bin" / "python"
        (packages,) = (tmp_path / "env" / "lib").glob("python*/site-packages")
        (packages / "tools.pth").write_text("\n".join(site.getsitepackages()))
        (tmp_path / "wheels").mkdir()
        for name in ("dev", "install_locked.py", "pyproject.toml", "README.md", "LICENSE"):
            shutil.copy(ROOT / name, tmp_path / name)
        for name in ("src/omnigraph", "src/pyspark_omnigraph", "examples"):
            shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pyc*"))
        return tmp_path, python

    def install(self, place, python, lock):
        environ = {name: value for name, value in os.environ.items() if name[:3] != "UV_"}
        return subprocess.run(
            [str(python), "install_locked.py", lock],
            cwd=place,
            env={
                **environ,
                "PIP_CONFIG_FILE": os.devnull,
                "PIP_NO_INDEX": "1",
                "PIP_FIND_LINKS": str(place / "wheels"),
                "UV_CACHE_DIR": str(place / "cache"),
            },
            capture_output=True,
            text=True,
            check=False,
        )

    def installer_of(self, place, name):
        (record,) = (place / "env" / "lib").glob(f"python*/site-packages/{name}-*/INSTALLER")
        return record.read_text().strip()

    @pytest.mark.parametrize("wanted", ["uv", "pip"])
    def test_a_lock_and_the_project_are_installed(self, place, wanted):
        place, python = place
        if wanted == "uv":
            shutil.copy(ROOT / "requirements-uv.lock", place)  # satisfied: it is installed
        else:
            (place / "requirements-uv.lock").write_text("uv==0.0.0.1 --hash=sha256:" + "0" * 64)
        (place / "tiny.lock").write_text(make_wheel(place / "wheels", "tiny", "1.0"))
        done = self.install(place, python, "tiny.lock")
        assert done.returncode == 0, done.stderr
        assert ("pip does" in done.stderr) == (wanted == "pip")
        assert self.installer_of(place, "tiny") == wanted
        assert self.installer_of(place, "omnigraph") == wanted
        found = subprocess.run(
            [str(python), "-c", "import tiny, omnigraph; print(omnigraph.__file__)"],
            cwd=place / "wheels",
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        assert Path(found.strip()).is_relative_to(place)

    def test_a_file_with_another_hash_is_installed_by_nobody(self, place):
        place, python = place
        shutil.copy(ROOT / "requirements-uv.lock", place)
        line = make_wheel(place / "wheels", "tiny", "1.0")
        (place / "tiny.lock").write_text(line[: -len("0" * 64) - 1] + "0" * 64)
        done = self.install(place, python, "tiny.lock")
        assert done.returncode != 0
        assert not list((place / "env" / "lib").glob("python*/site-packages/tiny*"))


class TestWhatIsInstalled:
    """`./dev` itself, with an environment that only writes down what it is asked."""

    @pytest.fixture
    def clone(self, tmp_path):
        (tmp_path / ".venv" / "bin").mkdir(parents=True)
        for name in ("dev", "install_locked.py", "pyproject.toml", *LOCKS):
            shutil.copy(ROOT / name, tmp_path / name)
        python = tmp_path / ".venv" / "bin" / "python"
        python.write_text('#!/bin/sh\necho "$*" >>calls\n')
        python.chmod(0o755)
        return tmp_path

    def run(self, clone, command):
        (clone / "calls").write_text("")
        subprocess.run(["sh", "dev", command], cwd=clone, check=True, capture_output=True)
        calls = (clone / "calls").read_text().splitlines()
        return [line.split()[1] for line in calls if line.startswith("install_locked.py")], calls

    def test_the_demo_installs_its_part_and_a_test_the_rest(self, clone):
        asked, calls = self.run(clone, "demo")
        assert asked == ["requirements-demo.lock"]
        assert any(line.startswith("-m examples.demo --installing ") for line in calls)
        assert self.run(clone, "demo")[0] == []
        assert self.run(clone, "setup")[0] == ["requirements.lock"]
        assert self.run(clone, "setup")[0] == []
        assert self.run(clone, "demo")[0] == []

    @pytest.mark.parametrize("changed", ["requirements.lock", "pyproject.toml"])
    def test_what_has_changed_is_installed_again(self, clone, changed):
        self.run(clone, "setup")
        with (clone / changed).open("a") as file:
            file.write("# another\n")
        assert self.run(clone, "setup")[0] == ["requirements.lock"]


LOCKS = ("requirements.lock", "requirements-demo.lock", "requirements-uv.lock")
