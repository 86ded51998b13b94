"""The browsers in which people are told: how one is added, and what ends it."""

from __future__ import annotations

import base64
import binascii
import hashlib
import ipaddress
from dataclasses import dataclass
from uuid import UUID

from cryptography.hazmat.primitives.asymmetric import ec
from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.http import HttpRequest

from approvals.models import NotificationSettings, PushSubscription
from approvals.people import principal_of, record_own
from ledger.events import ChangeKind, chain_of
from ledger.foundation import http_out
from ledger.models import Event

MOST = 20  # of one person; the oldest makes room
LONGEST_ENDPOINT = 1000
AUTH_BYTES = 16


class SubscriptionRefused(ValueError):
    """The browser's subscription is not one that we send to; the text says why."""


@dataclass(frozen=True, slots=True)
class Browser:
    """The data by which we can reach a browser, as it gave them."""

    endpoint: str
    p256dh: str
    auth: str
    label: str  # what its person calls it: "Firefox on Android"


def add_subscription(person: User, browser: Browser, session_key: str) -> PushSubscription:
    """Tell this person in this browser from now on, and nobody else there; sealed as an event.

    Raises ``SubscriptionRefused``.
    """
    check(browser)
    with atomic():
        User.objects.select_for_update().get(pk=person.pk)
        subscription, _ = PushSubscription.objects.update_or_create(
            endpoint_hash=_hash(browser.endpoint),
            defaults=_columns(person, browser, session_key),
        )
        NotificationSettings.objects.get_or_create(user=person)
        _make_room(person)
        record_own(person, ChangeKind.NOTIFICATIONS_TURNED_ON, where=browser.label)
    return subscription


def renew_subscription(person: User, browser: Browser, session_key: str) -> bool:
    """Bind a browser that is known as this person's to their present session and password."""
    known = PushSubscription.objects.filter(user=person, endpoint_hash=_hash(browser.endpoint))
    return bool(known.update(session=_chain(session_key), password_hash=_password_hash(person)))


def remove_subscription(person: User, subscription_id: int) -> bool:
    """Tell this person no more in that browser. Returns False if they have no such subscription."""
    with atomic():
        subscription = PushSubscription.objects.filter(user=person, pk=subscription_id).first()
        if subscription is None:
            return False
        subscription.delete()
        record_own(person, ChangeKind.NOTIFICATIONS_TURNED_OFF, where=subscription.browser)
    return True


def end_on_sign_out(request: HttpRequest, **_: object) -> None:
    """A browser in which somebody signed out is told nothing more."""
    if key := request.session.session_key:
        PushSubscription.objects.filter(session=_chain(key)).delete()


def is_over(subscription: PushSubscription) -> bool:
    """True if its person is gone, or has another password than when they asked for it."""
    person = subscription.user
    return not person.is_active or subscription.password_hash != _password_hash(person)


def last_change_of(person: User) -> Event | None:
    """The event of this person's last turning on, to which a test message belongs."""
    chain = chain_of(str(principal_of(person)))
    events = Event.objects.filter(subject=chain, kind=ChangeKind.NOTIFICATIONS_TURNED_ON)
    return events.order_by("-pk").first()


def check(browser: Browser) -> None:
    """Raises ``SubscriptionRefused`` for one that we could not, or must not, send to."""
    try:
        target = http_out.parse(browser.endpoint)
        http_out.check_form(browser.endpoint)
    except http_out.AddressRefused as refusal:
        raise SubscriptionRefused(str(refusal)) from None
    if len(browser.endpoint) > LONGEST_ENDPOINT:
        raise SubscriptionRefused("The address of its push service is too long.")
    if target.scheme != "https" and not _is_our_own(target.host):
        raise SubscriptionRefused("The address of its push service is not https.")
    try:
        ec.EllipticCurvePublicKey.from_encoded_point(ec.SECP256R1(), _decoded(browser.p256dh))
        is_whole = len(_decoded(browser.auth)) == AUTH_BYTES
    except (ValueError, binascii.Error):
        is_whole = False
    if not is_whole:
        raise SubscriptionRefused("The keys of the browser cannot be read.")


def _is_our_own(host: str) -> bool:
    """An address within the networks that the operator allowed, as the tests' push service is."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not address.is_global and http_out.is_allowed(address)


def _decoded(text: str) -> bytes:
    return base64.urlsafe_b64decode(text.encode() + b"=" * (-len(text) % 4))


def _make_room(person: User) -> None:
    own = PushSubscription.objects.filter(user=person).order_by("-made_at", "-pk")
    beyond = list(own.values_list("pk", flat=True)[MOST:])
    PushSubscription.objects.filter(pk__in=beyond).delete()


def _columns(person: User, browser: Browser, session_key: str) -> dict[str, object]:
    return {
        "user": person,
        "endpoint": browser.endpoint,
        "p256dh": browser.p256dh,
        "auth": browser.auth,
        "browser": browser.label[:60],
        "session": _chain(session_key),
        "password_hash": _password_hash(person),
    }


def _hash(endpoint: str) -> str:
    return hashlib.sha256(endpoint.encode()).hexdigest()


def _chain(session_key: str) -> UUID:
    """An id of the session that does not reveal its key."""
    return chain_of(f"session of a browser:{session_key}")


def _password_hash(person: User) -> str:
    """Of the stored hash: it tells whether the password was changed, and nothing about it."""
    return hashlib.sha256(f"assent.push:{person.password}".encode()).hexdigest()
