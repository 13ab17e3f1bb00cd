"""The sections `clean`, `vocabulary` and `store`: what `evenglot prepare` makes of the text."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, SerializerFunctionWrapHandler, model_serializer

from evenglot.config.errors import Faults
from evenglot.config.section import Count, FilePath, Finite, Section, Seed, key


class CleanSettings(Section):
    """Which training pairs to remove. `evenglot check` counts what each rule matches. Test sets are never changed."""

    empty: bool = key(True, "Pairs with an empty side.")
    identical: bool = key(False, "Pairs whose source and target are identical.")
    duplicates: bool = key(False, "Repeated pairs, except the first occurrence.")
    leakage: bool = key(True, "Pairs with a side that is in a validation or test set of any direction.")
    wrong_script: bool = key(False, "Pairs with a side whose letters are mostly not in the script of its language.")
    max_words: Count | None = key(None, "Pairs with a side of more words than this.")
    max_ratio: Annotated[Finite, Field(gt=1)] | None = key(
        None, "Pairs whose length ratio in characters is this many times the usual one (or 1/this); try 3."
    )
    max_pieces: Count = key(250, "Pairs with a side of more subwords than this; also removed from validation sets.")
    min_pieces: Count = key(1, "Pairs with a side of fewer subwords than this.")
    max_piece_ratio: Annotated[Finite, Field(ge=1)] | None = key(
        None, "Pairs in which one side has more than this many times the subwords of the other."
    )


Subwords = Annotated[int, Field(ge=16, le=1_000_000)]


class VocabularySettings(Section):
    """Subword vocabularies, learned by SentencePiece."""

    kind: Literal["separate", "joint"] = key(
        "separate",
        """\
separate: one vocabulary for the language that all directions share (usually English), one for all others.
joint: one vocabulary for all languages; many-to-many models need it.""",
    )
    model: Literal["unigram", "bpe"] = key("unigram", "unigram, or bpe, which is learned in a tenth of the time.")
    size_shared: Subwords = key(10_000, "Subwords for the shared language (separate).")
    size_other: Subwords = key(30_000, "Subwords for all other languages (separate).")
    size_joint: Subwords = key(32_000, "Subwords for all languages (joint).")
    tau: Annotated[float, Field(gt=0)] = key(
        5.0, "Sample languages in proportion to size^(1/tau): 1 is proportional, .inf is uniform."
    )
    character_coverage: Annotated[float, Field(ge=0.98, le=1)] = key(
        1.0, "Fraction of characters to cover; 0.9995 for Chinese or Japanese."
    )
    sample: Count | None = key(
        250_000,
        "Maximum number of sentences to learn from, drawn at random; fewer take less time and memory. null: no limit, "
        "as in the paper.",
    )
    seed: Seed = key(1, "Independent of the training seed, so that runs with different seeds share the vocabulary.")
    given: FilePath | None = key(
        None,
        "Learn nothing, but use the vocabularies of a run, or source.model and target.model in a folder; language tags "
        "that they lack are added. It replaces all other keys of this section.",
        alias="from",
        resume="free",  # the folder may move; its content may not change
        group="",
    )

    @model_serializer(mode="wrap")
    def _without_defaults(self, serialize: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """With `from`, all other keys have no meaning and are left out."""
        content: dict[str, Any] = serialize(self)
        if self.given is None:
            return content
        return {name: value for name, value in content.items() if name in ("from", "given")}

    def faults(self) -> Faults:
        """Keys that `from` leaves without meaning."""
        if self.given is not None:
            for name in sorted(self.model_fields_set - {"given"}):
                yield ("vocabulary", name), "the vocabularies in vocabulary.from determine it; remove this key"


class StoreSettings(Section):
    """The tokenized data that `evenglot prepare` writes and `evenglot train` reads."""

    folder: FilePath = key("store", "Folder; relative to this file.", resume="free", grid="free")
    valid_cap: Count | None = key(
        800, "Maximum number of validation pairs of each direction to use during training; null: all."
    )
    threads: Literal[-1] | Annotated[int, Field(ge=1, le=1024)] = key(
        -1,
        "Processes for reading, cleaning and tokenization; -1: as many as there are cores.",
        resume="free",
        grid="free",
    )
    seed: Seed = key(1, "Selects the validation pairs under valid_cap; independent of the training seed.")
