"""The inbox in real browsers: what moves, what comes next, and what is said when something ends."""

from __future__ import annotations

import os
import re
import signal
from uuid import uuid4

import httpx
import pytest
from playwright.sync_api import expect

from approvals.models import Preferences, Role
from approvals.people import accounts, principal_of
from ledger.models import Transaction
from ledger.principals import Surface
from tests.processes import until

pytestmark = [
    pytest.mark.django_db(transaction=True),
    pytest.mark.browser,
    pytest.mark.usefixtures("alice_user", "bob_user", "olga_user"),
]
REFUND = {"payment_id": "pay_1042", "amount": "48.20"}


@pytest.fixture
def ask(product, token):
    def ask(tool="refund_customer", **body):
        arguments = body.pop("arguments", None) or {**REFUND, "reason": uuid4().hex}
        answer = httpx.post(
            f"{product.url}/api/v1/transactions",
            json={"tool": tool, "arguments": arguments, **body},
            headers={"Authorization": f"Bearer {token}", "Idempotency-Key": uuid4().hex},
            timeout=30,
        )
        assert answer.status_code == 201, answer.text
        return answer.json()

    return ask


def row_of(page, told):
    return page.locator(f"#row-{told['transaction_id']}")


def item_of(page, told):
    return page.locator(f"#item [data-item='{told['transaction_id']}']")


def place_of(row):
    """Where it is, also if it is being replaced by its equal just now."""
    return until(row.bounding_box)


def approve(page):
    page.get_by_role("button", name="Approve €48.20").click()


def test_a_decision_after_signing_out_in_another_tab_says_that_nothing_was_decided(
    desk_of, ask, product
):
    told = ask()
    alice = desk_of("alice")
    row_of(alice, told).locator("a").click()
    expect(item_of(alice, told)).to_be_visible()
    # The page does not find out by itself first.
    part = re.compile(r"/(rows|transactions/[^/]+/)(\?|$)")
    alice.route(part, lambda way: way.abort())
    alice.context.clear_cookies(name="assent_session")

    approve(alice)

    expect(alice.get_by_text("You were signed out. Nothing was decided.")).to_be_visible()
    assert f"next=%2Ftransactions%2F{told['transaction_id']}%2F" in alice.url
    assert Transaction.objects.get().state == "prepared"


def test_signing_out_leads_every_tab_of_the_browser_to_the_sign_in_page(desk_of, product):
    alice = desk_of("alice")
    other = alice.context.new_page()
    other.goto(product.url)
    expect(other.locator("[data-live]")).to_have_text("Live")

    other.click("[data-menu] summary")
    other.locator("form[action='/sign-out'] button").click()

    expect(alice).to_have_url(re.compile("/sign-in/"))
    expect(alice.get_by_text("You were signed out.")).to_be_visible()


def test_a_page_older_than_the_session_leads_back_to_the_item_undecided(desk_of, ask):
    told = ask()
    alice = desk_of("alice")
    row_of(alice, told).locator("a").click()
    expect(item_of(alice, told)).to_be_visible()

    def only_pages(way):
        """Every answer renews the cookie; no part of the page is asked for meanwhile."""
        way.continue_() if way.request.is_navigation_request() else way.abort()

    def without_the_cookie(way):
        alice.context.clear_cookies(name="csrftoken")
        way.continue_()

    alice.route(re.compile(r"/(rows|transactions/[^/]+/)(\?|$)"), only_pages)
    alice.route("**/approve", without_the_cookie)

    approve(alice)

    expect(alice.get_by_text("Look once more, then decide.")).to_be_visible()
    expect(item_of(alice, told)).to_be_visible()
    assert Transaction.objects.get().state == "prepared"


@pytest.mark.live_apart
def test_a_live_process_that_is_frozen_is_noticed_and_rows_arrive_all_the_same(
    desk_of, ask, product
):
    alice = desk_of("alice")
    frozen = product.processes["live"].pid
    os.killpg(frozen, signal.SIGSTOP)
    try:
        told = ask()
        expect(alice.locator("[data-live]")).to_contain_text("Not live", timeout=40_000)
        expect(row_of(alice, told)).to_be_visible()
    finally:
        os.killpg(frozen, signal.SIGCONT)

    expect(alice.locator("[data-live] [role=status]")).to_have_text("Live", timeout=40_000)


