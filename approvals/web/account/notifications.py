"""Notifications of a person, and where: the account's page, and what its script asks."""

from __future__ import annotations

import time
from typing import Any, cast
from uuid import UUID

from django import forms
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.transaction import atomic
from django.http import Http404, HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from a2a.models import Question
from approvals.http.preferences import TIME_ZONE_COOKIE
from approvals.models import About, NotificationSettings, PushSubscription, Role
from approvals.notifications import (
    Browser,
    Item,
    SubscriptionRefused,
    add_subscription,
    is_for_people,
    item_as_it_is,
    last_change_of,
    mail_channel,
    notification_settings_of,
    person_behind_token,
    plan_summary,
    push_channel,
    quiet_until,
    remove_subscription,
    renew_subscription,
    stop_mails,
    waits_for,
    wants,
    words_of,
    zone_of,
)
from approvals.people import record_own
from approvals.web.requests import roles_of_request, tenants_of_request
from ledger.events import ChangeKind
from ledger.models import Delivery, Event, Transaction, id_or_none
from ledger.states import State

MOST_DUE = 20  # items that one request asks about
TEST_EVERY_S = 5
BROWSERS = ("Edg", "OPR", "Firefox", "CriOS", "Chrome", "Safari")
NAMES = {"Edg": "Edge", "OPR": "Opera", "CriOS": "Chrome"}
SYSTEMS = ("Android", "iPhone", "iPad", "Windows", "Mac OS X", "Linux")


HOURS = [("", "–"), *((hour, f"{hour:02d}:00") for hour in range(24))]  # noqa: RUF001


def _hour_field() -> forms.TypedChoiceField:
    return forms.TypedChoiceField(required=False, coerce=int, empty_value=None, choices=HOURS)


class NotificationsForm(forms.ModelForm):  # type: ignore[type-arg]
    summary_hour = _hour_field()
    second_summary_hour = _hour_field()

    class Meta:
        model = NotificationSettings
        fields = (
            "waiting",
            "only_high",
            "before_expiry",
            "questions",
            "in_doubt",
            "sound",
            "hides_details",
            "quiet_from",
            "quiet_until",
            "mail",
            "summary_hour",
            "second_summary_hour",
        )

    def clean(self) -> dict[str, Any]:
        cleaned: dict[str, Any] = super().clean() or {}
        if (cleaned.get("quiet_from") is None) != (cleaned.get("quiet_until") is None):
            self.add_error("quiet_from", gettext_lazy("Quiet hours have a beginning and an end."))
        hours = (cleaned.get("summary_hour"), cleaned.get("second_summary_hour"))
        chosen = sorted({hour for hour in hours if hour is not None})
        cleaned["summary_hour"], cleaned["second_summary_hour"] = [*chosen, None, None][:2]
        return cleaned


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def notifications(request: HttpRequest) -> HttpResponse:
    """Show the choices; keep them when they are sent."""
    person = cast(User, request.user)
    chosen = notification_settings_of(person)
    if request.method != "POST":
        return _page(request, NotificationsForm(instance=chosen))
    form = NotificationsForm(request.POST, instance=chosen)
    if not form.is_valid():
        return _page(request, form, status=422)
    chosen.time_zone = _zone_of(request) or chosen.time_zone
    chosen.was_asked_at = chosen.was_asked_at or timezone.now()
    _keep(form, person)
    messages.success(request, _("Saved."))
    return redirect("desk:notifications")


def _keep(form: NotificationsForm, person: User) -> None:
    """Keep the choices; that e-mails are sent from now on is sealed as an event."""
    got_mail = notification_settings_of(person).gets_mail
    row = form.save(commit=False)
    # A courier or the sweeper may write the other columns meanwhile.
    columns = None if row._state.adding else [*form.fields, "time_zone", "was_asked_at"]
    with atomic():
        row.save(update_fields=columns)
        plan_summary(person)
        if row.gets_mail and not got_mail:
            record_own(person, ChangeKind.NOTIFICATIONS_TURNED_ON, where="e-mail")


def _page(request: HttpRequest, form: NotificationsForm, status: int = 200) -> HttpResponse:
    roles = roles_of_request(request)
    return render(
        request, "account/notifications.html", context_of(request, form, roles), status=status
    )


def context_of(request: HttpRequest, form: NotificationsForm, roles: Any) -> dict[str, Any]:
    """The context of ``account/_notifications.html``."""
    person = cast(User, request.user)
    return {
        "form": form,
        "browsers": PushSubscription.objects.filter(user=person).order_by("-made_at"),
        "has_push": push_channel.is_configured(),
        "may_settle": any(Role.OPERATOR in names for names in roles.values()),
        "zone": _zone_of_quiet_hours(form.instance),
        "has_mail": mail_channel.is_configured(),
    }


@login_required
@require_POST
def add_browser(request: HttpRequest) -> HttpResponse:
    """Tell this person in the browser that asks; with ``renew``, only if it is known as theirs."""
    person, key = cast(User, request.user), request.session.session_key or ""
    browser = _browser_of(request)
    if request.POST.get("renew"):
        return HttpResponse(status=204 if renew_subscription(person, browser, key) else 404)
    try:
        add_subscription(person, browser, key)
    except SubscriptionRefused as refusal:
        return HttpResponse(str(refusal), status=422, content_type="text/plain")
    _note_answer(request)
    return HttpResponse(status=204)


