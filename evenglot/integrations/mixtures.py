"""Write a mixture for training systems that take fixed weights: JSON, Hugging Face datasets, Megatron-LM.

Shares are given by direction, in any scale; paths too (`paths_of` makes them from a pattern). Each function returns the
text of a file. `integrations/opustrainer.py` writes mixtures that change in the course of a run.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from evenglot.robust.validate import OptionError, distribution
from evenglot.stages import Stage
from evenglot.wording import did_you_mean

FIELDS = ("direction", "src", "tgt")


def paths_of(pattern: str, directions: Iterable[str]) -> dict[str, str]:
    """The path of each direction, from a pattern such as 'corpora/{direction}'; other fields are {src} and {tgt}."""
    for field in re.findall(r"\{([^{}]*)\}", pattern):
        if field not in FIELDS:
            raise OptionError("paths", f"unknown field {{{field}}}; {did_you_mean(field, FIELDS)}")
    paths = {}
    for direction in directions:
        src, _, tgt = direction.partition("-")
        path = pattern.replace("{direction}", direction)
        paths[direction] = path.replace("{src}", src).replace("{tgt}", tgt)
    return _distinct(paths)


def token_shares(
    shares: Mapping[str, float], pairs: Mapping[str, float], tokens: Mapping[str, float]
) -> dict[str, float]:
    """Shares of the target tokens if sentence pairs are sampled with these shares, from the sizes of the corpora."""
    unknown = [name for name, share in shares.items() if share and not (pairs.get(name) and tokens.get(name))]
    if unknown:
        raise OptionError("tokens", f"the number of target tokens of {unknown[0]!r} is unknown; use shares of pairs")
    return normalised({name: share and share * tokens[name] / pairs[name] for name, share in shares.items()})


def normalised(shares: Mapping[str, float]) -> dict[str, float]:
    """The shares divided by their sum; OptionError if there are none, or one is negative or not finite."""
    return dict(zip(shares, distribution(list(shares.values()), "shares").tolist(), strict=True))


def to_json(shares: Mapping[str, float] | Sequence[Stage], **about: Any) -> str:
    """Shares by direction under `mixture`, or `stages` of them with their length in pairs (null: no end)."""
    content: dict[str, Any] = dict(about)
    if isinstance(shares, Mapping):
        content["mixture"] = normalised(shares)
    else:
        content["stages"] = [
            {"pairs": stage.pairs if math.isfinite(stage.pairs) else None, "mixture": normalised(stage.shares)}
            for stage in shares
        ]
    return _json(content)


def interleave(shares: Mapping[str, float], paths: Mapping[str, str]) -> str:
    """`probabilities` for `datasets.interleave_datasets`, with `directions` and `paths` in the same order, as JSON.

    Directions that are not sampled are left out.
    """
    probabilities = _sampled(shares)
    return _json(
        {
            "directions": list(probabilities),
            "paths": [_path(paths, name) for name in probabilities],
            "probabilities": list(probabilities.values()),
        }
    )


def megatron(shares: Mapping[str, float], paths: Mapping[str, str]) -> str:
    """Weights and paths for Megatron-LM's `--data-args-path`, one dataset per line.

    Megatron-LM splits the file at white space and knows no quotes, so a path cannot contain any. It also refuses
    weights of 0; directions that are not sampled are left out. The paths are those of preprocessed data without the
    endings .bin and .idx.
    """
    lines = []
    for name, share in _sampled(shares).items():
        path = _path(paths, name)
        if path.split() != [path]:
            raise OptionError(
                "paths", f"{path!r}: Megatron-LM cannot read white space in a path; rename or link the file"
            )
        lines.append(f"{share!r} {path}\n")
    return "".join(lines)


def _sampled(shares: Mapping[str, float]) -> dict[str, float]:
    return {name: share for name, share in normalised(shares).items() if share > 0}


def _path(paths: Mapping[str, str], direction: str) -> str:
    if not paths.get(direction):
        raise OptionError("paths", f"no path for {direction!r}")
    return paths[direction]


def _distinct(paths: dict[str, str]) -> dict[str, str]:
    by_path: dict[str, str] = {}
    for direction, path in paths.items():
        if path in by_path:
            raise OptionError(
                "paths", f"{by_path[path]} and {direction} have the same path {path!r}; use {{direction}}"
            )
        by_path[path] = direction
    return paths


def _json(content: Any) -> str:
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