def test_without_a_network_the_bar_says_that_nothing_was_sent_and_the_page_catches_up(desk_of, ask):
    first = ask()
    alice = desk_of("alice")
    row_of(alice, first).locator("a").click()
    expect(item_of(alice, first)).to_be_visible()
    alice.mouse.move(900, 500)
    alice.context.set_offline(True)
    expect(alice.locator("[data-live] [role=status]")).to_contain_text("Not live")
    expect(alice.locator("[data-age]")).to_have_attribute("aria-hidden", "true")

    approve(alice)
    expect(alice.locator("#item .decide")).to_contain_text("Nothing was decided")
    missed = ask()
    alice.context.set_offline(False)

    expect(row_of(alice, missed)).to_be_visible()
    expect(alice.locator("[data-live]")).to_have_text("Live", timeout=15_000)


def test_no_row_moves_under_the_pointer_until_it_leaves(desk_of, ask):
    calm = ask(ttl_s=900)
    alice = desk_of("alice")
    row_of(alice, calm).hover()
    before = place_of(row_of(alice, calm))

    urgent = ask(ttl_s=120)
    expect(alice.locator("[data-pill]")).to_have_text(re.compile(r"1 new, expires in 1:\d\d ↑"))
    assert place_of(row_of(alice, calm)) == before
    expect(row_of(alice, urgent)).to_have_count(0)

    alice.mouse.move(900, 500)
    expect(row_of(alice, urgent)).to_be_visible()
    expect(alice.locator("[data-pill]")).to_be_hidden()
    expect(alice.locator("li.row").first).to_have_id(f"row-{urgent['transaction_id']}")


def test_after_a_decision_the_next_below_is_one_key_away(desk_of, ask):
    first, second, third = (ask(ttl_s=seconds) for seconds in (600, 700, 800))
    alice = desk_of("alice")
    row_of(alice, second).locator("a").click()
    expect(item_of(alice, second)).to_be_visible()

    approve(alice)
    expect(alice.locator("#item [data-next]")).to_contain_text("Next: Refund €48.20")
    expect(alice.locator("#item .next")).to_contain_text("Done · re_")
    expect(alice.locator("[data-announce]")).to_have_text(
        re.compile(r"^Approved\. Done, receipt re_")
    )
    alice.locator("#item h1").click()
    alice.keyboard.press("Enter")
    expect(item_of(alice, third)).to_be_visible()

    approve(alice)
    expect(alice.locator("#item [data-next]")).to_be_visible()
    alice.keyboard.press("j")
    expect(item_of(alice, first)).to_be_visible()


def test_who_wants_it_has_the_next_item_open_by_itself(desk_of, ask, alice_user):
    Preferences.objects.update_or_create(user=alice_user, defaults={"opens_next": True})
    first, second = ask(ttl_s=600), ask(ttl_s=700)
    alice = desk_of("alice")
    row_of(alice, first).locator("a").click()
    expect(item_of(alice, first)).to_be_visible()

    approve(alice)

    expect(item_of(alice, second)).to_be_visible()


def test_on_a_phone_back_returns_to_the_place_in_the_list(desk_of, ask):
    rows = [ask(ttl_s=600 + number) for number in range(12)]
    alice = desk_of("alice", viewport={"width": 390, "height": 640})
    # Scrolls as far as the click will, which must not land on the bar at the bottom.
    row_of(alice, rows[10]).locator("a").hover()
    assert alice.evaluate("scrollY") > 200
    row_of(alice, rows[10]).locator("a").click()
    expect(item_of(alice, rows[10])).to_be_visible()
    approve(alice)
    expect(alice.locator("#item [data-next]")).to_be_visible()

    alice.locator("[data-back]").click()

    expect(row_of(alice, rows[9])).to_be_in_viewport()
    expect(row_of(alice, rows[0])).not_to_be_in_viewport()


