"""The exact numeric cases in tests/golden/; its README says how they were made."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> list[Any]:
    """All cases of a golden file as pytest parameters, one a case; the file says how many there must be."""
    content = json.loads((GOLDEN / f"{name}.json").read_text(encoding="utf-8"))
    assert len(content["cases"]) == content["count"]
    return [pytest.param(case, id=case["id"]) for case in content["cases"]]


def values(case: dict[str, Any]) -> np.ndarray:
    """v of a case: given as such, or as losses minus baselines."""
    return np.array(case["v"]) if "v" in case else np.array(case["losses"]) - np.array(case["baselines"])
