"""The whole way, in real browsers: an agent asks, people decide, workers act."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from playwright.sync_api import expect

from ledger.models import Transaction
from tests.processes import until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user", "olga_user"),
]


def row_of(page, told):
    return page.locator(f"#row-{told['transaction_id']}")


def test_a_request_appears_without_reloading_is_approved_and_shows_its_receipt(
    desk_of, ask, product
):
    alice = desk_of("alice")
    expect(alice.get_by_text("Nothing waits for you")).to_be_visible()

    told = ask(reason="The lamp arrived broken.")
    expect(row_of(alice, told)).to_be_visible()
    expect(alice).to_have_title(re.compile(r"^\(1\) "))

    row_of(alice, told).locator("a").click()
    expect(alice.get_by_text("The lamp arrived broken.")).to_be_visible()
    alice.get_by_role("button", name="Approve €48.20").click()

    expect(alice.locator("#item .block.good code").first).to_be_visible()
    row = Transaction.objects.get()
    assert row.state == "committed"
    expect(alice.locator("#item .block.good code").first).to_have_text(row.receipt)
    assert product.effects()["by_kind"] == {"refund": 1}
    expect(alice).to_have_title(re.compile(r"^Inbox"))


def test_a_rejection_takes_a_reason_and_lets_go_of_the_seat(desk_of, ask, product):
    told = ask(
        "book_flight",
        arguments={
            "flight_id": "QX412-2027-03-15",
            "passenger": "Ana Ruiz",
            "max_price": "9000",
        },
    )
    assert product.effects()["live_holds"] == 1
    alice = desk_of("alice")
    row_of(alice, told).locator("a").click()

    alice.get_by_role("button", name="Reject…").click()
    alice.get_by_label("Why?").fill("There is a train.")
    alice.get_by_role("dialog").get_by_role("button", name="Reject").click()

    expect(alice.locator("#item").get_by_text("There is a train.").first).to_be_visible()
    until(lambda: product.effects()["live_holds"] == 0, what="the seat is released")
    until(lambda: Transaction.objects.get().state == "aborted")


def test_what_nobody_decides_lapses_while_somebody_is_reading(desk_of, ask):
    alice = desk_of("alice")
    told = ask(ttl_s=5)
    row_of(alice, told).locator("a").click()

    said = alice.locator("#item").get_by_text("nobody decided in time").first
    expect(said).to_be_visible(timeout=15_000)
    expect(alice.get_by_role("button", name=re.compile("Approve"))).to_have_count(0)
    assert Transaction.objects.get().ending == "expired"


@pytest.mark.live_apart
def test_of_two_browsers_the_slower_one_hears_who_was_faster(desk_of, ask, product):
    told = ask()
    alice, bob = desk_of("alice"), desk_of("bob")
    row_of(alice, told).locator("a").click()
    row_of(bob, told).locator("a").click()
    # Bob's page does not hear of it, and cannot ask.
    product.kill("live")
    bob.route("**/*", lambda way: way.abort() if way.request.method == "GET" else way.continue_())
    bob_token = bob.locator("#item form input[name=digest]").first
    expect(bob_token).to_be_attached()

    alice.get_by_role("button", name="Approve €48.20").click()
    until(lambda: Transaction.objects.get().state == "committed")
    with bob.expect_response(re.compile("/approve$")) as answer:
        bob.evaluate("htmx.trigger('#item .decide form', 'submit')")

    assert answer.value.status == 409
    expect(bob.locator("#item [role=alert]")).to_contain_text("Alice Moreau approved it")
    assert product.effects()["by_kind"] == {"refund": 1}


def test_a_row_decided_elsewhere_changes_in_place_and_says_by_whom(desk_of, ask):
    told, other = ask(), ask()
    alice, bob = desk_of("alice"), desk_of("bob")
    row_of(bob, other).locator("a").click()
    row_of(alice, told).locator("a").click()

    alice.get_by_role("button", name="Approve €48.20").click()

    expect(row_of(bob, told)).to_contain_text("Approved by Alice Moreau on the desk")
    expect(row_of(bob, told)).to_have_count(0)
    expect(bob).to_have_title(re.compile(r"^\(1\) "))


def test_what_cannot_be_undone_takes_two_people_who_type_its_name(desk_of, ask, product):
    told = ask("terminate_cloud_instance", arguments={"instance_id": "i-4a1b", "reason": "idle"})
    alice, bob = desk_of("alice"), desk_of("bob")

    turns = ((alice, "Approve as the first"), (bob, "Approve for good"))
    for signed, (page, button) in enumerate(turns):
        row_of(page, told).locator("a").click()
        expect(page.locator("#item .signers .signed")).to_have_count(signed)
        expect(page.locator("#item h1")).to_contain_text("i-4a1b")
        page.keyboard.press("a")
        page.get_by_label(re.compile(r"^\s*Type")).fill("something else")
        expect(page.get_by_role("button", name=button)).to_be_disabled()
        page.get_by_label(re.compile(r"^\s*Type")).fill("prod-import-01")
        page.get_by_role("button", name=button).click()
        expect(page.get_by_role("dialog")).to_have_count(0)

    until(lambda: Transaction.objects.get().state == "committed")
    assert product.effects()["by_kind"] == {"termination": 1}


@pytest.mark.live_apart
def test_without_the_live_process_the_page_says_so_and_catches_up(desk_of, ask, product):
    alice = desk_of("alice")
    product.kill("live")
    expect(alice.locator("[data-live]")).to_contain_text("Not live. Reconnecting…")

    told = ask()
    expect(row_of(alice, told)).to_be_visible()
    product.start("live")

    # A browser that was refused waits up to ten seconds before it tries again.
    expect(alice.locator("[data-live]")).to_have_text("Live")


def test_without_redis_a_new_row_still_arrives(desk_of, ask, product):
    alice = desk_of("alice")
    product.kill("web")
    product.start("web", REDIS_URL="redis://127.0.0.1:1/0")

    told = ask()

    expect(row_of(alice, told)).to_be_visible()


def test_the_keyboard_alone_is_enough(desk_of, ask):
    first, second = ask(ttl_s=600), ask(ttl_s=900)
    alice = desk_of("alice")
    expect(row_of(alice, second)).to_be_visible()

    alice.keyboard.press("j")
    expect(alice.locator(f"[data-item='{second['transaction_id']}']")).to_be_visible()
    alice.keyboard.press("k")
    expect(alice.locator(f"[data-item='{first['transaction_id']}']")).to_be_visible()
    alice.keyboard.press("r")
    alice.get_by_label("Why?").fill("No.")
    alice.keyboard.press("Tab")
    alice.keyboard.press("Enter")
    until(lambda: Transaction.objects.get(pk=first["transaction_id"]).ending == "rejected")
    expect(alice.get_by_role("dialog")).to_have_count(0)
    alice.keyboard.press("?")
    expect(alice.get_by_role("dialog", name="Keyboard")).to_be_visible()
    alice.keyboard.press("Escape")
    alice.keyboard.press("/")
    expect(alice.locator("[data-search]")).to_be_focused()
    alice.keyboard.press("Escape")
    alice.keyboard.press("g")
    alice.keyboard.press("r")
    alice.wait_for_url("**/history/")


def test_approving_by_keys_takes_two_and_a_held_key_decides_nothing(desk_of, ask):
    first, second = ask(ttl_s=600), ask(ttl_s=900)
    alice = desk_of("alice")
    expect(row_of(alice, second)).to_be_visible()
    row_of(alice, first).locator("a").click()
    expect(alice.locator(f"[data-item='{first['transaction_id']}']")).to_be_visible()
    button = alice.get_by_role("button", name="Approve €48.20")
    expect(button).to_be_visible()

    for _ in range(5):
        alice.keyboard.down("a")
    expect(button).to_be_focused()
    expect(button).to_have_class(re.compile("armed"))
    assert Transaction.objects.get(pk=first["transaction_id"]).state == "prepared"
    alice.keyboard.up("a")
    for _ in range(5):
        alice.keyboard.down("Enter")

    until(lambda: Transaction.objects.get(pk=first["transaction_id"]).state == "committed")
    expect(alice.locator("#item [data-next]")).to_be_visible()
    expect(alice.locator(f"[data-item='{first['transaction_id']}']")).to_be_visible()
    assert Transaction.objects.get(pk=second["transaction_id"]).state == "prepared"


def test_no_key_and_no_click_decides_while_the_next_item_is_on_its_way(desk_of, ask):
    first, second = ask(ttl_s=600), ask(ttl_s=900)
    alice = desk_of("alice")
    expect(row_of(alice, second)).to_be_visible()
    row_of(alice, first).locator("a").click()
    expect(alice.locator(f"[data-item='{first['transaction_id']}']")).to_be_visible()
    routes: list[Any] = []
    alice.route(f"**/transactions/{second['transaction_id']}/*", lambda route: routes.append(route))

    alice.keyboard.press("j")
    alice.keyboard.press("a")
    alice.keyboard.press("r")
    expect(alice.get_by_role("dialog")).to_have_count(0)
    expect(alice.locator("#item .armed")).to_have_count(0)
    alice.get_by_role("button", name="Approve €48.20").click()
    for route in routes:
        route.continue_()

    expect(alice.locator(f"[data-item='{second['transaction_id']}']")).to_be_visible()
    alice.keyboard.press("a")
    expect(alice.locator("#item .armed")).to_be_focused()
    assert set(Transaction.objects.values_list("state", flat=True)) == {"prepared"}


def test_a_decision_made_elsewhere_is_told_in_an_open_dialog(desk_of, ask):
    told = ask()
    alice, bob = desk_of("alice"), desk_of("bob")
    for page in (alice, bob):
        row_of(page, told).locator("a").click()
    alice.get_by_role("button", name="Reject…").click()
    dialog = alice.get_by_role("dialog")
    dialog.get_by_label("Why?").fill("It was refunded before.")

    bob.get_by_role("button", name="Approve €48.20").click()

    expect(dialog.get_by_role("alert")).to_contain_text("Approved by Bob Tanaka")
    expect(dialog.get_by_role("alert")).to_contain_text("What you typed is kept.")
    expect(dialog.get_by_role("button", name="Reject", exact=True)).to_be_disabled()
    expect(dialog.get_by_role("button", name="Copy what you typed")).to_be_visible()
    expect(dialog.get_by_label("Why?")).to_have_value("It was refunded before.")
    dialog.get_by_role("button", name="Back").click()
    expect(alice.locator("#item .state")).not_to_contain_text("Waiting for you")


def test_text_of_an_agent_is_text(desk_of, ask):
    told = ask(reason="<img src=x onerror=document.title='pwned'><b>bold</b>")
    alice = desk_of("alice")
    row_of(alice, told).locator("a").click()

    expect(alice.get_by_text("<b>bold</b>")).to_be_visible()
    assert "pwned" not in alice.title()


@pytest.mark.parametrize("width", [320, 390, 1360])
def test_nothing_scrolls_sideways(desk_of, ask, width):
    told = ask(reason="long " * 300)
    alice = desk_of("alice", viewport={"width": width, "height": 700})
    pages = ["/", f"/transactions/{told['transaction_id']}/", "/history/", "/tools/"]

    for path in pages:
        alice.goto(alice.url.split("/", 3)[0] + "//" + alice.url.split("/")[2] + path)
        assert alice.evaluate("document.documentElement.scrollWidth") <= width, path


@pytest.mark.parametrize("width", [320, 390, 900])
def test_nothing_of_an_operators_top_bar_lies_over_another_part(desk_of, product, width):
    olga = desk_of("olga", viewport={"width": width, "height": 700})
    product.kill("web")
    expect(olga.locator("[data-live]")).to_contain_text("last update")

    parts = olga.locator(".top > .brand, .top nav a, .top > .live, .top summary")
    boxes = [box for part in parts.all() if part.is_visible() and (box := part.bounding_box())]

    assert len(boxes) >= 3
    for one, other in itertools.combinations(boxes, 2):
        apart = max(
            one["x"] - other["x"] - other["width"],
            other["x"] - one["x"] - one["width"],
            one["y"] - other["y"] - other["height"],
            other["y"] - one["y"] - one["height"],
        )
        assert apart >= -1, (one, other)


def test_a_long_item_is_unfolded_before_it_can_be_approved(desk_of, ask):
    told = ask(reason="Why this is right. " * 90 + "In truth it goes to Mallory.")
    alice = desk_of("alice")

    row_of(alice, told).locator("a").click()
    expect(alice.get_by_role("button", name="Approve")).to_have_count(0)
    expect(alice.get_by_text("In truth it goes to Mallory.")).to_have_count(0)
    alice.get_by_role("link", name="Show everything").click()
    expect(alice.get_by_text("In truth it goes to Mallory.")).to_be_visible()
    alice.get_by_role("button", name="Approve €48.20").click()

    expect(alice.locator("#item .block.good code").first).to_be_visible()