def test_what_i_signed_waits_for_others_and_is_not_counted(desk_of, ask):
    told = ask("terminate_cloud_instance", arguments={"instance_id": "i-4a1b", "reason": "idle"})
    alice = desk_of("alice")
    row_of(alice, told).locator("a").click()
    alice.locator("#item [data-approve]").click()
    alice.locator("dialog[open] [name=typed]").fill("i-4a1b")
    alice.locator("dialog[open] button.primary").click()

    until(lambda: Transaction.objects.get().decisions.count() == 1)
    alice.mouse.move(900, 500)

    others = alice.locator("section[data-group=others]")
    expect(others.locator(".row")).to_contain_text("1 of 2 · Bob Tanaka next")
    expect(alice).to_have_title(re.compile(r"^[^(]"))
    expect(alice.locator("[data-waiting]").first).to_be_hidden()


def test_a_time_is_written_in_the_zone_of_the_reader_with_utc_on_hover(desk_of, ask):
    told = ask()
    alice = desk_of("alice", timezone_id="America/New_York", locale="en-GB")
    row_of(alice, told).locator("a").click()
    time = item_of(alice, told).locator("time[data-at]").first

    instant = time.get_attribute("datetime")
    local = alice.evaluate(
        "at => new Date(at).toLocaleTimeString('en-GB', { timeZone: 'America/New_York' })", instant
    )
    expect(time).to_have_text(local)
    expect(time).to_have_attribute("title", re.compile(r"(EST|EDT|GMT-[45]).* UTC$"))
    cookies = {cookie["name"]: cookie["value"] for cookie in alice.context.cookies()}
    assert cookies["time_zone"] == "America/New_York"


def test_a_filter_without_a_match_says_how_much_waits(desk_of, ask, product):
    ask()
    alice = desk_of("alice")
    alice.goto(f"{product.url}/?q=nothing-like-it")

    expect(alice.locator("#item h1")).to_have_text("Nothing matches")
    expect(alice.locator("#item")).to_contain_text("1 waits.")
    expect(alice.get_by_text("Nothing waits for you")).to_have_count(0)


def test_the_list_is_one_stop_of_the_tab_key_and_enter_leads_to_the_heading(desk_of, ask):
    rows = [ask(ttl_s=600 + number) for number in range(4)]
    alice = desk_of("alice")
    expect(row_of(alice, rows[3])).to_be_visible()
    expect(alice.locator("#list a[tabindex='0']")).to_have_count(1)

    row_of(alice, rows[2]).locator("a").focus()
    alice.keyboard.press("Enter")
    expect(item_of(alice, rows[2]).locator("h1")).to_be_focused()
    expect(row_of(alice, rows[2]).locator("a")).to_have_attribute("aria-current", "true")
    alice.keyboard.press("Escape")
    expect(row_of(alice, rows[2]).locator("a")).to_be_focused()
    alice.keyboard.press("?")
    expect(alice.get_by_role("dialog", name="Keyboard")).not_to_contain_text("operations")


def test_an_open_row_has_an_address_that_can_be_reloaded_and_left(desk_of, ask, product):
    first, second = ask(ttl_s=600), ask(ttl_s=700)
    alice = desk_of("alice")
    expect(item_of(alice, first)).to_be_visible()
    row_of(alice, second).locator("a").click()
    expect(item_of(alice, second)).to_be_visible()
    assert alice.url == f"{product.url}/transactions/{second['transaction_id']}/"

    alice.reload()
    expect(item_of(alice, second)).to_be_visible()
    expect(row_of(alice, first)).to_be_visible()
    alice.go_back()

    expect(item_of(alice, first)).to_be_visible()
    assert alice.url == f"{product.url}/"


def test_the_history_that_says_live_shows_what_is_decided_meanwhile(desk_of, ask, product):
    told = ask()
    alice, bob = desk_of("alice"), desk_of("bob")
    bob.goto(f"{product.url}/history/")
    expect(bob.locator("[data-live]")).to_have_text("Live")
    row_of(alice, told).locator("a").click()
    expect(item_of(alice, told)).to_be_visible()

    approve(alice)

    expect(bob.locator("table.dense tbody tr").first).to_contain_text("re_", timeout=15_000)


