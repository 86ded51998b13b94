"""People are told of broken glass, and of a grant of theirs that ended."""

from __future__ import annotations

import pytest

from approvals.models import PushSubscription
from approvals.notifications import grant_news
from ledger.events import four_eyes
from ledger.models import Delivery, Grant
from ledger.sign_off import grants
from tests.approvals import test_mail, test_web_push
from tests.approvals.test_mail import server, text_of, write_to
from tests.approvals.test_web_push import service, tell_in
from tests.grants.conftest import TEN_TIMES, wanted

__all__ = ["server", "service"]
pytestmark = pytest.mark.django_db


@pytest.fixture
def broken(acme, olga, otto):
    def make() -> Grant:
        emergency = wanted(tool="", when={}, budgets=[TEN_TIMES], why="The provider is down.")
        asked = grants.ask_break_glass(emergency, by=olga, via="web")
        four_eyes.confirm(asked, seen=asked.sha256, by=otto, via="web")
        return Grant.objects.latest("pk")

    return make


def test_everybody_who_decides_or_operates_is_told_and_gets_the_report(
    server, alice_user, otto_user, vera_user, carol_user, broken, a_transaction, bob
):
    for person in (alice_user, otto_user, vera_user, carol_user):
        write_to(person, mail="daily")
    grant = broken()
    row = a_transaction("refund", order="o-1", amount="40")
    grants.end(grant.pk, by=bob, via="web")
    test_mail.deliver_all()

    told = [(letter["To"].partition("@")[0], letter["Subject"]) for letter in server.letters]
    begun = f"Glass broken by {grant.given_by_name} and {grant.confirmed_by_name} until"
    ended = "The glass is closed again: 1, €40 passed"
    assert sorted(name for name, subject in told if subject.startswith(begun)) == ["alice", "otto"]
    assert sorted(name for name, subject in told if subject == ended) == ["alice", "otto"]
    asked = [name for name, subject in told if subject.endswith("asks to break the glass")]
    assert asked == ["otto"]
    [report, *_] = [each for each in server.letters if each["Subject"] == ended]
    assert f"https://assent.example/transactions/{row.pk}/" in text_of(report)
    assert f"https://assent.example/standing/?grant={grant.pk}" in text_of(report)
    [first, *_] = [each for each in server.letters if each["Subject"].startswith(begun)]
    assert "The provider is down." in text_of(first)


def test_a_report_lists_some_and_says_how_many_there_were(
    server, alice_user, broken, bob, a_transaction, monkeypatch
):
    monkeypatch.setattr(grant_news, "MOST_USES", 2)
    write_to(alice_user)
    grant = broken()
    for number in range(3):
        a_transaction("refund", order=f"o-{number}", amount="1")
    grants.end(grant.pk, by=bob, via="web")
    test_mail.deliver_all()

    [text] = [text_of(each) for each in server.letters if "closed again" in each["Subject"]]
    assert text.count("/transactions/") == 2
    assert "All 3…" in text


def test_whoever_gave_it_is_told_that_a_colleague_ended_it(server, alice_user, allowed, bob, alice):
    write_to(alice_user)
    own, other = allowed(), allowed()
    grants.end(own.pk, by=alice, via="web")
    grants.end(other.pk, by=bob, via="web")
    test_mail.deliver_all()

    (letter,) = server.letters
    assert letter["Subject"] == "Your grant ended: it signed 0"
    assert "Refund by helpdesk, up to 10 times, at most €50.00 each" in text_of(letter)


def test_nobody_is_told_of_a_grant_that_is_given(server, alice_user, bob_user, allowed):
    write_to(alice_user)
    write_to(bob_user)
    allowed()
    test_mail.deliver_all()

    assert server.letters == []


def test_who_hides_details_reads_none(server, alice_user, broken):
    write_to(alice_user, hides_details=True)
    broken()
    test_mail.deliver_all()

    (letter,) = server.letters
    assert "The provider is down." not in text_of(letter)


def test_browsers_show_it_too(service, as_alice, as_olga, broken):
    alice, olga = service.browser(), service.browser("two")
    tell_in(as_alice, alice)
    tell_in(as_olga, olga)
    grant = broken()
    test_web_push.deliver_all()

    assert not Delivery.objects.filter(channel="web_push", state="waiting").exists()
    for browser in (alice, olga):
        (shown,) = browser.shown()
        assert shown["title"].startswith("Glass broken by")
        assert shown["address"] == f"/standing/?grant={grant.pk}"
    assert PushSubscription.objects.count() == 2
