"""Files that are well-formed but wrong: changed at random, with valid checksums where the file has one.

Every reader must refuse them with a ValueError (or OSError), or get on with them; anything else is a fault.
"""

from __future__ import annotations

import random
import traceback
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torture.alarm import SECONDS, Hang, alarm, quiet
from torture.changed_files import (
    damage_config,
    damage_log,
    damage_statistics,
    damage_weights,
    json_damage,
    sealed_content,
    sealed_manifest,
    sealed_meta,
    sealed_state,
)
from torture.scene import Scene
from torture.scene_readers import (
    read_baseline,
    read_config,
    read_export,
    read_model,
    read_report,
    read_resume,
    read_store,
)


@dataclass(frozen=True)
class Target:
    """A kind of file: how to write a changed version into a scene, and what reads it."""

    name: str
    damage: Callable[[Path, random.Random], object]
    read: Callable[[Path], object]
    touched: tuple[str, ...] = ("runs/first",)  # the folders to restore afterwards


def attempt(target: Target, scene: Path) -> tuple[str, BaseException | None]:
    """Read a damaged scene: 'accepted', 'refused' or 'fault', and the error."""
    try:
        with alarm(SECONDS):
            target.read(scene)
    except (ValueError, OSError) as error:
        return "refused", error
    except (Exception, Hang) as error:
        return "fault", error
    return "accepted", None


STATE = "runs/first/checkpoints/step-00000008/state.json"
TARGETS = {
    target.name: target
    for target in (
        Target("log", damage_log, read_report),
        Target("scores", json_damage("runs/first/scores.json", sealed_content), read_report),
        Target("statistics", damage_statistics, read_report),
        Target("baseline", json_damage("runs/erm/baseline.json"), read_baseline, ("runs/erm",)),
        Target("config", damage_config, read_config),
        Target("state", json_damage(STATE, sealed_state), read_model),
        Target("weights", damage_weights, read_model),
        Target("manifest", json_damage("store/manifest.json", sealed_manifest), read_store, ("store",)),
        Target("meta", json_damage("store/held_out.*/meta.json", sealed_meta), read_store, ("store",)),
        Target("export", json_damage("export/evenglot.json", sealed_content), read_export, ("export",)),
        Target("state, resumed", json_damage(STATE, sealed_state), read_resume),
        Target("weights, resumed", damage_weights, read_resume),
    )
}


def attack(scene: Scene, name: str, cases: int, seed: int) -> tuple[Counter[str], list[str]]:
    """Try so many damaged files of a kind: how often each outcome, and what was at fault."""
    target, outcomes, faults = TARGETS[name], Counter[str](), []
    scene.restore(*target.touched)
    with quiet():
        before, error = attempt(target, scene.live)
    if before != "accepted":
        raise AssertionError(f"{name}: the undamaged file was {before}: {error!r}")
    for case in range(cases):
        scene.restore(*target.touched)
        target.damage(scene.live, random.Random(f"{seed} {name} {case}"))
        with quiet():
            outcome, error = attempt(target, scene.live)
        outcomes[outcome] += 1
        if outcome == "fault":
            faults.append(f"{name} {case}: {''.join(traceback.format_exception(error)[-3:])}")
    scene.restore(*target.touched)
    return outcomes, faults