def test_a_new_row_and_its_number_come_without_a_request_but_to_a_filtered_list(desk_of, ask):
    alice, bob = desk_of("alice"), desk_of("bob")
    bob.get_by_role("button", name="Filter").click()
    bob.get_by_role("combobox", name="Risk").select_option("MEDIUM")
    expect(bob).to_have_url(re.compile("risk=MEDIUM"))
    asked = {page: [] for page in (alice, bob)}
    for page, addresses in asked.items():
        expect(page.get_by_text("Live", exact=True)).to_be_visible()
        page.on("request", lambda request, to=addresses: to.append(request.url))

    told = ask()

    for page in (alice, bob):
        expect(row_of(page, told)).to_be_visible()
    expect(alice).to_have_title(re.compile(r"^\(1\)"))
    assert [url for url in asked[alice] if "/rows" in url] == []
    assert [url for url in asked[bob] if f"/rows?id={told['transaction_id']}" in url]


def test_of_one_that_takes_two_each_sees_whose_turn_it_is(desk_of, ask):
    alice, bob = desk_of("alice"), desk_of("bob")
    told = ask("terminate_cloud_instance", arguments={"instance_id": "i-4a1b", "reason": "idle"})
    row = Transaction.objects.get(pk=told["transaction_id"])
    for page in (alice, bob):
        expect(row_of(page, told)).to_contain_text("0 of 2")

    row_of(alice, told).locator("a").click()
    alice.get_by_role("button", name=re.compile("Approve")).first.click()
    alice.get_by_role("textbox", name=re.compile("Type")).fill("prod-import-01")
    alice.keyboard.press("Enter")

    until(lambda: row.decisions.count() == 1)
    expect(row_of(bob, told)).to_contain_text("you next")
    expect(row_of(bob, told)).to_have_attribute("data-group", "mine")
    expect(row_of(alice, told)).to_have_attribute("data-group", "others")
    expect(row_of(alice, told)).to_contain_text("Bob")


def test_filters_are_written_in_the_search_and_taken_away_as_chips(desk_of, ask):
    told = ask()
    alice = desk_of("alice")
    alice.fill("[data-search]", "risk:critical")
    expect(row_of(alice, told)).to_have_count(0)

    alice.get_by_role("link", name="Critical risk").click()

    expect(row_of(alice, told)).to_be_visible()
    expect(alice.locator("#list .chip")).to_have_count(0)


def test_a_change_for_a_second_operator_comes_to_the_inbox_by_itself(
    desk_of, olga_user, vera_user, otto_user
):
    olga, otto = desk_of("olga"), desk_of("otto")
    for page in (olga, otto):
        expect(page.get_by_text("Live", exact=True)).to_be_visible()

    accounts.give_role(
        vera_user, "acme", Role.OPERATOR, by=principal_of(olga_user), via=Surface.WEB
    )

    asked = otto.locator("#list").get_by_role("link", name=re.compile("Vera Lind"))
    expect(asked).to_be_visible()
    expect(otto).to_have_title(re.compile(r"^\(1\)"))
    expect(olga.locator("#list .check")).to_have_count(0)
    asked.click()
    otto.get_by_role("button", name="Confirm").click()
    expect(otto.get_by_text("it counts from now on")).to_be_visible()
    expect(otto).not_to_have_title(re.compile(r"^\("))


def test_the_menu_of_the_account_closes_by_escape_and_by_a_click_elsewhere(desk_of):
    alice = desk_of("alice")
    summary, way_out = alice.locator("[data-menu] summary"), alice.get_by_text("Sign out")

    summary.click()
    expect(way_out).to_be_visible()
    alice.keyboard.press("Escape")
    expect(way_out).to_be_hidden()
    expect(summary).to_be_focused()
    summary.click()
    alice.locator("#item").click()
    expect(way_out).to_be_hidden()
