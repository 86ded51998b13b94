"""Forms of an agent and of its tokens."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils import timezone
from django.utils.text import slugify
from django.utils.translation import gettext as _, gettext_lazy

from approvals.people import name_of, names_of, principal_of
from approvals.presentation import labels
from approvals.web.settings.limit_fields import WithLimits
from approvals.web.settings.operators import TRIES, choose_tenant
from approvals.web.settings.saving import saves_changes_only
from ledger import contracts
from ledger.agents import ONE_TOOL
from ledger.delivery.webhooks import form_choices
from ledger.foundation import http_out
from ledger.limits import Of
from ledger.models import Agent, Scope, Tenant
from ledger.models.agents import ALL_TOOLS
from ledger.tools import is_handed_over, readonly_tools_of, registered_names, tools_of

DAY = 86_400
LIFETIMES = {
    "": gettext_lazy("never expires"),
    str(30 * DAY): gettext_lazy("expires in 30 days"),
    str(90 * DAY): gettext_lazy("expires in 90 days"),
    str(365 * DAY): gettext_lazy("expires in a year"),
}
SCOPES = {
    Scope.PROPOSE: gettext_lazy("propose, read and cancel its own transactions"),
    Scope.SUBMIT: gettext_lazy("ask people, and give work to others"),
    Scope.WORK: gettext_lazy("do the tasks of its own skills"),
    Scope.DECIDE: gettext_lazy("decide as a supervisor, where a contract lets one"),
    Scope.READ_ALL: gettext_lazy("read every transaction of its tenant"),
}


class NewAgentForm(forms.Form):
    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    name = forms.CharField(
        label=gettext_lazy("Name"),
        max_length=200,
        help_text=gettext_lazy("As people read it beside what it proposes: Helpdesk agent."),
    )
    slug = forms.SlugField(
        label=gettext_lazy("Short name"),
        max_length=63,
        required=False,
        help_text=gettext_lazy("For addresses and records; it never changes. Empty: of the name."),
    )
    tools = forms.MultipleChoiceField(
        label=gettext_lazy("It may ask for"),
        widget=forms.CheckboxSelectMultiple,
        error_messages={"required": gettext_lazy("Choose what it may ask for.")},
    )
    lasts = forms.ChoiceField(
        label=gettext_lazy("Its token"), choices=list(LIFETIMES.items()), initial=str(90 * DAY)
    )

    def __init__(self, *args: Any, tenants: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choose_tenant(self, tenants)
        fields: Any = self.fields
        every = (ALL_TOOLS, _("every tool, also later ones"))
        fields["tools"].choices = [*_tools_of(tenants), every]
        fields["lasts"].required = False

    def expires_at(self) -> datetime | None:
        return end_of(self.cleaned_data["lasts"])

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        fields["slug"] = fields.get("slug") or slugify(fields.get("name", ""))[:63]
        slug, tenant = fields["slug"], fields.get("tenant")
        if not slug:
            self.add_error("slug", _("Give it a short name in small letters and digits."))
        elif slug.startswith(TRIES):
            self.add_error("slug", _("Names that begin so are for trying tools: choose another."))
        elif tenant and Agent.objects.filter(tenant=tenant, slug=slug).exists():
            self.add_error("slug", _("There is such an agent already: choose another name."))
        return fields


class AgentForm(WithLimits):
    """Rights of one agent, its keeper and its webhook; ``editor`` is the principal who edits it."""

    limits_of = Of.AGENT
    name = forms.CharField(label=gettext_lazy("Name"), max_length=200)
    is_active = forms.BooleanField(label=gettext_lazy("Switched on"), required=False)
    tools = forms.MultipleChoiceField(
        label=gettext_lazy("It may ask for"), required=False, widget=forms.CheckboxSelectMultiple
    )
    kept_by = forms.ChoiceField(
        label=gettext_lazy("Kept by"),
        required=False,
        help_text=gettext_lazy(
            "Whoever runs it does not sign off what it proposes. Agents of one keeper have one "
            "vote together, and so have all agents without one."
        ),
    )
    review_percent = forms.IntegerField(
        label=gettext_lazy("Of 100 of its decisions as a supervisor, people review"),
        required=False,
        min_value=0,
        max_value=100,
    )
    webhook_url = forms.URLField(
        label=gettext_lazy("It is told at this address"),
        required=False,
        assume_scheme="https",
        help_text=gettext_lazy("When what it proposed is decided or ends. Empty: it asks itself."),
    )
    webhook_form = forms.ChoiceField(
        label=gettext_lazy("In which form"), choices=form_choices, required=False
    )

    class Meta:
        model = Agent
        fields = (
            "name",
            "is_active",
            "tools",
            "kept_by",
            "review_percent",
            "webhook_url",
            "webhook_form",
        )

    def __init__(self, *args: Any, editor: str, people: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.editor = editor
        fields: Any = self.fields
        fields["tools"].choices = list(_tool_choices(self.instance))
        keepers = [(str(principal_of(person)), name_of(person)) for person in people]
        if self.instance.kept_by and self.instance.kept_by not in dict(keepers):
            gone = names_of([self.instance.kept_by])[0]
            keepers.append((self.instance.kept_by, _("{name} (gone)").format(name=gone)))
        fields["kept_by"].choices = [("", _("nobody in particular")), *keepers]
        saves_changes_only(self)

    def clean_review_percent(self) -> int:
        """Left empty, it stays as it is."""
        percent: int | None = self.cleaned_data["review_percent"]
        return self.instance.review_percent if percent is None else percent

    def clean_webhook_url(self) -> str:
        url: str = self.cleaned_data["webhook_url"]
        if url:
            try:
                http_out.parse(url)
            except http_out.AddressRefused as refusal:
                raise ValidationError(str(refusal)) from None
        return url

    def clean(self) -> Any:
        fields = super().clean()
        before = (self.initial["kept_by"], self.initial["review_percent"])
        after = (fields.get("kept_by", before[0]), fields.get("review_percent", before[1]))
        if before != after and self.editor in {before[0], after[0]}:
            raise ValidationError(
                _(
                    "You keep this agent, or would: another operator has to change who keeps it "
                    "and how much of it is reviewed."
                )
            )
        return fields


def _tool_choices(agent: Agent) -> Any:
    """All, each tool of the tenant, and what the agent was allowed besides."""
    yield ALL_TOOLS, _("every tool of {tenant}, also later ones").format(tenant=agent.tenant.name)
    there = _tools_of([agent.tenant])
    yield from there
    for name in sorted({*agent.tools} - {*dict(there), ALL_TOOLS}):
        yield name, labels.title_of(name)


def _tools_of(tenants: Iterable[Tenant]) -> list[tuple[str, str]]:
    slugs = {tenant.pk for tenant in tenants}
    names = sorted({*tools_of(slugs), *readonly_tools_of(slugs)})
    return [(name, labels.title_of(name)) for name in names]


def end_of(lifetime: str) -> datetime | None:
    """The end of a token of this lifetime, in seconds; ``None`` for one that never expires."""
    return timezone.now() + timedelta(seconds=int(lifetime)) if lifetime else None


class TokenForm(forms.Form):
    scopes = forms.MultipleChoiceField(
        label=gettext_lazy("With it the agent may"),
        choices=list(SCOPES.items()),
        widget=forms.CheckboxSelectMultiple,
        initial=[Scope.PROPOSE],
        required=False,
    )
    lasts = forms.ChoiceField(
        label=gettext_lazy("It"), choices=list(LIFETIMES.items()), required=False
    )
    further_scopes = forms.RegexField(
        r"^[A-Za-z0-9:._-]{1,120}( [A-Za-z0-9:._-]{1,120}){0,19}$",
        label=gettext_lazy("Further scopes"),
        required=False,
        help_text=gettext_lazy(
            "With spaces between: propose:pay for a token that may use the tool pay alone, and "
            "what skills ask for besides, like transcripts:read"
        ),
    )
    default_skill = forms.SlugField(
        label=gettext_lazy("Skill of a message that names none"), max_length=100, required=False
    )

    def clean_further_scopes(self) -> list[str]:
        """Refuse misspelled tools, and ``propose`` beside ``propose:<tool>``."""
        further: list[str] = self.cleaned_data["further_scopes"].split()
        tools = [name.removeprefix(ONE_TOOL) for name in further if name.startswith(ONE_TOOL)]
        known = {*contracts.tools, *contracts.readonly_tools, *registered_names()}
        if unknown := sorted({name for name in tools if not is_handed_over(name)} - known):
            raise ValidationError(
                _("There is no tool named {names}.").format(names=", ".join(unknown))
            )
        if tools and Scope.PROPOSE in self.cleaned_data.get("scopes", []):
            raise ValidationError(_("The scope propose is for every tool: untick it."))
        return further

    def clean(self) -> Any:
        fields = super().clean() or {}
        fields["scopes"] = [*fields.get("scopes", []), *fields.get("further_scopes", [])]
        if not fields["scopes"] and not self.errors:
            raise ValidationError(_("Without any right a token is good for nothing."))
        return fields

    def expires_at(self) -> datetime | None:
        return end_of(self.cleaned_data["lasts"])


def scope_in_words(scope: str) -> str:
    """As the form of a token says it."""
    return str(SCOPES[Scope(scope)]) if scope in Scope.values else scope
