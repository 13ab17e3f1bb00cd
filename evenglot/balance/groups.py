"""The groups to balance, usually translation directions: names, sizes and shares of the data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evenglot.robust.solvers import dot
from evenglot.robust.validate import OptionError, Vector, distribution

Unit = Literal["sentences", "tokens"]
NOMINAL_SIZE = 1e12  # sentence pairs of a nominal corpus, large enough to satisfy any limit on repetitions


@dataclass(frozen=True, eq=False)
class Groups:
    """Names in sorted order, so that every process computes the same numbers, and the size of each corpus.

    The shares p_i and q_i count sentence pairs (`unit="sentences"`, as in the paper) or target tokens
    (`unit="tokens"`). Samplers always need shares of sentence pairs; `sentence_shares` converts.
    """

    names: tuple[str, ...]
    sizes: Vector
    tokens: Vector | None
    unit: Unit
    p: Vector

    @staticmethod
    def of(sizes: Mapping[str, float], tokens: Mapping[str, float] | None = None, unit: Unit = "sentences") -> Groups:
        """Groups from sentence pairs (and target tokens) by name; empty corpora are allowed and never sampled."""
        if unit not in ("sentences", "tokens"):
            raise OptionError("p_unit", f"expected 'sentences' or 'tokens', got {unit!r}")
        if unit == "tokens" and tokens is None:
            raise OptionError("tokens", "required (target tokens of each group) if p_unit is 'tokens'")
        if not isinstance(sizes, Mapping) or not sizes:
            raise OptionError(
                "sizes", "expected the sentence pairs of each group by name, for example {'tur-en': 182470}"
            )
        names = tuple(sorted(sizes))
        size_of = _amounts(sizes, names, "sizes")
        tokens_of = None if tokens is None else _amounts(tokens, names, "tokens")
        if tokens_of is not None and ((tokens_of == 0) != (size_of == 0)).any():
            raise OptionError("tokens", "expected tokens for exactly the groups that have sentence pairs")
        share = tokens_of if unit == "tokens" and tokens_of is not None else size_of
        p = distribution(share, "sizes")
        if (vanished := (p == 0) & (share > 0)).any():
            name, amount = names[int(np.argmax(vanished))], share[int(np.argmax(vanished))]
            raise OptionError("sizes", f"{name!r} has {amount:g}, too little beside {share.max():g}; remove the group")
        return Groups(names, size_of, tokens_of, unit, p)

    @staticmethod
    def nominal(names: Iterable[str], unit: Unit = "sentences") -> Groups:
        """Groups of equal and practically unlimited size, for checking settings without data.

        Settings that a strategy rejects for these groups are invalid for any data; numbers that depend on sizes are
        meaningless.
        """
        sizes = dict.fromkeys(names, NOMINAL_SIZE)
        return Groups.of(sizes, sizes, unit)

    def vector(self, values: Mapping[str, float], argument: str, default: float | None = None) -> Vector:
        """Values in the order of `names`; missing names get the default, or are an error if there is none."""
        unknown = sorted(set(values) - set(self.names))
        if unknown:
            raise OptionError(argument, f"unknown group {unknown[0]!r}; known: {', '.join(self.names)}")
        missing = [name for name in self.names if name not in values]
        if missing and default is None:
            raise OptionError(argument, f"no value for {', '.join(missing)}")
        try:
            result = np.array([values.get(name, default) for name in self.names], dtype=np.float64)
            if result.ndim != 1:
                raise ValueError
        except (TypeError, ValueError) as error:
            raise OptionError(argument, f"expected a number for each group, got {dict(values)}") from error
        if not np.isfinite(result).all():
            where = self.names[int(np.flatnonzero(~np.isfinite(result))[0])]
            raise OptionError(argument, f"the value for {where!r} must be finite, got {values[where]}")
        return result

    def keyed(self, values: Vector) -> dict[str, float]:
        """A vector in the order of `names` as a dictionary of floats."""
        return dict(zip(self.names, values.tolist(), strict=True))

    def passes(self, drawn: Mapping[str, float]) -> Vector:
        """Passes over each corpus, if so many of its sentence pairs are drawn; omitted groups have none."""
        pairs = self.vector(drawn, "drawn", default=0.0)
        if (pairs < 0).any():
            raise OptionError(
                "drawn", f"{self.names[int(np.argmin(pairs))]!r} has {pairs.min():g} pairs; expected 0 or more"
            )
        return np.divide(pairs, self.sizes, out=np.zeros_like(pairs), where=self.sizes > 0)

    def sentence_shares(self, q: Vector) -> Vector:
        """Shares of sentence pairs to sample so that the shares in `unit` are q."""
        if self.unit == "sentences" or self.tokens is None:
            return q
        pairs = np.divide(q * self.sizes, self.tokens, out=np.zeros_like(q), where=self.tokens > 0)
        return np.asarray(pairs / pairs.sum())

    def loss_weights(self, q: Vector, drawn: Vector) -> Vector:
        """Importance weights on the token losses of each group, for pairs sampled with shares `drawn` instead of q.

        The training loss is a mean over target tokens, so the weight is q_i divided by the group's share of the sampled
        *tokens*. Without token counts, all groups are assumed to have sentences of the same mean length.
        """
        length = np.ones_like(q)
        if self.tokens is not None:
            np.divide(self.tokens, self.sizes, out=length, where=self.sizes > 0)
        share = drawn * length / dot(drawn, length)
        return np.divide(q, share, out=np.zeros_like(q), where=share > 0)


def _amounts(amounts: Mapping[str, float], names: tuple[str, ...], argument: str) -> Vector:
    if set(amounts) != set(names):
        raise OptionError(argument, f"expected exactly the groups {', '.join(names)}")
    for name, amount in amounts.items():
        if not isinstance(amount, int | float | np.number) or not 0 <= amount < np.inf:
            raise OptionError(argument, f"{name!r} has {amount!r}; expected a number, 0 or more")
    result = np.array([amounts[name] for name in names], dtype=np.float64)
    if not result.any():
        raise OptionError(argument, "all groups are empty")
    return result
