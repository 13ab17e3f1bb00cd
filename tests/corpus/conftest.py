import gzip

import pytest

from evenglot.config import load_config

WORDS = {
    "en": "the cat sees a small red house and the dog sleeps near an old green tree",
    "por": "o gato vê uma pequena casa vermelha e o cão dorme perto de uma árvore velha",
    "glg": "o gato ve unha pequena casa vermella e o can dorme preto dunha árbore vella",
    "rus": "кошка видит маленький красный дом и собака спит около старого зелёного дерева там",
}
# Most versions of SentencePiece learn only what several words share: without endings, little more than single letters.
ENDINGS = {"en": ["", "s", "ing"], "por": ["", "s", "mente"], "glg": ["", "s", "mente"], "rus": ["", "ами", "ого"]}


def sentences(language, start, count):
    """Sentences of a small invented language; the same number gives the same sentence in every language."""
    words, endings = WORDS[language].split(), ENDINGS[language]
    for number in range(start, start + count):
        chosen = [words[(number * step + step) % len(words)] for step in range(1, 3 + number % 5)]
        inflected = [word + endings[(number // 7 + position) % 3] for position, word in enumerate(chosen)]
        yield f"{' '.join(inflected)} {number}."


@pytest.fixture
def corpus(tmp_path):
    """A folder with a configuration and the text of three languages to English, gzipped."""
    for language, size in (("por", 300), ("rus", 120), ("glg", 40)):
        for split, start, count in (("train", 0, size), ("valid", 1000, 30), ("test", 2000, 20)):
            for side in (language, "en"):
                text = "\n".join(sentences(side, start, count)) + "\n"
                (tmp_path / f"{split}.{language}-en.{side}.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    (tmp_path / "conf.yaml").write_text(
        "data:\n"
        "  directions: {from: [por, rus, glg], to: en}\n"
        "  train: train.{pair}.{lang}.gz\n"
        "  valid: valid.{pair}.{lang}.gz\n"
        "  test: test.{pair}.{lang}.gz\n"
        "vocabulary: {size_shared: 100, size_other: 150}\n"
        "store: {valid_cap: 25}\n"
    )
    return tmp_path


@pytest.fixture
def configure(corpus):
    """The configuration of the corpus, with overrides."""
    return lambda *overrides: load_config(corpus / "conf.yaml", overrides)
