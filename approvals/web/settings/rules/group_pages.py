"""Groups of people who sign: making one, who joins from when until when, and who leaves."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.contrib.auth.models import User
from django.db.models import Prefetch, Q, QuerySet
from django.db.models.functions import Now
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _, gettext_lazy
from django.views.decorators.http import require_http_methods, require_POST

from approvals.models import Role
from approvals.people import company_sign_in, name_of, principal_of
from approvals.presentation import refusal_in_words
from approvals.web.settings.operators import origin_of
from approvals.web.settings.rules.rulebook import Rulebook, kept, readable
from ledger.errors import LedgerError, NotFound
from ledger.events import four_eyes
from ledger.models import ChangeRequest, Group, GroupMember
from ledger.sign_off import groups


class GroupForm(forms.Form):
    name = forms.RegexField(
        r"^[a-z][a-z0-9-]{0,62}$",
        label=gettext_lazy("Name"),
        max_length=groups.NAME_MOST,
        help_text=gettext_lazy("Small letters, digits and hyphens: finance. It never changes."),
        error_messages={
            "invalid": gettext_lazy("Use small letters, digits and hyphens, a letter first.")
        },
    )


class MemberForm(forms.Form):
    """A member to be. Whole days, in the zone of the installation; the last one included."""

    person = forms.ModelChoiceField(User.objects.none(), label=gettext_lazy("Manager"))
    starts = forms.DateField(
        label=gettext_lazy("From"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text=gettext_lazy("Empty: as soon as it is confirmed."),
    )
    ends = forms.DateField(
        label=gettext_lazy("Until"),
        required=False,
        widget=forms.DateInput(attrs={"type": "date"}, format="%Y-%m-%d"),
        help_text=gettext_lazy("That day included. Empty: without an end."),
    )
    in_place_of = forms.ModelChoiceField(
        User.objects.none(),
        label=gettext_lazy("In place of"),
        required=False,
        empty_label=gettext_lazy("nobody in particular"),
    )

    def __init__(self, *args: Any, people: QuerySet[User], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name in ("person", "in_place_of"):
            field: Any = self.fields[name]
            field.queryset, field.label_from_instance = people, name_of

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        starts, ends = given.get("starts"), given.get("ends")
        if ends and ends < (starts or timezone.localdate()):
            self.add_error("ends", _("It ends before it starts."))
        if given.get("person") and given.get("person") == given.get("in_place_of"):
            self.add_error("in_place_of", _("Choose somebody else, or nobody."))
        return given

    def membership(self) -> dict[str, Any]:
        """As ``groups.add`` takes it."""
        given = self.cleaned_data
        other = given["in_place_of"]
        return {
            "starts_at": _midnight(given["starts"]) if given["starts"] else timezone.now(),
            "ends_at": _midnight(given["ends"] + timedelta(days=1)) if given["ends"] else None,
            "in_place_of": principal_of(other) if other else None,
        }


def _midnight(day: Any) -> Any:
    zone = timezone.get_current_timezone()
    return datetime(day.year, day.month, day.day, tzinfo=zone)


@dataclass(frozen=True, slots=True)
class ShownGroup:
    group: Group
    members: list[GroupMember]
    waiting: list[ChangeRequest]
    form: MemberForm


@login_required
@require_http_methods(["GET", "POST"])
def groups_page(request: HttpRequest, tenant: str) -> HttpResponse:
    """The groups of a tenant; what is posted makes one."""
    if request.method != "POST":
        return _page(request, readable(request, tenant))
    book, form = kept(request, tenant), GroupForm(request.POST)
    if form.is_valid():
        try:
            groups.make(book.tenant.pk, form.cleaned_data["name"], **origin_of(request))
        except LedgerError as refusal:
            form.add_error("name", refusal_in_words(refusal))
        else:
            messages.success(request, _("The group is there, without members yet."))
            return redirect("desk:groups", tenant)
    return _page(request, book, form=form)


@login_required
@require_POST
def add_member(request: HttpRequest, tenant: str, group_id: int) -> HttpResponse:
    """Have a second operator confirm that somebody joins."""
    book = kept(request, tenant)
    group = get_object_or_404(Group, pk=group_id, tenant=book.tenant.pk)
    form = _member_form(book, group, request.POST)
    if form.is_valid():
        person = principal_of(form.cleaned_data["person"])
        try:
            groups.add(group, person, **form.membership(), **origin_of(request))
        except LedgerError as refusal:
            form.add_error(None, refusal_in_words(refusal))
        else:
            messages.warning(request, _("It waits until another operator confirms it."))
            return redirect("desk:groups", tenant)
    return _page(request, book, member_form=(group, form))


@login_required
@require_POST
def remove_member(request: HttpRequest, tenant: str, member_id: int) -> HttpResponse:
    """Take somebody out of a group, at once."""
    book = kept(request, tenant)
    rows = GroupMember.objects.filter(group__tenant=book.tenant.pk).select_related("group")
    member = get_object_or_404(rows, pk=member_id)
    try:
        groups.remove(member, **origin_of(request))
    except NotFound:
        raise Http404 from None
    text = _("{name} is out of the group. Approvals that were given stay.")
    messages.success(request, text.format(name=member.person_name))
    return redirect("desk:groups", tenant)


def _member_form(book: Rulebook, group: Group, posted: Any = None) -> MemberForm:
    people = User.objects.filter(
        is_active=True, memberships__tenant=book.tenant.pk, memberships__role=Role.APPROVER
    )
    people = people.order_by("first_name", "username").distinct()
    return MemberForm(posted, people=people, auto_id=f"id_{group.pk}_%s")


def _page(
    request: HttpRequest,
    book: Rulebook,
    *,
    form: GroupForm | None = None,
    member_form: tuple[Group, MemberForm] | None = None,
) -> HttpResponse:
    lasting = GroupMember.objects.filter(removed_at=None)
    lasting = lasting.filter(Q(ends_at=None) | Q(ends_at__gt=Now())).order_by("person_name")
    rows = Group.objects.filter(tenant=book.tenant.pk).order_by("name")
    waiting = four_eyes.waiting(groups.KIND).filter(tenant=book.tenant.pk).order_by("pk")
    shown = [
        ShownGroup(
            group,
            list(group.members.all()),
            [each for each in waiting if each.subject.partition("/")[0] == group.name],
            member_form[1]
            if member_form and member_form[0].pk == group.pk
            else _member_form(book, group),
        )
        for group in rows.prefetch_related(Prefetch("members", lasting))
    ]
    context = {"book": book, "groups": shown, "form": form or GroupForm()}
    # Members by the sign-in with the company, and groups that it names and nobody has made.
    context |= {"by_company": str(company_sign_in.COMPANY), "company": settings.OIDC_NAME}
    context["unknown"] = company_sign_in.unknown_groups(book.tenant.pk)
    has_errors = bool(form or member_form)
    return render(request, "settings/groups.html", context, status=422 if has_errors else 200)
