"""Forms of Slack's workspaces, routes and links."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django import forms
from django.conf import settings
from django.contrib.auth.models import User
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.utils.translation import gettext as _, gettext_lazy

from a2a.models import Skill
from approvals.models import RISKS, Concern, SlackRoute, SlackWorkspace
from approvals.people import name_of
from approvals.presentation.labels import risk_words
from approvals.web.settings.operators import choose_tenant, people_in
from approvals.web.settings.saving import saves_changes_only
from ledger.models import Tenant
from ledger.tools import is_handed_over, tools_of

CHANNEL_ID, USER_ID, TEAM_ID = r"^[CG][A-Z0-9]{1,19}$", r"^[UW][A-Z0-9]{1,19}$", r"^[TE][A-Z0-9]+$"
LONGEST_WAIT = 7 * 24 * 60  # minutes


class WorkspaceForm(forms.Form):
    language = forms.ChoiceField(
        label=gettext_lazy("Language of its channels"),
        required=False,
        help_text=gettext_lazy("People who are linked are answered in their own."),
    )
    tenants = forms.ModelMultipleChoiceField(
        Tenant.objects.none(),
        label=gettext_lazy("Whose proposals and questions may be shown and decided there"),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": gettext_lazy("It has to serve one at least.")},
    )

    def __init__(self, *args: Any, row: SlackWorkspace, tenants: Any, **kwargs: Any) -> None:
        initial = {"language": row.language, "tenants": list(row.tenants.all())}
        super().__init__(*args, **{**kwargs, "initial": initial})
        fields: Any = self.fields
        fields["language"].choices = self.languages()
        fields["tenants"].queryset = tenants
        saves_changes_only(self)

    @staticmethod
    def languages() -> list[tuple[str, Any]]:
        return [("", _("As the installation")), *settings.LANGUAGES]


class LinkForm(forms.Form):
    person = forms.ModelChoiceField(User.objects.none(), label=gettext_lazy("Person"))
    slack_user_id = forms.RegexField(
        USER_ID,
        label=gettext_lazy("Their Slack user"),
        max_length=20,
        help_text=gettext_lazy(
            "The member ID, which begins with U or W: in Slack, in their profile under ⋮."
        ),
        error_messages={"invalid": gettext_lazy("The ID of a Slack user begins with U or W.")},
    )
    home_team_id = forms.RegexField(
        TEAM_ID,
        label=gettext_lazy("Their own workspace"),
        max_length=20,
        required=False,
        help_text=gettext_lazy("For a guest in a shared channel: its ID, which begins with T."),
        error_messages={"invalid": gettext_lazy("The ID of a workspace begins with T.")},
    )

    def __init__(self, *args: Any, people: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["person"]
        field.queryset, field.label_from_instance = people, name_of


class RouteForm(forms.Form):
    """A route as sentences; of one that exists, workspace and tenant stay."""

    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    concerns = forms.ChoiceField(
        label=gettext_lazy("Tell of"),
        choices=[
            (Concern.EVERYTHING.value, gettext_lazy("proposals and questions")),
            (Concern.TRANSACTIONS.value, gettext_lazy("proposals")),
            (Concern.QUESTIONS.value, gettext_lazy("questions")),
        ],
    )
    tool = forms.CharField(
        label=gettext_lazy("Of this tool or skill"),
        max_length=100,
        required=False,
        widget=forms.TextInput(attrs={"list": "tools", "autocomplete": "off"}),
        help_text=gettext_lazy("Empty: of any."),
    )
    min_risk = forms.ChoiceField(
        label=gettext_lazy("Of a risk of at least"),
        required=False,
        help_text=gettext_lazy("Only proposals have one."),
    )
    owner = forms.CharField(
        label=gettext_lazy("Only of tools of this service"),
        max_length=100,
        required=False,
        help_text=gettext_lazy("As contracts name the owner. Empty: of any."),
    )
    channel = forms.RegexField(
        CHANNEL_ID,
        label=gettext_lazy("In this channel"),
        max_length=20,
        required=False,
        help_text=gettext_lazy(
            "The channel ID, which begins with C: at the end of View channel details. Invite the "
            "bot there (/invite @Assent)."
        ),
        error_messages={"invalid": gettext_lazy("The ID of a channel begins with C.")},
    )
    approver = forms.ModelChoiceField(
        User.objects.none(),
        label=gettext_lazy("Or as a direct message to"),
        required=False,
        empty_label=gettext_lazy("nobody: in the channel"),
    )
    minutes = forms.FloatField(
        label=gettext_lazy("If nobody acts within so many minutes"),
        required=False,
        min_value=0.1,
        max_value=LONGEST_WAIT,
    )
    escalate_to = forms.RegexField(
        CHANNEL_ID,
        label=gettext_lazy("Also in this channel"),
        max_length=20,
        required=False,
        error_messages={"invalid": gettext_lazy("The ID of a channel begins with C.")},
    )

    def __init__(
        self, *args: Any, route: SlackRoute, tenants: Any, kept: Any, **kwargs: Any
    ) -> None:
        super().__init__(*args, **{**kwargs, "initial": _initial(route)})
        self.route, self.kept = route, kept
        fields: Any = self.fields
        fields["min_risk"].choices = [
            ("", _("any risk")),
            *((risk, risk_words(risk)) for risk in RISKS),
        ]
        fields["approver"].queryset = people_in(tenants)
        fields["approver"].label_from_instance = name_of
        if route.pk:
            del fields["tenant"]
        else:
            choose_tenant(self, tenants)
        saves_changes_only(self)
        self.known = sorted({*tools_of({each.pk for each in tenants}), *_skills(tenants)})

    def clean_tool(self) -> str:
        name: str = self.cleaned_data["tool"]
        is_known = name in self.known or is_handed_over(name) or name == self.route.tool
        if name and not is_known:
            raise ValidationError(_("There is no tool and no skill of this name."))
        return name

    def clean_channel(self) -> str:
        return self._own("channel")

    def clean_escalate_to(self) -> str:
        return self._own("escalate_to")

    def _own(self, name: str) -> str:
        """Refuse a channel of tenants that the operator does not keep."""
        channel: str = self.cleaned_data[name]
        there = Q(channel=channel) | Q(escalate_to=channel)
        routes = SlackRoute.objects.filter(there, workspace=self.route.workspace)
        if channel and routes.exclude(tenant__in=self.kept).exists():
            raise ValidationError(_("Others are told things there: choose another channel."))
        return channel

    def clean(self) -> dict[str, Any]:
        wanted = super().clean() or {}
        if wanted.get("concerns") == Concern.QUESTIONS and (
            wanted.get("min_risk") or wanted.get("owner")
        ):
            raise ValidationError(_("Questions have neither a risk nor a service: leave it empty."))
        if not self.errors and bool(wanted["channel"]) == bool(wanted["approver"]):
            raise ValidationError(_("Name a channel or a person, one of the two."))
        if not self.errors and bool(wanted["minutes"]) != bool(wanted["escalate_to"]):
            raise ValidationError(_("A next channel needs minutes, and minutes a next channel."))
        return wanted

    def wanted(self) -> dict[str, Any]:
        """The columns that this person changed."""
        wanted = {name: self.cleaned_data[name] for name in self.changed_data}
        if "minutes" in wanted:
            minutes = wanted.pop("minutes")
            wanted["escalate_after"] = timedelta(minutes=minutes) if minutes else None
        return wanted


def _initial(route: SlackRoute) -> dict[str, Any]:
    names = ("concerns", "tool", "min_risk", "owner", "channel", "approver", "escalate_to")
    initial = {name: getattr(route, name) for name in names}
    if route.escalate_after is None:
        return initial
    minutes = route.escalate_after.total_seconds() / 60
    return {**initial, "minutes": int(minutes) if minutes.is_integer() else minutes}


def _skills(tenants: Any) -> list[str]:
    rows = Skill.objects.filter(agent__tenant__in=tenants)
    return list(rows.values_list("slug", flat=True).distinct())
