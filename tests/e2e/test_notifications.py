"""A real browser: the service worker shows and withdraws notifications, and says it is offline."""

from __future__ import annotations

import json
from uuid import uuid4

import pytest
from django.utils import timezone
from playwright.sync_api import expect

from approvals.models import NotificationSettings
from ledger.foundation.crypto.signing_keys import public_vapid_key
from ledger.transactions import coordinator
from tests.conftest import propose
from tests.processes import until

pytestmark = [
    pytest.mark.browser,
    pytest.mark.slow,
    pytest.mark.django_db(transaction=True),
    pytest.mark.timeout(240),
]
SHOWN = """async () => {
    const registration = await navigator.serviceWorker.ready;
    const shown = await registration.getNotifications();
    const plain = ({ title, body, tag, data, actions }) => ({ title, body, tag, data, actions });
    return shown.map(plain);
}"""


@pytest.fixture(autouse=True)
def keys(monkeypatch):
    monkeypatch.setenv("ASSENT_VAPID_PUBLIC_KEY", public_vapid_key("55" * 32))


class Pusher:
    """What a push service brings to the browser, decrypted."""

    def __init__(self, page):
        self.page = page
        page.evaluate("() => navigator.serviceWorker.ready.then(() => null)")
        self.devtools = page.context.new_cdp_session(page)
        self.registration = ""
        self.devtools.on("ServiceWorker.workerRegistrationUpdated", self._note)
        self.devtools.send("ServiceWorker.enable")
        for _ in range(200):
            if self.registration:
                return
            page.wait_for_timeout(50)

    def _note(self, event):
        for registration in event["registrations"]:
            self.registration = registration["registrationId"]
            self.origin = registration["scopeURL"].rstrip("/")

    def bring(self, message):
        self.devtools.send(
            "ServiceWorker.deliverPushMessage",
            {
                "origin": self.origin,
                "registrationId": self.registration,
                "data": json.dumps(message),
            },
        )


def on_screen(page, number):
    """What the browser shows, once it is so many."""
    until(lambda: len(page.evaluate(SHOWN)) == number, what=f"{number} notifications")
    return page.evaluate(SHOWN)


def message(tag, **more):
    shown = {"title": "Refund €48.20 to Ana Ruiz", "body": "15 min left", "tag": tag, **more}
    return {"show": {**shown, "address": f"/transactions/{uuid4()}/", "silent": True}}


def test_a_notification_is_shown_once_per_item_and_withdrawn(product, desk_of, alice_user):
    page = desk_of("alice", permissions=["notifications"])
    pusher = Pusher(page)

    pusher.bring(message("aa"))
    pusher.bring(message("aa", body="5 min left", again=True))
    pusher.bring(message("bb"))
    assert {each["tag"] for each in on_screen(page, 2)} == {"aa", "bb"}

    pusher.bring({"close": "bb"})

    (left,) = on_screen(page, 1)
    assert (left["title"], left["body"]) == ("Refund €48.20 to Ana Ruiz", "5 min left")


def test_a_notification_has_no_button_and_opens_the_item(product, desk_of, alice_user):
    page = desk_of("alice", permissions=["notifications"])
    pusher = Pusher(page)
    row = propose()

    pusher.bring(
        {
            "show": {
                "title": row.action_summary,
                "body": "15 min left",
                "tag": row.pk.hex,
                "address": f"/transactions/{row.pk}/",
            }
        }
    )

    (shown,) = on_screen(page, 1)
    assert shown["actions"] == []
    page.goto(f"{product.url}{shown['data']['address']}")
    expect(page.locator("#item h1")).to_have_text(row.action_summary)
    row.refresh_from_db()
    assert row.state == "prepared"


