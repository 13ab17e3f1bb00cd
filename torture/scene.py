"""A folder with everything evenglot writes: a store, four scored runs, an export. Made once, then attacked again and
again; configurations have absolute paths, so the attack takes place where it was made, and a copy restores it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path

from tests.workplace import furnish, in_process


@dataclass(frozen=True)
class Scene:
    """`live` is attacked; `pristine` is what it was."""

    live: Path
    pristine: Path

    def restore(self, *parts: str) -> None:
        """Undo the damage in these folders (default: everywhere)."""
        for part in parts or (".",):
            shutil.rmtree(self.live / part, ignore_errors=True)
            shutil.copytree(self.pristine / part, self.live / part, symlinks=True)


def make_scene(folder: Path) -> Scene:
    """Fill an empty folder."""
    scene = Scene(folder / "live", folder / "pristine")
    scene.live.mkdir(parents=True)
    furnish(scene.live)
    in_process("evenglot export runs/erm --to ctranslate2 --out export", scene.live)
    shutil.copytree(scene.live, scene.pristine)
    return scene
