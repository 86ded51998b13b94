"""The pages of rules: read, edited as a draft, previewed, activated by two, put back."""

from __future__ import annotations

import re

import pytest
from django.urls import reverse

from ledger.models import ChangeRequest, RuleSet, RuleSetState
from ledger.sign_off import groups, rules
from ledger.sign_off.rules import sets
from tests.conftest import signed_in
from tests.rules.conftest import LARGE_TAKE_TWO, NO_LAUNCH, SMALL_PASS

pytestmark = pytest.mark.django_db
PAGE = "/settings/rules/acme/"
PASS_BELOW_50 = {
    "tool": "refund",
    "amount_is": "below",
    "amount": "50",
    "currency": "eur",
    "argument_is": "is",
    "verdict": "pass",
}
PLAIN = {"argument_is": "is", "currency": "EUR"}


def seen() -> str:
    row = rules.in_work("acme") or rules.active("acme")
    return row.sha256 if row else ""


def draft_rules() -> list:
    draft = rules.in_work("acme")
    return draft.rules if draft else []


def text_of(answer) -> str:
    return " ".join(re.sub(r"<[^>]+>", " ", answer.content.decode()).split())


def add(person, **fields):
    return person.post(f"{PAGE}rule/", {**PLAIN, **fields, "seen": seen()}, follow=True)


# --- reading --------------------------------------------------------------------------------------


def test_managers_read_the_rules_and_change_nothing(as_alice, activated, acme):
    activated(SMALL_PASS)
    page = text_of(as_alice.get(PAGE))

    assert "refund, below 50 EUR: nobody has to sign" in page
    assert "Add a rule" not in page
    for path in ("rule/", "text/", "rule/1/"):
        assert as_alice.get(PAGE + path).status_code == 403
    for path in ("rule/", "text/", "rule/1/remove", "activate", "discard", "put-back/1"):
        assert as_alice.post(PAGE + path, {"seen": seen()}).status_code == 403
    assert as_alice.post(f"{PAGE}preview/start").status_code == 403
    assert as_alice.post(f"{PAGE}groups/", {"name": "finance"}).status_code == 403


def test_rules_of_another_tenant_are_not_there(as_carol, as_vera, acme, globex):
    for path in ("", "preview/", "preview/next", "groups/"):
        assert as_carol.get(PAGE + path).status_code == 404
        assert as_vera.get(PAGE + path).status_code == 403


def test_the_only_tenant_is_shown_at_once(as_olga):
    assert "No rule: each tool asks for what its contract says." in text_of(
        as_olga.get(reverse("desk:rules"))
    )


def test_a_set_that_cannot_be_read_says_so(as_olga, activated):
    activated(SMALL_PASS)
    RuleSet.objects.update(rules=[{"when": {"colour": "red"}, "then": "pass"}])

    assert "This set cannot be read" in text_of(as_olga.get(PAGE))


# --- editing --------------------------------------------------------------------------------------


def test_a_rule_is_added_as_a_sentence_and_is_not_in_force(as_olga, acme):
    page = text_of(add(as_olga, **PASS_BELOW_50))

    assert draft_rules() == [
        {
            "when": {"tool": {"is": ["refund"]}, "amount": {"below": "50 EUR"}},
            "then": {"verdict": "pass"},
        }
    ]
    assert "refund, below 50 EUR: nobody has to sign new" in page
    assert rules.active("acme") is None


def test_a_rule_asks_for_people_of_groups_and_how_they_sign(as_olga, acme, olga):
    groups.make("acme", "finance", by=olga, via="web")
    page = text_of(
        add(
            as_olga,
            amount_is="at_least",
            amount="1000",
            verdict="ask",
            people="2",
            seats_finance="1",
            widen_after="240",
            widen_to="approvers",
            strength="typed",
            note="on",
        )
    )

    [rule] = draft_rules()
    assert rule["then"] == {
        "verdict": "ask",
        "seats": {"approvers": 2, "finance": 1},
        "widen": {"after_minutes": 240, "to": "approvers"},
        "strength": "typed",
        "note": True,
    }
    assert "or of no known amount in that currency" in page


def test_a_rule_asks_for_a_passkey_and_its_form_shows_that(as_olga, acme):
    add(as_olga, tool="refund", verdict="ask", people="1", strength="passkey")

    [rule] = draft_rules()
    assert rule["then"] == {
        "verdict": "ask",
        "seats": {"approvers": 1},
        "strength": "passkey",
    }
    form = as_olga.get(f"{PAGE}rule/1/").content.decode()
    assert '<option value="passkey" selected>' in form


