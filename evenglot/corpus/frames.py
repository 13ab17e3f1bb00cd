"""The special tokens around a sentence."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Frame:
    """Ids before and after those of a sentence, such as a language tag and </s>."""

    before: tuple[int, ...]
    after: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.before) + len(self.after)

    def around(self, ids: list[int]) -> list[int]:
        """The ids with those before and after them."""
        return [*self.before, *ids, *self.after]
