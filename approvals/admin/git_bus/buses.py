"""Git buses in the admin: where each repository is, with which key, and what is offered there."""

from __future__ import annotations

from typing import Any, ClassVar

from django import forms
from django.conf import settings
from django.contrib import admin, messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.db.models.functions import Now
from django.http import HttpRequest

from a2a.doors.git_bus.models import BusMethod, GitBus
from a2a.doors.git_bus.repository import access
from a2a.models import Skill
from ledger.admin.base import OwnChoices, TenantAdmin, tenants_of
from ledger.admin.sealed_changes import SealedEdits
from ledger.events import edits_between
from ledger.models import Agent

KEEP = "Leave it empty to keep the one that is there; it is never shown."


class BusForm(forms.ModelForm):
    """Secrets are entered in fields of their own, which never hold the stored ones."""

    class Meta:
        widgets: ClassVar[dict[str, Any]] = {
            "url": forms.TextInput(attrs={"class": "vTextField"}),
            "known_hosts": forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
            "allowed_signers": forms.Textarea(attrs={"rows": 3, "spellcheck": "false"}),
        }

    new_deploy_key = forms.CharField(
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "autocomplete": "off", "spellcheck": "false"}),
        max_length=20_000,
        help_text=f"Private SSH key without a passphrase, as ssh-keygen writes it. {KEEP}",
    )
    make_deploy_key = forms.BooleanField(
        required=False,
        help_text="Make a new Ed25519 key and forget the old one. Its public half is shown here "
        "afterwards; give it to the git host, with the right to push. A signing key is made beside "
        "it, unless there is one.",
    )
    make_signing_key = forms.BooleanField(
        required=False,
        help_text="Make a new key by which our commits are signed, and forget the old one. Others "
        "need the new line before they take our requests and answers again.",
    )
    new_password = forms.CharField(
        label="New access token",
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        max_length=2_000,
        help_text=f"Over https: an access token that may push. {KEEP}",
    )

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].strip()
        _checked(access.check_address, url, allow_local=settings.GIT_BUS_LOCAL)
        return url

    def clean_known_hosts(self) -> str:
        return _checked(access.check_known_hosts, self.cleaned_data["known_hosts"])

    def clean_allowed_signers(self) -> str:
        return _checked(access.check_signers, self.cleaned_data["allowed_signers"])

    def clean_new_deploy_key(self) -> str:
        text: str = self.cleaned_data["new_deploy_key"]
        return _checked(access.check_key, text) if text.strip() else ""

    def clean(self) -> Any:
        fields: Any = super().clean()
        if fields.get("make_deploy_key") and fields.get("new_deploy_key"):
            raise ValidationError("Either enter a deploy key, or let one be made.")
        url = str(fields.get("url", ""))
        is_ssh = not url.startswith(("https://", "/", "file://")) and url
        if is_ssh and not str(fields.get("known_hosts", "")).strip():
            self.add_error(
                "known_hosts",
                "Over SSH the server has to prove who it is: paste what ssh-keyscan prints, and "
                "compare it with what the git host publishes.",
            )
        return fields


def _checked(check: Any, text: str, **options: Any) -> str:
    """``text``, or a form's error with the reason of the check."""
    try:
        check(text, **options)
    except access.Unusable as refusal:
        raise ValidationError(str(refusal)) from refusal
    return text


class MethodFormSet(forms.BaseInlineFormSet):
    """A method is a skill of the bus's tenant: another agent's, or one of those done there."""

    def clean(self) -> None:
        super().clean()
        agent = getattr(self.instance, "agent", None) if self.instance.agent_id else None
        if agent is None:
            return
        for form in self.forms:
            if form.is_valid() and form.cleaned_data and not form.cleaned_data.get("DELETE"):
                self._check(form, agent)

    def _check(self, form: Any, agent: Agent) -> None:
        fields = form.cleaned_data
        skill = Skill.objects.filter(tenant=agent.tenant_id, slug=fields["skill"]).first()
        if skill is None:
            form.add_error("skill", f"The tenant {agent.tenant_id} has no such skill.")
        elif fields["is_ours"] and skill.agent_id == agent.pk:
            form.add_error("is_ours", "It belongs to the agent of the bus: it is done there.")
        elif not fields["is_ours"] and skill.agent_id != agent.pk:
            form.add_error(
                "is_ours", f"What others do there is a skill of {agent.name}; add it there first."
            )