def test_what_passes_has_a_sum_and_a_number_in_a_time(as_olga, acme):
    limits = {"sum_most": "500", "sum_currency": "eur", "sum_per": "month"}
    page = text_of(add(as_olga, **PASS_BELOW_50, **limits, times_most="20", times_per="day"))

    [rule] = draft_rules()
    assert rule["then"]["budgets"] == [{"most": "500 EUR", "per": "month"}, {"most": "20"}]
    assert "nobody has to sign, up to 500 EUR a month and 20 times a day" in page
    form = as_olga.get(f"{PAGE}rule/1/").context["form"]
    assert (form["sum_most"].value(), form["times_most"].value()) == (500, "20")
    assert (form["sum_per"].value(), form["times_per"].value()) == ("month", "day")


@pytest.mark.parametrize(
    "wrong",
    [
        {"sum_most": "0", "sum_currency": "EUR"},
        {"sum_most": "5", "sum_currency": "euro"},
        {"times_most": "0"},
        {"times_most": "1.5"},
    ],
)
def test_a_budget_that_means_nothing_is_refused(as_olga, acme, wrong):
    assert add(as_olga, **PASS_BELOW_50, **wrong).status_code == 422
    assert draft_rules() == []


def test_an_amount_may_be_at_most_so_much(as_olga, acme):
    add(as_olga, **{**PASS_BELOW_50, "amount_is": "at_most"})

    assert draft_rules()[0]["when"]["amount"] == {"at_most": "50 EUR"}


def test_an_edit_begins_from_the_rules_in_force(as_olga, activated):
    activated(LARGE_TAKE_TWO, NO_LAUNCH)
    form = as_olga.get(f"{PAGE}rule/1/").context["form"]
    as_olga.post(
        f"{PAGE}rule/1/",
        {
            **PLAIN,
            **form.initial,
            "people": "3",
            "sum_most": "",
            "times_most": "",
            "tool": "",
            "agent": "",
            "risk": "",
            "argument": "",
            "value": "",
            "why": "Grown up.",
            "strength": "",
            "note": "",
            "desk_only": "",
            "seen": seen(),
        },
    )

    assert [each["then"] for each in draft_rules()] == [
        {"verdict": "ask", "seats": {"approvers": 3}},
        {"verdict": "deny"},
    ]
    assert draft_rules()[0]["note"] == "Grown up."
    assert rules.active("acme").rules[0]["then"]["seats"] == {"approvers": 2}


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"verdict": "pass"}, "a rule cannot let everything pass"),
        ({"verdict": ""}, "Choose what follows."),
        ({"verdict": "ask", "amount_is": "below"}, "Say which amount."),
        ({"verdict": "ask", "amount": "5"}, "Say whether it is below this, or at least this."),
        (
            {"verdict": "ask", "amount": "5", "amount_is": "below", "currency": "xx"},
            "three letters",
        ),
        ({"verdict": "ask", "argument": "country"}, "Name the argument and its value"),
        ({"verdict": "ask", "people": "10"}, "less than or equal to 9"),
        ({"verdict": "ask", "argument": "n", "argument_is": "below", "value": "x"}, "no number"),
        ({"verdict": "ask", "tool": "nothing"}, "not one of the available choices"),
    ],
)
def test_a_rule_that_says_half_is_refused_beside_its_field(as_olga, acme, fields, says):
    answer = add(as_olga, **fields)

    assert answer.status_code == 422
    assert says in text_of(answer)
    assert rules.in_work("acme") is None


def test_the_form_says_what_no_rule_lowers(as_olga, acme):
    assert 'label="Their owners let no rule lower' in as_olga.get(f"{PAGE}rule/").content.decode()

    page = text_of(add(as_olga, **PASS_BELOW_50 | {"tool": "pay"}))

    assert "No effect: the owner of Pay lets no rule lower what it asks for." in page


def test_a_rule_that_the_form_cannot_show_is_edited_as_text(as_olga, activated):
    activated({"when": {"tool": ["refund", "pay"]}, "then": "deny"})

    assert as_olga.get(f"{PAGE}rule/1/")["Location"] == f"{PAGE}text/"
    assert as_olga.get(f"{PAGE}rule/2/").status_code == 404


