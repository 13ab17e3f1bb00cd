"""Language identification, if the package for it is installed (extra langid), and the codes of its languages."""

from __future__ import annotations

from functools import cache
from typing import Any

# Three-letter codes (ISO 639-3, some from the older 639-2/B) of the languages that langid identifies by two letters.
CODES = {
    "af": "afr", "am": "amh", "an": "arg", "ar": "ara", "as": "asm", "az": "aze azj", "ba": "bak", "be": "bel",
    "bg": "bul", "bn": "ben", "br": "bre", "bs": "bos", "ca": "cat", "cs": "ces cze", "cy": "cym wel", "da": "dan",
    "de": "deu ger", "dz": "dzo", "el": "ell gre", "en": "eng", "eo": "epo", "es": "spa", "et": "est ekk",
    "eu": "eus baq", "fa": "fas per pes", "fi": "fin", "fo": "fao", "fr": "fra fre", "fy": "fry", "ga": "gle",
    "gd": "gla", "gl": "glg", "gu": "guj", "ha": "hau", "he": "heb", "hi": "hin", "hr": "hrv", "ht": "hat",
    "hu": "hun", "hy": "hye arm", "id": "ind", "ig": "ibo", "is": "isl ice", "it": "ita", "ja": "jpn", "jv": "jav",
    "ka": "kat geo", "kk": "kaz", "km": "khm", "kn": "kan", "ko": "kor", "ku": "kur kmr", "ky": "kir", "la": "lat",
    "lb": "ltz", "lg": "lug", "ln": "lin", "lo": "lao", "lt": "lit", "lv": "lav lvs", "mg": "mlg", "mk": "mkd mac",
    "ml": "mal", "mn": "mon khk", "mr": "mar", "ms": "msa may zsm", "mt": "mlt", "my": "mya bur", "nb": "nob",
    "ne": "nep npi", "nl": "nld dut", "nn": "nno", "no": "nor", "oc": "oci", "om": "orm", "or": "ori ory",
    "pa": "pan", "pl": "pol", "ps": "pus pbt", "pt": "por", "qu": "que", "ro": "ron rum", "ru": "rus", "rw": "kin",
    "sa": "san", "se": "sme", "si": "sin", "sk": "slk slo", "sl": "slv", "sn": "sna", "so": "som", "sq": "sqi alb",
    "sr": "srp", "st": "sot", "sv": "swe", "sw": "swa swh", "ta": "tam", "te": "tel", "tg": "tgk", "th": "tha",
    "tk": "tuk", "tl": "tgl fil", "tr": "tur", "tt": "tat", "ug": "uig", "uk": "ukr", "ur": "urd", "uz": "uzb uzn",
    "vi": "vie", "vo": "vol", "wa": "wln", "xh": "xho", "yo": "yor", "zh": "zho chi cmn", "zu": "zul",
}  # fmt: skip
TWO_LETTERS = {three: two for two, codes in CODES.items() for three in codes.split()}
ALIKE = {"nb": "no", "nn": "no"}  # not distinguished by langid


def plain_code(code: str) -> str:
    """The two-letter code if there is one, without script or country: 'pt' for 'pt_BR' and 'por'."""
    base = str(code).split("_")[0].lower()
    two = TWO_LETTERS.get(base, base)
    return ALIKE.get(two, two)


def can_identify() -> bool:
    """Whether the package that identifies languages is installed."""
    return identifier() is not None


def likely_languages(text: str) -> list[str]:
    """Plain codes of all known languages, the most likely first; requires the package."""
    return list(dict.fromkeys(plain_code(label) for label, _ in identifier().rank(text)))


@cache
def identifier() -> Any:
    """The identifier of py3langid; None if it is not installed."""
    try:
        from py3langid import langid
    except ImportError:
        return None
    langid.classify("")  # loads the model
    return langid.IDENTIFIER