class MethodInline(OwnChoices, admin.TabularInline):
    model = BusMethod
    formset = MethodFormSet
    extra = 1
    fields = ("method", "skill", "is_ours")

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        formset = super().get_formset(request, obj, **kwargs)
        tenants = {obj.agent.tenant_id} if obj else tenants_of(request)
        skills = Skill.objects.filter(tenant__in=tenants, is_active=True).order_by("slug")
        choices = [(slug, f"{name} ({slug})") for slug, name in skills.values_list("slug", "name")]
        offered = [("", "---------"), *dict(choices).items()]
        formset.form.base_fields["skill"] = forms.ChoiceField(choices=offered)
        return formset


@admin.register(GitBus)
class GitBusAdmin(TenantAdmin, SealedEdits):
    """Git buses. One is switched off rather than deleted, because its requests refer to it."""

    sealed_as = "bus"
    secrets = frozenset({"new_deploy_key", "new_password"})
    tenant_path = "agent__tenant"
    form = BusForm
    inlines = (MethodInline,)
    list_display = ("agent", "url", "branch", "is_active", "fetched_at", "error")
    list_select_related = ("agent",)
    actions = ("look_now",)
    fieldsets = (
        (None, {"fields": ("agent", "participant", "is_active")}),
        (
            "Repository",
            {
                "fields": (
                    "url",
                    "branch",
                    "environment",
                    "public_key",
                    "make_deploy_key",
                    "new_deploy_key",
                    "known_hosts",
                    "new_password",
                )
            },
        ),
        ("Our signature", {"fields": ("signer_line", "make_signing_key")}),
        ("Who may ask", {"fields": ("strangers", "allowed_signers")}),
        ("Times", {"fields": ("poll_every", "stuck_after")}),
        (
            "At the last pass",
            {"fields": ("fetched_at", "head", "error", "note", "unusable", "rewritten_at")},
        ),
    )
    state = (
        "fetched_at",
        "head",
        "error",
        "note",
        "unusable",
        "rewritten_at",
        "public_key",
        "signer_line",
    )

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        return ("agent", *self.state) if obj else self.state

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return super().get_queryset(request).select_related("agent")

    def choices_of(self, related: Any, request: HttpRequest) -> QuerySet[Any] | None:
        """Agents without another transport: tasks of a remote agent go to its address."""
        offered = super().choices_of(related, request)
        if related is Agent and offered is not None:
            return offered.filter(remote__isnull=True, bus__isnull=True)
        return offered

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    @admin.display(description="deploy key, public half")
    def public_key(self, row: GitBus) -> str:
        if not row.pk or not row.deploy_key:
            return "There is none yet."
        try:
            return access.public_line(row.deploy_key, f"assent-{row.agent.slug}")
        except access.Unusable as refusal:
            return str(refusal)

    @admin.display(description="line for the allowed signers of others")
    def signer_line(self, row: GitBus) -> str:
        if not row.pk or not row.signing_key:
            return "There is no signing key: our commits are not signed."
        return f"{row.our_address} {access.public_line(row.signing_key, '').strip()}"

    def subject_of(self, row: GitBus) -> str:
        return f"git_bus:{row.pk}"

    def tenant_slug_of(self, row: GitBus) -> str:
        return row.agent.tenant_id

    def save_model(self, request: HttpRequest, obj: GitBus, form: Any, change: bool) -> None:
        fields = form.cleaned_data
        if fields["new_deploy_key"] or fields["make_deploy_key"]:
            obj.deploy_key = fields["new_deploy_key"] or access.new_key()
        if fields["make_signing_key"] or (fields["make_deploy_key"] and not obj.signing_key):
            obj.signing_key = access.new_key()
        if fields["new_password"]:
            obj.password = fields["new_password"]
        if not change:
            super().save_model(request, obj, form, change)
            return
        # What the bus process writes meanwhile is not ours to write back.
        columns = [name for name in form.changed_data if not name.startswith(("new_", "make_"))]
        obj.save(update_fields=[*columns, "deploy_key", "signing_key", "password"])
        GitBus.objects.filter(pk=obj.pk).update(look_at=Now())

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        before = _methods_of(form.instance)
        admin.ModelAdmin.save_related(self, request, form, formsets, change)
        methods = edits_between({"methods": before}, {"methods": _methods_of(form.instance)})
        if edits := {**self.edits_of(form), **methods}:
            self.seal(request, form.instance, edits, is_new=not change)

    @admin.action(description="Look into the repository now", permissions=["change"])
    def look_now(self, request: HttpRequest, rows: QuerySet[GitBus]) -> None:
        rows.update(look_at=Now())
        self.message_user(request, "The bus process looks within seconds.", messages.SUCCESS)


def _methods_of(bus: GitBus) -> list[str]:
    """As the audit log keeps them: ``draft.text → consolidate``, ``← `` for those done there."""
    rows = BusMethod.objects.filter(bus=bus).order_by("method")
    return [f"{row.method} {'→' if row.is_ours else '←'} {row.skill}" for row in rows]