def _browser_of(request: HttpRequest) -> Browser:
    return Browser(
        endpoint=request.POST.get("endpoint", ""),
        p256dh=request.POST.get("p256dh", ""),
        auth=request.POST.get("auth", ""),
        label=label_of(request.headers.get("User-Agent", "")),
    )


def label_of(user_agent: str) -> str:
    """``Firefox on Android``, as far as the browser says."""
    browser = next((name for name in BROWSERS if f"{name}/" in user_agent), "")
    system = next((name for name in SYSTEMS if name in user_agent), "")
    return " on ".join(filter(None, (NAMES.get(browser, browser) or "Browser", system)))


@login_required
@require_POST
def remove_browser(request: HttpRequest, browser_id: int) -> HttpResponse:
    if remove_subscription(cast(User, request.user), browser_id):
        messages.success(request, _("That browser is told nothing more."))
    return redirect("desk:notifications")


@login_required
@require_POST
def test(request: HttpRequest) -> HttpResponse:
    """Send a test to each browser of this person, by the way that every notification takes."""
    person = cast(User, request.user)
    event = last_change_of(person)
    browsers = PushSubscription.objects.filter(user=person)
    to = [(push_channel.NAME, browser.pk) for browser in browsers]
    if mail_channel.is_configured() and person.email and notification_settings_of(person).gets_mail:
        to.append((mail_channel.NAME, person.pk))
    if event is None or not to:
        messages.error(request, _("Turn notifications on first: you are told nowhere yet."))
        return redirect("desk:notifications")
    _owe_test(event, to)
    messages.success(request, _("A test is on its way. It takes a few seconds."))
    return redirect("desk:notifications")


def _owe_test(event: Event, to: list[tuple[str, int]]) -> None:
    """One test in some seconds, however often the button is pressed."""
    turn = int(time.time()) // TEST_EVERY_S
    owed = [
        Delivery(event=event, channel=name, recipient=f"{push_channel.TEST}:{key}:{turn}")
        for name, key in to
    ]
    Delivery.objects.bulk_create(owed, ignore_conflicts=True)


@csrf_exempt
@require_http_methods(["GET", "HEAD", "POST"])
def unsubscribe(request: HttpRequest, token: str) -> HttpResponse:
    """Stop the e-mails of whoever the token names: by POST only, as mail programs send it too.

    It takes no session (RFC 8058): the token proves who may, and it serves for nothing else.
    """
    person = person_behind_token(token)
    if person is None:
        raise Http404
    if request.method == "POST":
        stop_mails(person)
    return render(request, "account/unsubscribe.html", {"is_done": request.method == "POST"})


@login_required
@require_POST
def not_now(request: HttpRequest) -> HttpResponse:
    """Do not offer notifications in the inbox any more."""
    _note_answer(request)
    return redirect("desk:inbox")


def _zone_of_quiet_hours(settings: NotificationSettings) -> str:
    """The one that they have; before anything was saved, the one that they will get."""
    return str(zone_of(settings)) if settings.time_zone else timezone.get_current_timezone_name()


def _note_answer(request: HttpRequest) -> None:
    NotificationSettings.objects.update_or_create(
        user=cast(User, request.user),
        defaults={"was_asked_at": timezone.now(), "time_zone": _zone_of(request)},
    )


def _zone_of(request: HttpRequest) -> str:
    return request.COOKIES.get(TIME_ZONE_COOKIE, "")[:64]


def is_to_be_offered(request: HttpRequest) -> bool:
    """True if the inbox asks this person if they want to be told: once, until they answer."""
    answered = NotificationSettings.objects.filter(
        user=cast(User, request.user), was_asked_at__isnull=False
    )
    return push_channel.is_configured() and not answered.exists()


@login_required
@require_safe
def due(request: HttpRequest) -> HttpResponse:
    """Of these transactions and tasks, those that an open desk in a hidden tab should show now."""
    person = cast(User, request.user)
    chosen, now = notification_settings_of(person), timezone.now()
    ids = [key for text in request.GET.getlist("id")[:MOST_DUE] if (key := id_or_none(text))]
    if chosen._state.adding or quiet_until(chosen, now):
        return JsonResponse({"show": []})
    items = [
        item
        for item in _items(ids, tenants_of_request(request))
        if wants(chosen, item) and waits_for(item, person, now)
    ]
    shown = [
        push_channel.message_of(
            item,
            words_of(item, now, hides_details=chosen.hides_details),
            has_sound=chosen.sound,
        )
        for item in items
    ]
    return JsonResponse({"show": shown})


def _items(ids: list[UUID], tenants: frozenset[str]) -> list[Item]:
    rows = Transaction.objects.for_tenants(tenants).filter(
        pk__in=ids, state__in=[State.PREPARED, State.IN_DOUBT]
    )
    items = [item_as_it_is(row) for row in rows.prefetch_related("decisions")]
    asked = Question.objects.for_tenants(tenants).waiting().filter(task__in=ids)
    questions = [Item(About.QUESTION, row) for row in asked.select_related("task")]
    return [item for item in items if is_for_people(item)] + questions
