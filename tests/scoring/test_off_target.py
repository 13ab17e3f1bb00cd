"""The share of translations in another language than asked for."""

from evenglot.corpus.languages import CODES, identifier
from evenglot.scoring.off_target import off_target_rate
from evenglot.scoring.tables import score_summary


def test_translations_in_another_language_are_noticed():
    english = ["This is a sentence in the English language.", "He went to the market and bought some bread."]
    german = ["Das ist ein Satz in deutscher Sprache.", "Er ging auf den Markt und kaufte Brot."]
    for code in ("en", "eng", "en_US"):
        assert off_target_rate(english, code) == 0
        assert off_target_rate(german, code) == 1
    assert off_target_rate([*english, *german, ""], "deu") == 0.5
    assert off_target_rate(english, "xyz") is None
    assert off_target_rate([""], "en") is None


def test_every_language_of_the_identifier_that_has_two_letters_has_three_as_well():
    labels = {str(label) for label in identifier().labels}
    assert {label for label in labels if len(label) == 2} <= set(CODES)


def test_the_rate_is_explained_beside_that_of_the_references():
    row = {"chrf": 40.0, "off_target": 0.5, "off_target_references": 0.25, "lines": 9}
    other = {"chrf": 50.0, "off_target": None, "lines": 9}
    scores = {
        "signature": {},
        "worst": {"direction": "aa-en", "chrf": 40.0},
        "directions": {"aa-en": row, "bb-en": other},
    }
    assert "of the references, 25 %" in score_summary(scores)
    assert "off-target" not in score_summary({**scores, "directions": {"bb-en": other}})