def test_a_form_of_an_overtaken_draft_changes_nothing(as_olga, otto, acme):
    before = seen()
    sets.edit("acme", [NO_LAUNCH], seen="", by=otto)

    added = as_olga.post(f"{PAGE}rule/", {**PLAIN, **PASS_BELOW_50, "seen": before})
    removed = as_olga.post(f"{PAGE}rule/1/remove", {"seen": before}, follow=True)

    assert added.status_code == 422
    for answer in (added, removed):
        assert "Somebody has changed the rules meanwhile" in text_of(answer)
    assert len(draft_rules()) == 1


def test_a_rule_is_removed_from_the_draft_alone(as_olga, activated):
    activated(LARGE_TAKE_TWO, NO_LAUNCH)

    page = text_of(as_olga.post(f"{PAGE}rule/2/remove", {"seen": seen()}, follow=True))

    assert len(draft_rules()) == 1
    assert "No longer: pay: is denied" in page or "No longer: launch: is denied" in page
    assert len(rules.active("acme").rules) == 2


def test_rules_are_written_as_text_with_cases(as_olga, acme):
    written = "rules:\n- when: {tool: refund, amount: {below: 50 EUR}}\n  then: pass\n"
    fits = "cases:\n- given: {tool: refund, amount: 49 EUR}\n  then: pass\n"
    fails = "cases:\n- given: {tool: refund, amount: 51 EUR}\n  then: pass\n"

    refused = as_olga.post(f"{PAGE}text/", {"text": written + fails, "seen": ""})
    as_olga.post(f"{PAGE}text/", {"text": written + fits, "seen": ""})

    assert refused.status_code == 422
    assert "Case 1: pass was expected, and the rules say ask." in text_of(refused)
    assert len(draft_rules()) == 1


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("rules: [", "It is no YAML"),
        ("rules: [{when: {tool: x}, then: {verdict: ask, seats: {nobody: 1}}}]", "named nobody"),
        ("a: &a [1]\nrules: *a", "aliases"),
        ("rules: [{when: {colour: red}, then: pass}]", "colour is no fact"),
        ("rules: 7", "lists"),
    ],
)
def test_a_text_that_makes_no_sense_is_refused(as_olga, acme, text, says):
    answer = as_olga.post(f"{PAGE}text/", {"text": text, "seen": ""})

    assert answer.status_code == 422
    assert says in text_of(answer)
    assert rules.in_work("acme") is None


def test_a_draft_is_discarded(as_olga, acme, olga):
    sets.edit("acme", [NO_LAUNCH], seen="", by=olga)

    as_olga.post(f"{PAGE}discard", {"seen": "x"})
    assert draft_rules()
    as_olga.post(f"{PAGE}discard", {"seen": seen()})
    assert not draft_rules()


# --- activating -----------------------------------------------------------------------------------


def test_what_tightens_is_in_force_at_once(as_olga, acme, olga):
    sets.edit("acme", [LARGE_TAKE_TWO], seen="", by=olga)
    dialog = text_of(as_olga.get(PAGE))

    page = text_of(as_olga.post(f"{PAGE}activate", {"seen": seen()}, follow=True))

    assert "This only tightens who signs." in dialog
    assert "These rules are in force from now on." in page
    assert "Set 1, activated by Olga Novak" in page


def test_what_loosens_is_seen_and_confirmed_by_the_second_operator(
    as_olga, as_otto, olga, activated
):
    activated(LARGE_TAKE_TWO)
    sets.edit("acme", [SMALL_PASS, LARGE_TAKE_TWO], seen="", by=olga)
    dialog = text_of(as_olga.get(PAGE))

    page = text_of(as_olga.post(f"{PAGE}activate", {"seen": seen()}, follow=True))
    change = ChangeRequest.objects.get(state="waiting")
    inbox = text_of(as_otto.get("/"))
    shown = text_of(as_otto.get(reverse("desk:change", args=[change.pk])))
    own = text_of(as_olga.get(reverse("desk:change", args=[change.pk])))
    as_otto.post(reverse("desk:change-confirm", args=[change.pk]), {"seen": change.sha256})

    assert "It waits until another operator confirms it. New: refund, below 50 EUR" in dialog
    assert "another operator has to confirm it" in page
    assert "Olga Novak asks to activate other rules about who signs what." in inbox
    assert "refund, below 50 EUR: nobody has to sign" in shown.partition("Rule 1 looser")[2]
    assert "another operator has to confirm it" in own
    assert "Confirm all of it" not in own
    assert rules.active("acme").number == 2
    history = text_of(as_otto.get(reverse("desk:changes")))
    assert "activated rules about who signs what" in history


