import subprocess
import sys
from pathlib import Path

import numpy as np

import evenglot

PROGRAM = """
import sys
sys.path = [{site!r}, *[folder for folder in sys.path if "site-packages" not in folder]]
import evenglot.robust, evenglot.balance, evenglot.batches.pack, evenglot.preview.simulate
for absent in ("torch", "pydantic", "yaml", "rich", "typer", "scipy", "sentencepiece"):
    try:
        __import__(absent)
    except ModuleNotFoundError:
        continue
    sys.exit(absent + " could be imported: this test proves nothing")
balancer = evenglot.balance.create("chi-ibr", {{"aze-en": 5946, "tur-en": 182470}}, rho=0.05)
balancer.observe({{"aze-en": 40.0, "tur-en": 20.0}}, {{"aze-en": 10, "tur-en": 10}})
balancer.update()
print(balancer.mixture.sample)
"""


def test_robust_and_balance_work_where_only_numpy_is_installed(tmp_path):
    """A Python of its own whose only packages are links to NumPy and to ours."""
    numpy_folder = Path(np.__file__).parent
    for package in (numpy_folder, numpy_folder.with_name("numpy.libs"), Path(evenglot.__file__).parent):
        if package.exists():
            (tmp_path / package.name).symlink_to(package)
    command = [sys.executable, "-I", "-S", "-c", PROGRAM.format(site=str(tmp_path))]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "tur-en" in done.stdout
