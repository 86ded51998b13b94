"""Characters that are safe to show to approvers. No I/O.

Texts that look equal must be equal. So invisible characters are refused, except where a script or
an emoji needs them (UAX #31, RFC 5892), and look-alikes of other letters are marked (UTS #39).
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator

import idna

# C0 and C1 controls except tab and line feed; line and paragraph separators; characters that
# PostgreSQL or UTF-8 cannot store or that Unicode will never assign; bidirectional embeddings,
# overrides and isolates.
_LAST_OF_PLANES = "".join(
    chr(plane << 16 | last) for plane in range(17) for last in (0xFFFE, 0xFFFF)
)
_NEVER = (
    r"\u0000-\u0008\u000b-\u001f\u007f-\u009f\u2028-\u202e\u2066-\u2069\ufff9-\ufffb\ufdd0-\ufdef"
)
CONTROLS = re.compile(rf"[{_NEVER}\ud800-\udfff{_LAST_OF_PLANES}]")
# For JSON Schema: as much of it as can be said there.
WITHOUT_CONTROLS = f"^[^{_NEVER}]*$"
UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
# Default_Ignorable_Code_Point of Unicode 16, the blank pattern of Braille and the Khitan filler.
INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U00016fe4\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff]"
)
ZWNJ, ZWJ, DIRECTION_MARKS = "\u200c", "\u200d", "\u200e\u200f\u061c"
TEXT_STYLE, EMOJI_STYLE, KEYCAP = "\ufe0e", "\ufe0f", "\u20e3"
# The three flags that Unicode writes with tag characters: England, Scotland, Wales.
TAG_FLAGS = tuple(
    "\U0001f3f4" + "".join(chr(0xE0000 + ord(letter)) for letter in region) + "\U000e007f"
    for region in ("gbeng", "gbsct", "gbwls")
)
PICTURE = re.compile(
    "[\u00a9\u00ae\u203c\u2049\u2122\u2139\u2194-\u2199\u21a9\u21aa\u231a\u231b\u2328\u23cf"
    "\u23e9-\u23fa\u24c2\u25aa\u25ab\u25b6\u25c0\u25fb-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b07\u2b1b\u2b1c\u2b50\u2b55\u3030\u303d\u3297\u3299\U0001f000-\U0001f1e5"
    "\U0001f200-\U0001f3fa\U0001f400-\U0001faff]"
)
SKIN = re.compile("[\U0001f3fb-\U0001f3ff]")
MARKS_IN_A_ROW = 8  # more would be drawn over the lines above and below
AROUND = 32  # characters before and after a joiner that may be its context
BENGALI_RA, BENGALI_VIRAMA = "\u09b0", "\u09cd"

# Scripts that imitate Latin when mixed with it in one word (UTS #39, "moderately restrictive",
# and Armenian).
IMITATING = frozenset({"CYRILLIC", "GREEK", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU"})
TOGETHER = (
    frozenset({"HAN", "HIRAGANA", "KATAKANA"}),
    frozenset({"HAN", "HANGUL"}),
    frozenset({"HAN", "BOPOMOFO"}),
)
SCRIPT_OF_NAME = {"CJK": "HAN", "IDEOGRAPHIC": "HAN", "KANGXI": "HAN"}
# First words of Unicode names that are not scripts.
OF_NO_SCRIPT = frozenset(
    {
        "MODIFIER",
        "FEMININE",
        "MASCULINE",
        "MICRO",
        "COMBINING",
        "HALFWIDTH",
        "FULLWIDTH",
        "SCRIPT",
        "DOUBLE-STRUCK",
        "BLACK-LETTER",
        "KATAKANA-HIRAGANA",
        "SUPERSCRIPT",
        "SUBSCRIPT",
        "VULGAR",
        "INFORMATION",
        "ANGSTROM",
        "KELVIN",
        "OHM",
        "PLANCK",
        "TURNED",
        "ROTATED",
        "REVERSED",
    }
)
# Cyrillic and Greek letters that look like Latin letters.
LIKE_LATIN = frozenset(
    "\u0430\u0435\u043e\u0440\u0441\u0443\u0445\u0456\u0458\u0455\u0501\u051b\u051d\u04bb\u04cf"
    "\u0410\u0412\u0415\u041a\u041c\u041d\u041e\u0420\u0421\u0422\u0423\u0425\u0406\u0408\u0405"
    "\u03bf\u03c1\u03bd\u03b9\u03b1\u03ba\u03c5\u03c7\u0391\u0392\u0395\u0396\u0397\u0399\u039a"
    "\u039c\u039d\u039f\u03a1\u03a4\u03a5\u03a7"
)
MAX_MARKS = 5


# --- what is refused -------------------------------------------------------------------------


def unsafe_in(text: str) -> str:
    """The first unsafe character as ``U+200B``; empty if the text is safe."""
    if text.isascii():
        control = CONTROLS.search(text)
        return _named(control.group()) if control else ""
    if control := CONTROLS.search(text):
        return _named(control.group())
    for match in INVISIBLE.finditer(text):
        if not _is_needed(text, match.start()):
            return _named(match.group())
    return _too_many_marks(text)


def _is_needed(text: str, at: int) -> bool:
    """True if this invisible character changes how its neighbours are drawn."""
    character, before = text[at], text[at - 1] if at else ""
    after = text[at + 1] if at + 1 < len(text) else ""
    if character == ZWNJ:
        return _joins_by_idna(text, at)
    if character == ZWJ:
        return _is_zwj_needed(text, at, before, after)
    if character in (TEXT_STYLE, EMOJI_STYLE):
        is_keycap = before in "0123456789#*" and after == KEYCAP
        return bool(before) and (is_keycap or PICTURE.match(before) is not None)
    if character in DIRECTION_MARKS:
        return any(
            unicodedata.bidirectional(other) in {"R", "AL"}
            for other in text
            if other not in DIRECTION_MARKS  # two of them are right-to-left themselves
        )
    if "\u180b" <= character <= "\u180f":
        return "\u1820" <= before <= "\u18aa"
    return "\U000e0020" <= character <= "\U000e007f" and _is_in_a_flag(text, at)


def _is_zwj_needed(text: str, at: int, before: str, after: str) -> bool:
    if (before, after) == (BENGALI_RA, BENGALI_VIRAMA) or _joins_by_idna(text, at):
        return True
    if _is_dual_joining(before) and not _takes_part_in_joining(after):
        return True  # forces the initial form of a letter that stands alone, as in Arabic dates
    picture = text[:at].rstrip(EMOJI_STYLE)[-2:]
    base = picture[:-1] if SKIN.match(picture[-1:]) else picture[-1:]
    return bool(PICTURE.match(base[-1:]) and PICTURE.match(after))


def _joins_by_idna(text: str, at: int) -> bool:
    start = max(0, at - AROUND)
    try:
        return idna.valid_contextj(text[start : at + AROUND], at - start)
    except (ValueError, IndexError):
        return False


def _is_dual_joining(character: str) -> bool:
    """Tested with idna: a non-joiner is valid between it and an alef, which joins to the right."""
    return bool(character) and _joins_by_idna(f"{character}{ZWNJ}\u0627", 1)


def _takes_part_in_joining(character: str) -> bool:
    """Tested with idna after a beh, which joins to both sides. Marks belong to what precedes."""
    is_mark = bool(character) and unicodedata.category(character) == "Mn"
    return is_mark or (bool(character) and _joins_by_idna(f"\u0628{ZWNJ}{character}", 1))


def _is_in_a_flag(text: str, at: int) -> bool:
    start = text.rfind(TAG_FLAGS[0][0], 0, at)
    return any(text.startswith(flag, start) and at < start + len(flag) for flag in TAG_FLAGS)


def _too_many_marks(text: str) -> str:
    """Stacked marks are drawn over other lines; a repeated mark looks like a single one."""
    run = 0
    for number, character in enumerate(text):
        if unicodedata.category(character) not in {"Mn", "Me"}:
            run = 0
            continue
        run += 1
        if run > MARKS_IN_A_ROW or character == text[number - 1]:
            return f"{_named(character)} once too often"
    return ""


def _named(character: str) -> str:
    return f"U+{ord(character):04X}"


# --- what is the same ------------------------------------------------------------------------


def normalised(text: str) -> str:
    """NFC: an accented letter is the same text, however it was typed."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def folded(text: str) -> str:
    """NFC without invisible characters and with single spaces: equal for texts that look equal."""
    return " ".join(INVISIBLE.sub("", normalised(text)).split())