def test_a_change_of_another_draft_cannot_be_confirmed(as_olga, as_otto, acme, olga):
    sets.edit("acme", [SMALL_PASS], seen="", by=olga)
    as_olga.post(f"{PAGE}activate", {"seen": seen()})
    change = ChangeRequest.objects.get()
    RuleSet.objects.filter(state=RuleSetState.DRAFT).update(rules=[NO_LAUNCH])

    shown = text_of(as_otto.get(reverse("desk:change", args=[change.pk])))

    assert "it cannot be confirmed" in shown


def test_an_earlier_set_is_put_back_and_says_whether_it_waits(as_olga, activated):
    activated(NO_LAUNCH)
    activated()

    page = text_of(as_olga.post(f"{PAGE}put-back/1", follow=True))

    assert "These rules are in force from now on." in page
    assert as_olga.post(f"{PAGE}put-back/99").status_code == 404


# --- groups ---------------------------------------------------------------------------------------


def test_a_group_is_made_and_joined_with_two_operators(
    as_olga, as_otto, alice_user, bob_user, carol_user
):
    as_olga.post(f"{PAGE}groups/", {"name": "finance"})
    again = as_olga.post(f"{PAGE}groups/", {"name": "finance"})
    [group] = [each.group for each in as_olga.get(f"{PAGE}groups/").context["groups"]]
    address = reverse("desk:group-add", args=["acme", group.pk])

    stranger = as_olga.post(address, {"person": carol_user.pk})
    early = as_olga.post(address, {"person": alice_user.pk, "ends": "2020-01-01"})
    as_olga.post(
        address,
        {"person": alice_user.pk, "ends": "2099-12-31", "in_place_of": bob_user.pk},
    )
    change = ChangeRequest.objects.get()
    shown = text_of(as_otto.get(reverse("desk:change", args=[change.pk])))
    waiting = text_of(as_olga.get(f"{PAGE}groups/"))
    as_otto.post(reverse("desk:change-confirm", args=[change.pk]), {"seen": change.sha256})

    assert (again.status_code, stranger.status_code, early.status_code) == (422, 422, 422)
    assert "There is a group finance already." in text_of(again)
    assert "Olga Novak asks to add Alice Moreau to the group finance ." in shown
    assert "In place of Bob Tanaka ." in shown
    assert "asked for by Olga Novak" in waiting
    assert list(groups.groups_of("acme", f"user:{alice_user.pk}")) == ["finance"]

    member = group.members.get()
    as_olga.post(reverse("desk:group-remove", args=["acme", member.pk]))
    assert groups.groups_of("acme", f"user:{alice_user.pk}") == {}


@pytest.mark.parametrize("name", ["", "Finance", "9", "approvers", "a b"])
def test_a_name_that_rules_cannot_use_is_refused(as_olga, acme, name):
    assert as_olga.post(f"{PAGE}groups/", {"name": name}).status_code == 422


def test_groups_of_another_tenant_are_not_there(as_olga, globex, carol_user, olga):
    group = groups.make("globex", "board", by=olga, via="web")

    answer = as_olga.post(reverse("desk:group-add", args=["acme", group.pk]), {"person": 1})

    assert answer.status_code == 404
    assert signed_in(carol_user).get(f"{PAGE}groups/").status_code == 404


# --- the first ones -------------------------------------------------------------------------------


def test_a_tenant_without_rules_is_offered_three_which_go_into_a_preview(as_olga, as_alice, acme):
    page = text_of(as_olga.get(PAGE))
    assert "refund_customer, below 50 EUR: nobody has to sign" in page
    assert "everything, where it cannot be undone: signed by a person, with a note" in page
    assert "Try them in a preview" not in text_of(as_alice.get(PAGE))

    after = text_of(as_olga.post(f"{PAGE}begin", follow=True))

    draft = rules.in_work("acme")
    assert (draft.state, len(draft.rules), rules.active("acme")) == (RuleSetState.PREVIEW, 3, None)
    assert "The preview runs." in after
    assert "Try them in a preview" not in after


def test_who_has_rules_is_offered_none(as_olga, activated):
    activated(SMALL_PASS)

    assert "To begin with" not in text_of(as_olga.get(PAGE))
    refused = text_of(as_olga.post(f"{PAGE}begin", follow=True))
    assert "changed the rules meanwhile" in refused
    assert rules.in_work("acme") is None
