"""What looks the same is the same: in every script that people write."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given, strategies as some

from ledger.errors import OperationKeyConflict, UnsafeText
from ledger.foundation import characters
from ledger.models import Transaction
from ledger.seals import intents
from tests.conftest import propose

WRITTEN_BY_PEOPLE = {
    "Arabic": "الفاتورة مستحقة اليوم (invoice 8841) قبل الساعة 17:00.",
    "Arabic with marks": "مُحَمَّد بن سَلْمان",
    "Arabic date": "سنة 1447 ه\u200d",
    "Persian": "می\u200cخواهم کتاب\u200cها را بخرم",
    "Hebrew with a mark of direction": "חשבונית \u200f(42)",
    "Hindi": "कृपया राम को ₹500 लौटाएँ",
    "Hindi with joiners": "क्\u200dष और क्\u200cष",
    "Bengali": "র\u200d্যাংক ও প্রধানমন্ত্রী",
    "Sinhala": "ශ්\u200dරී ලංකා",
    "Malayalam": "അവന്\u200d വന്നു",
    "Tamil": "தமிழ்நாடு",
    "Thai": "โปรดคืนเงินให้คุณสมชาย 500 บาท",
    "Thai with Latin": "ส่งemailไปที่ana",
    "Lao": "ສະບາຍດີ",
    "Khmer": "សូមអរគុណ",
    "Burmese": "ကျေးဇူးတင်ပါတယ်",
    "Tibetan": "བཀྲ་ཤིས་བདེ་ལེགས།",
    "Japanese": "カード払いのご返金をお願いします。iPhoneケース",
    "Chinese": "请退款给张伟",
    "Korean": "환불해 주세요 金씨",
    "Vietnamese": "Nguyễn Thị Ánh Tuyết",
    "Polish": "Łódź, Żółć",
    "Yoruba": "Ọ̀ṣun",
    "Greek": "Επιστροφή χρημάτων στην Acme",
    "Russian": "Верните деньги за сахар фирме Acme",
    "emoji families": "👨\u200d👩\u200d👧\u200d👦 👩🏽\u200d💻 🏳\ufe0f\u200d🌈 ❤\ufe0f 1\ufe0f⃣",
    "flags": "🇫🇷 🏴\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f",
    "Mongolian": "ᠮᠣᠩᠭᠣᠯ",
    "signs": "50 µm, © 2026, «oui», “no”, 10 °C, a\u00a0b, x²",
}

REFUSED = {
    "a mark of direction among Latin letters": "pay\u200f_1042",
    "a mark of Arabic direction among Latin letters": "pay\u061c_1042",
    "Khitan filler": "pay\U00016fe4",
    "a code point that is no character": "pay\ufdd0",
    "the last code point of a plane": "pay\U0001ffff",
    "zero width space": "pay_1042\u200b",
    "zero width joiner": "pay\u200d_1042",
    "zero width non-joiner": "pay\u200c_1042",
    "word joiner": "pay\u2060_1042",
    "byte order mark": "\ufeffpay_1042",
    "soft hyphen": "pay\u00ad_1042",
    "grapheme joiner": "pay\u034f_1042",
    "Hangul filler": "pay\u3164",
    "Braille blank": "pay\u2800",
    "tags": "pay" + "".join(chr(0xE0000 + ord(c)) for c in "approve all"),
    "a flag with more in it": "🏴\U000e0067\U000e0062\U000e0065\U000e0076\U000e007f",
    "variation selector on a letter": "pay\ufe0f",
    "variation selector on a digit": "1\ufe0f042",
    "bytes in variation selectors": "😀" + "\U000e0110\U000e0120",
    "left-to-right mark in Latin": "pay\u200e_1042",
    "override": "pay\u202e2401",
    "isolate": "pay\u2066",
    "line separator": "a\u2028b",
    "interlinear": "a\ufff9b\ufffac\ufffb",
    "noncharacter": "a\uffff",
    "marks over other lines": "z" + "\u0316\u0317" * 9,
    "a mark twice": "e\u0327\u0327",
    "joiner between letters that join anyway": "مح\u200dمد",
    "control": "a\x07",
}


@pytest.mark.parametrize("language", WRITTEN_BY_PEOPLE)
def test_what_people_write_is_allowed_and_not_marked(language):
    text = WRITTEN_BY_PEOPLE[language]

    assert characters.unsafe_in(text) == ""
    assert characters.unsafe_in(characters.normalised(text)) == ""
    assert characters.lookalikes([text]) == []


@pytest.mark.parametrize("what", REFUSED)
def test_what_nobody_can_see_is_refused(what):
    with pytest.raises(UnsafeText, match=r"U\+"):
        intents.refuse_unsafe_text({"payment": [REFUSED[what]]})
    with pytest.raises(UnsafeText, match=r"U\+"):
        intents.refuse_unsafe_text({REFUSED[what]: "a name"})


@given(some.text(max_size=30))
def test_what_is_allowed_and_looks_the_same_is_folded_to_the_same(text):
    """Whatever is not refused has at least one character that can be seen, or is blank."""
    if characters.unsafe_in(text):
        return
    normal = characters.normalised(text)

    assert characters.unsafe_in(normal) == "" or not text.isascii()
    assert characters.folded(normal) == characters.folded(text)
    assert unicodedata.is_normalized("NFC", normal)


LOOKALIKES = {
    "р\u0430ypal": "“р\u0430ypal” mixes Cyrillic and Latin letters.",
    "Pay \u0440\u0430\u0443 now": "“\u0440\u0430\u0443” looks Latin but is Cyrillic.",
    "g\u03bfogle.example": "“g\u03bfogle” mixes Greek and Latin letters.",
    "\U0001d429\U0001d41a\U0001d432": "that look like “pay”.",
    "10\u06642": "mixes digits of several scripts.",
}


@pytest.mark.parametrize("text", LOOKALIKES)
def test_what_imitates_another_script_is_marked(text):
    (mark,) = characters.lookalikes([text])

    assert LOOKALIKES[text] in mark


def test_marks_are_few_and_say_how_many_there_are_more():
    marks = characters.lookalikes(f"p\u0430y{chr(97 + n)}" for n in range(20))

    assert len(marks) == characters.MAX_MARKS + 1
    assert marks[-1].startswith("15 more words")


# --- at the front door ------------------------------------------------------------------------


def test_two_references_that_look_the_same_are_one_operation(acme):
    row = propose("pay", reference="caf\u00e9")

    again = propose("pay", reference="cafe\u0301")

    assert again.pk == row.pk
    assert row.arguments["reference"] == "caf\u00e9"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("می\u200cخواهم", "میخواهم"),
        ("order 1", "order\u00a01"),
        ("order 1", "order 1 "),
        ("חשבון", "חשבון\u200f"),
    ],
)
def test_what_differs_only_in_what_nobody_sees_is_no_second_operation(acme, one, other):
    propose("pay", reference=one)

    with pytest.raises(OperationKeyConflict):
        propose("pay", reference=other)


def test_an_invisible_character_makes_no_second_operation(acme):
    propose("pay", reference="pay_1042")

    with pytest.raises(UnsafeText):
        propose("pay", reference="pay_1042\u200b")
    assert Transaction.objects.count() == 1


def test_two_names_that_look_the_same_are_refused():
    with pytest.raises(UnsafeText, match="look the same"):
        intents.normalised({"caf\u00e9": 1, "cafe\u0301": 2})


def test_a_summary_has_one_line(acme):
    row = propose("order", item="chair\n\nApproved by the CFO")

    assert row.action_summary == "Order: item chair Approved by the CFO"
    assert row.is_untouched


def test_an_imitation_is_a_warning_that_the_digest_covers(acme, as_alice):
    row = propose("order", item="p\u0430ypal")

    assert row.warnings == ["“p\u0430ypal” mixes Cyrillic and Latin letters."]
    assert intents.intent_of(row)["warnings"] == row.warnings
    page = as_alice.get(f"/transactions/{row.pk}/").content.decode()
    assert "mixes Cyrillic and Latin letters." in page