def cleaned(text: str) -> str:
    """The text with unsafe characters replaced or removed, where it is too late to refuse it."""
    text = CONTROLS.sub("\N{REPLACEMENT CHARACTER}", text)
    return "".join(
        character
        for at, character in enumerate(text)
        if not INVISIBLE.match(character) or _is_needed(text, at)
    )


def is_storable(text: str) -> bool:
    """False for U+0000 and for half of a surrogate pair, which no column can have."""
    return UNSTORABLE.search(text) is None


def plain_name(text: str) -> str:
    """The text as names of tools are spelt: a-z, 0-9, and _ in place of everything else."""
    return re.sub(r"[^a-z0-9]", "_", text.lower())


def without_nul(text: str) -> str:
    """The text without U+0000, which PostgreSQL cannot store or search for."""
    return text.replace("\x00", "")


def one_line(text: str) -> str:
    """The text with every run of white space, line breaks included, as one space."""
    return " ".join(text.split())


# --- what is marked --------------------------------------------------------------------------


def lookalikes(texts: Iterable[str]) -> list[str]:
    """A warning for the approver for each word that can be mistaken for another; 6 at most."""
    marks: dict[str, None] = {}
    for text in texts:
        if not text.isascii():
            marks |= dict.fromkeys(_marks_of(text))
    shown = list(marks)[:MAX_MARKS]
    if more := len(marks) - len(shown):
        shown.append(f"{more} more words mix alphabets or imitate other letters.")
    return shown


