"""What may change on resume and between grid runs is declared on the fields; here is the list, to notice a change."""

import pytest

from evenglot.config.changes import ENDS_RUN, FREE_IN_GRID, FREE_ON_RESUME, REMEDIES, declared, free_on_resume

DATA = "data: {directions: [no-en, tur-en], train: 'train.{pair}.{lang}'}\n"
TEXT = {
    f"data.{key}" for key in ("train", "valid", "test", "columns", "file_codes", "corpora", "invalid_utf8")
}  # it is not read again


def test_the_declared_sets_are_those_that_were_kept_by_hand():
    assert {
        "model.init",  # the checkpoint may move; its content is compared
        "store.folder",
        "store.threads",
        "train.updates",
        "train.intervals",
        "train.patience",
        "train.chrf_sentences",
        "train.save_every",
        "train.keep_last",
        "train.keep_best",
        "train.average",
        "train.log_every",
        "train.warn_passes",
        "train.trackers",
        "train.device",
        "train.parallel",
        "train.precision",
        "train.threads",
        "train.timeout",
        "train.gradient_checkpointing",
        "vocabulary.from",  # as model.init
    } == FREE_ON_RESUME - TEXT
    assert {"train.learning_rate", "train.warmup", "train.clip"} == REMEDIES
    assert {"store.folder", "store.threads"} | {
        f"train.{key}"
        for key in (
            "gradient_checkpointing",
            "threads",
            "timeout",
            "device",
            "parallel",
            "log_every",
            "trackers",
            "warn_passes",
        )
    } == FREE_IN_GRID - TEXT
    assert {"train.updates", "train.intervals", "train.patience"} == ENDS_RUN
    assert TEXT <= FREE_ON_RESUME & FREE_IN_GRID


def test_every_key_is_declared_with_a_meaning():
    keys = [key for key, _ in declared()]
    assert "data.directions" in keys
    assert "seed" in keys
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("text", "tied"),
    [
        ("", set()),
        ("train: {schedule: linear}", {"train.updates"}),
        ("train: {schedule: constant, cooldown: 5}", {"train.updates"}),
        ("balance: {max_passes: 30}\ntrain: {intervals: 5}", {"train.intervals"}),
    ],
)
def test_what_other_settings_depend_on_must_not_change(conf, text, tied):
    assert (FREE_ON_RESUME | REMEDIES) - free_on_resume(conf.load(DATA + text)) == tied