def test_without_a_network_the_page_says_what_is_not_known(product, desk_of, alice_user):
    page = desk_of("alice")
    page.evaluate("() => navigator.serviceWorker.ready.then(() => null)")
    page.reload()

    page.context.set_offline(True)
    page.goto(f"{product.url}/history/")

    expect(page.locator("h1")).to_have_text("No connection to Assent")
    kept = page.evaluate(
        "async () => (await (await caches.open((await caches.keys())[0])).keys()).map((r) => r.url)"
    )
    assert {url.removeprefix(product.url).split("/")[1] for url in kept} == {"static", "offline"}
    page.context.set_offline(False)
    page.click("text=Try again")
    expect(page.locator("[data-live]")).to_have_text("Live")


def test_the_bar_in_the_inbox_goes_away_for_good(product, desk_of, alice_user):
    page = desk_of("alice")
    expect(page.locator("[data-tell-me]")).to_be_visible()

    page.click("text=Not now")

    expect(page.locator("[data-live]")).to_have_text("Live")
    expect(page.locator("[data-tell-me]")).to_have_count(0)
    assert NotificationSettings.objects.get(user=alice_user).was_asked_at is not None


HIDDEN = "Object.defineProperty(document, 'hidden', { get: () => window.isInBackground === true })"


def test_a_hidden_tab_without_push_shows_what_waits_and_withdraws_it(
    product, desk_of, alice_user, bob
):
    NotificationSettings.objects.create(user=alice_user, was_asked_at=timezone.now())
    page = desk_of("alice", permissions=["notifications"])
    page.add_init_script(HIDDEN)
    page.reload()
    expect(page.locator("[data-live]")).to_have_text("Live")
    page.evaluate("navigator.serviceWorker.ready.then(() => { window.isInBackground = true; })")

    row = propose()

    (shown,) = on_screen(page, 1)
    assert (shown["title"], shown["tag"]) == (row.action_summary, row.pk.hex)
    coordinator.reject(row.pk, digest=row.intent_digest, by=bob, via="web", reason="Twice.")
    assert on_screen(page, 0) == []


PHONE = {"viewport": {"width": 320, "height": 640}, "has_touch": True}


def test_on_a_phone_the_pages_are_at_the_thumb_with_words(product, desk_of, alice_user):
    row = propose()
    page = desk_of("alice", **PHONE)

    for path in ("/", "/tasks/", "/history/", "/tools/", "/account/notifications", "/offline/"):
        page.goto(f"{product.url}{path}")
        width = page.evaluate("document.documentElement.scrollWidth")
        assert width == 320, f"{path} is {width} wide"
    page.goto(f"{product.url}/")
    expect(page.locator(".bottom > *")).to_contain_text(["Inbox", "Work", "Record"])
    page.click("[data-menu] summary")
    page.click("[data-menu] >> text=Notifications")
    expect(page.locator("h1")).to_have_text("Notifications")

    page.goto(f"{product.url}/transactions/{row.pk}/")
    expect(page.locator(".bottom")).to_be_hidden()
    approve, reject = page.locator("[data-approve]"), page.locator("[data-reject]")
    left, right = approve.bounding_box(), reject.bounding_box()
    assert left["x"] + right["x"] + right["width"] == pytest.approx(320, abs=2)
    assert right["x"] - (left["x"] + left["width"]) < 16


def test_on_paper_there_is_the_item_and_nothing_else(product, desk_of, alice_user):
    row = propose()
    page = desk_of("alice")
    page.goto(f"{product.url}/transactions/{row.pk}/")
    expect(page.locator("[data-live]")).to_have_text("Live")

    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.emulate_media(media="print")

    for gone in (".top", ".list-pane", "[data-approve]", "[data-reject]", ".bottom"):
        expect(page.locator(gone).first).to_be_hidden()
    expect(page.locator(".print-only")).to_contain_text("Decision record")
    expect(page.locator("#item h1")).to_have_text(row.action_summary)
    expect(page.get_by_text(row.intent_digest)).to_be_visible()
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.locator("main details[open]").count() == 0
