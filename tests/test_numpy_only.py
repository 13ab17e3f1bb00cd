"""An installation without extras: NumPy is all there is, and the commands say what to install."""

import re
import subprocess
import sys
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import numpy as np
import pytest

import evenglot
from evenglot.extras import TRAIN
from tests.documents import ROOT

ISOLATED = """
import runpy, sys
sys.path = [{site!r}, *[folder for folder in sys.path if "site-packages" not in folder]]
for absent in ("torch", "pydantic", "yaml", "rich", "typer", "scipy", "sentencepiece"):
    try:
        __import__(absent)
    except ModuleNotFoundError:
        continue
    sys.exit(absent + " could be imported: this test proves nothing")
"""
LIBRARY = """
import evenglot.robust, evenglot.balance, evenglot.batches.draw, evenglot.batches.pack, evenglot.preview.simulate
balancer = evenglot.balance.create("chi-ibr", {"aze-en": 5946, "tur-en": 182470}, rho=0.05)
balancer.observe({"aze-en": 40.0, "tur-en": 20.0}, {"aze-en": 10, "tur-en": 10})
balancer.update()
print(balancer.mixture.sample)
"""
COMMAND = """
sys.argv[0] = "evenglot"
runpy.run_module("evenglot", run_name="__main__", alter_sys=True)
"""
SCRIPT = """
from evenglot.__main__ import main
sys.exit(main())
"""


@pytest.fixture
def python(tmp_path):
    """A Python of its own whose only packages are links to NumPy and to ours."""
    numpy_folder = Path(np.__file__).parent
    for package in (numpy_folder, numpy_folder.with_name("numpy.libs"), Path(evenglot.__file__).parent):
        if package.exists():
            (tmp_path / package.name).symlink_to(package)

    def run(program: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-I", "-S", "-c", ISOLATED.format(site=str(tmp_path)) + program, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    return run


def test_robust_balance_and_batches_work(python):
    done = python(LIBRARY)
    assert done.returncode == 0, done.stderr
    assert "tur-en" in done.stdout


@pytest.mark.parametrize("start", [COMMAND, SCRIPT])
@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_printed(python, start, option):
    done = python(start, option)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"evenglot {evenglot.__version__}\n", "")


@pytest.mark.parametrize("start", [COMMAND, SCRIPT])
@pytest.mark.parametrize("arguments", [[], ["--help"], ["train", "conf.yaml"], ["demo"]])
def test_a_command_is_answered_by_one_line_that_says_what_to_install(python, start, arguments):
    done = python(start, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.count("\n") == 1
    assert 'pip install "evenglot[train]"' in done.stderr
    assert all(name in done.stderr for name in TRAIN)


def without(package: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command where all is installed but this package."""
    program = f"import sys; sys.modules[{package!r}] = None; from evenglot.__main__ import main; main()"
    return subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)


def test_only_what_is_absent_is_named(tmp_path):
    done = without("torch", "demo", "--out", str(tmp_path / "demo"))
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert 'torch is not installed: pip install "evenglot[train]"' in done.stderr
    assert not (tmp_path / "demo").exists()


def test_an_absent_package_of_no_extra_is_a_bug_and_shows_its_traceback():
    done = without("evenglot.config.example", "example")
    assert done.returncode == 1
    assert "Traceback" in done.stderr


def test_the_list_of_packages_is_that_of_the_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    names = [re.match(r"[\w-]+", requirement)[0] for requirement in extras["train"]]
    assert [{"PyYAML": "yaml"}.get(name, name) for name in names] == list(TRAIN)
    for extra in set(extras) - {"train", "docs"}:  # the site is built without importing evenglot
        assert re.match(r"evenglot\[train\b", extras[extra][0]), extra


def test_the_wheel_requires_numpy_alone(tmp_path):
    builder = pytest.importorskip("hatchling.builders.wheel", reason="in the dev extra").WheelBuilder(str(ROOT))
    (wheel,) = builder.build(directory=str(tmp_path), versions=["standard"])
    with zipfile.ZipFile(wheel) as archive:
        folder = f"evenglot-{evenglot.__version__}.dist-info"
        metadata = message_from_bytes(archive.read(f"{folder}/METADATA"))
        scripts = archive.read(f"{folder}/entry_points.txt").decode()
    unconditional = [line for line in metadata.get_all("Requires-Dist") if "extra ==" not in line]
    assert [re.match(r"[\w-]+", line)[0] for line in unconditional] == ["numpy"]
    assert "train" in metadata.get_all("Provides-Extra")
    assert "evenglot = evenglot.__main__:main" in scripts