def _marks_of(text: str) -> Iterator[str]:
    words = list(_words(text))
    has_latin = any("LATIN" in scripts_of(word) for word in words)
    honest = {s for word in words if not _is_drawn_like_latin(word) for s in scripts_of(word)}
    for word in words:
        scripts, short = scripts_of(word), word[:60]
        if "MATHEMATICAL" in scripts:
            plain = unicodedata.normalize("NFKC", short)
            yield f"“{short}” is written in mathematical signs that look like “{plain}”."
        elif not _are_written_together(scripts):
            names = " and ".join(script.capitalize() for script in sorted(scripts))
            yield f"“{short}” mixes {names} letters."
        elif has_latin and _is_drawn_like_latin(word) and not scripts & honest:
            (script,) = scripts
            yield f"“{short}” looks Latin but is {script.capitalize()}."
        if len({ord(c) - unicodedata.digit(c) for c in word if c.isdecimal()}) > 1:
            yield f"“{short}” mixes digits of several scripts."


def _words(text: str) -> Iterator[str]:
    word = ""
    for character in text:
        if unicodedata.category(character)[0] in "LM" or character.isdecimal() or character == "_":
            word += character
        elif word and not INVISIBLE.match(character):
            yield word
            word = ""
    if word:
        yield word


def scripts_of(word: str) -> frozenset[str]:
    """The scripts of its letters, by the names that Unicode gives them."""
    names = {_script_of(character) for character in word if character.isalpha()}
    return frozenset(names - OF_NO_SCRIPT - {""})


def _script_of(character: str) -> str:
    first = unicodedata.name(character, "").partition(" ")[0]
    return SCRIPT_OF_NAME.get(first, first)


def _are_written_together(scripts: frozenset[str]) -> bool:
    """True if words in these scripts together are usual."""
    others = scripts - {"LATIN"}
    if len(others) > 1:
        return any(others <= together for together in TOGETHER)
    return len(scripts) < 2 or not others & IMITATING


def _is_drawn_like_latin(word: str) -> bool:
    letters = [character for character in word if character.isalpha()]
    return len(letters) > 1 and all(letter in LIKE_LATIN for letter in letters)
