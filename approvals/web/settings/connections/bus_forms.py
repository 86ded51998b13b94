"""Forms of a git bus: its repository, its keys, who may ask, and its methods."""

from __future__ import annotations

from typing import Any

from django import forms
from django.conf import settings
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _, gettext_lazy

from a2a.doors.git_bus.models import BusMethod, GitBus, Strangers
from a2a.doors.git_bus.repository import access
from a2a.models import Skill
from approvals.web.settings.connections.spans import SpanField
from approvals.web.settings.saving import saves_changes_only
from approvals.web.settings.tools.secrets import WrittenOnly
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.models import Agent

LINES = {"rows": 3, "spellcheck": "false", "class": "mono"}
KEYS = ("make_deploy_key", "new_deploy_key", "new_password", "make_signing_key")
STRANGERS = {
    Strangers.ACCEPT: gettext_lazy("is taken"),
    Strangers.ASK: gettext_lazy("is put before a person first"),
    Strangers.REFUSE: gettext_lazy("is answered with an error"),
}


class BusForm(forms.ModelForm):  # type: ignore[type-arg]
    """Secrets are entered in fields of their own, which never hold the stored ones."""

    agent = forms.ModelChoiceField(
        Agent.objects.none(),
        label=gettext_lazy("Agent that stands for the other side"),
        empty_label="",
        help_text=gettext_lazy(
            "What arrives is submitted in its name; what others do there are its skills."
        ),
    )
    participant = forms.CharField(
        label=gettext_lazy("Our id there"),
        max_length=100,
        help_text=gettext_lazy("It names our participant file."),
    )
    url = forms.CharField(
        label=gettext_lazy("Address of the repository"),
        max_length=500,
        help_text=gettext_lazy("https://…, ssh://… or git@host:path"),
    )
    branch = forms.CharField(label=gettext_lazy("Branch"), max_length=200, initial="main")
    environment = forms.CharField(
        label=gettext_lazy("Its folders, as first seen"),
        required=False,
        widget=forms.Textarea(attrs=LINES),
        help_text=gettext_lazy(
            "If the repository names others, the bus stands still until this is emptied: then "
            "those count."
        ),
    )
    make_deploy_key = forms.BooleanField(
        label=gettext_lazy("Make a new deploy key"),
        required=False,
        help_text=gettext_lazy(
            "The old one is forgotten. The public half of the new one is shown here afterwards; "
            "give it to the git host, with the right to push. A signing key is made beside it, "
            "unless there is one."
        ),
    )
    new_deploy_key = forms.CharField(
        label=gettext_lazy("Or a deploy key that you have"),
        required=False,
        max_length=20_000,
        widget=WrittenOnly(attrs={**LINES, "autocomplete": "off"}),
        help_text=gettext_lazy(
            "Private SSH key without a passphrase, as ssh-keygen writes it. Empty: the one that "
            "is there stays; it is never shown."
        ),
    )
    known_hosts = forms.CharField(
        label=gettext_lazy("Known hosts"),
        required=False,
        widget=forms.Textarea(attrs=LINES),
        help_text=gettext_lazy(
            "Over SSH: paste what ssh-keyscan prints, and compare it with what the git host "
            "publishes."
        ),
    )
    new_password = forms.CharField(
        label=gettext_lazy("Access token"),
        required=False,
        max_length=2_000,
        widget=forms.PasswordInput(attrs={"autocomplete": "new-password"}),
        help_text=gettext_lazy(
            "Over https: one that may push. Empty: the one that is there stays; it is never shown."
        ),
    )
    make_signing_key = forms.BooleanField(
        label=gettext_lazy("Make a new signing key"),
        required=False,
        help_text=gettext_lazy(
            "Our commits are signed by it, and the old one is forgotten. Others need the new line "
            "before they take our requests and answers again."
        ),
    )
    strangers = forms.ChoiceField(
        label=gettext_lazy("A request without a good signature"),
        choices=list(STRANGERS.items()),
        initial=Strangers.ASK,
    )
    allowed_signers = forms.CharField(
        label=gettext_lazy("Allowed signers"),
        required=False,
        widget=forms.Textarea(attrs=LINES),
        help_text=gettext_lazy(
            "Lines as ssh-keygen has them: ann@partner.example ssh-ed25519 AAAA…"
        ),
    )
    poll_every = SpanField(label=gettext_lazy("We look every"))
    stuck_after = SpanField(
        label=gettext_lazy("A claim of others is late after"),
        help_text=gettext_lazy("Then operators are shown it."),
    )
    is_active = forms.BooleanField(label=gettext_lazy("Switched on"), required=False, initial=True)

    class Meta:
        model = GitBus
        fields = (
            "agent",
            "participant",
            "url",
            "branch",
            "environment",
            "known_hosts",
            "strangers",
            "allowed_signers",
            "poll_every",
            "stuck_after",
            "is_active",
        )

    def __init__(self, *args: Any, agents: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:
            agent: Any = self.fields["agent"]
            agent.queryset = agents
            del self.fields["environment"]
            return
        del self.fields["agent"]
        saves_changes_only(self)
        for name in KEYS:  # their values are never in a page
            self.fields[name].show_hidden_initial = False

    @property
    def where(self) -> list[Any]:
        return self._those("agent", "participant", "url", "branch", "environment")

    @property
    def keys(self) -> list[Any]:
        return self._those(*KEYS[:2], "known_hosts", *KEYS[2:])

    @property
    def askers(self) -> list[Any]:
        return self._those("strangers", "allowed_signers")

    @property
    def times(self) -> list[Any]:
        return self._those("poll_every", "stuck_after")

    def _those(self, *names: str) -> list[Any]:
        return [self[name] for name in names if name in self.fields]

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"].strip()
        return _checked(access.check_address, url, allow_local=settings.GIT_BUS_LOCAL)

    def clean_known_hosts(self) -> str:
        return _checked(access.check_known_hosts, self.cleaned_data["known_hosts"])

    def clean_allowed_signers(self) -> str:
        return _checked(access.check_signers, self.cleaned_data["allowed_signers"])

    def clean_new_deploy_key(self) -> str:
        text: str = self.cleaned_data["new_deploy_key"]
        return _checked(access.check_key, text) if text.strip() else ""

    def clean(self) -> Any:
        fields: Any = super().clean() or self.cleaned_data
        if fields.get("make_deploy_key") and fields.get("new_deploy_key"):
            raise ValidationError(_("Either enter a deploy key, or let one be made."))
        url = str(fields.get("url", ""))
        is_ssh = not url.startswith(("https://", "/", "file://")) and url
        if is_ssh and not str(fields.get("known_hosts", "")).strip():
            self.add_error(
                "known_hosts",
                _(
                    "Over SSH the server has to prove who it is: paste what ssh-keyscan prints, "
                    "and compare it with what the git host publishes."
                ),
            )
        return fields

    def secrets(self, row: GitBus) -> dict[str, str]:
        """The columns of the keys that were entered or are to be made."""
        fields, made = self.cleaned_data, {}
        if fields["new_deploy_key"] or fields["make_deploy_key"]:
            made["deploy_key"] = fields["new_deploy_key"] or access.new_key()
        if fields["make_signing_key"] or (
            fields["make_deploy_key"] and not readable(row, "signing_key")
        ):
            made["signing_key"] = access.new_key()
        if fields["new_password"]:
            made["password"] = fields["new_password"]
        return made


def readable(row: GitBus, name: str) -> str:
    """A key of the bus; empty if there is none, or none that can still be decrypted."""
    try:
        return str(getattr(row, name))
    except SecretUnreadable:
        return ""


def _checked(check: Any, text: str, **options: Any) -> str:
    """``text``, or a form's error with the reason of the check."""
    try:
        check(text, **options)
    except access.Unusable as refusal:
        raise ValidationError(str(refusal)) from refusal
    return text


class MethodForm(forms.ModelForm):  # type: ignore[type-arg]
    method = forms.CharField(label=gettext_lazy("Method"), max_length=200)
    skill = forms.ChoiceField(label=gettext_lazy("Skill"))
    is_ours = forms.TypedChoiceField(
        label=gettext_lazy("Done by"),
        choices=[("True", gettext_lazy("us")), ("False", gettext_lazy("others, there"))],
        coerce=lambda value: value == "True",
        initial="True",
    )

    class Meta:
        model = BusMethod
        fields = ("method", "skill", "is_ours")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is not None:
            saves_changes_only(self)


class BaseMethodFormSet(forms.BaseInlineFormSet):  # type: ignore[type-arg]
    """A method is a skill of the bus's tenant: another agent's, or one of those done there."""

    def add_fields(self, form: Any, index: Any) -> None:
        super().add_fields(form, index)
        offered = Skill.objects.filter(tenant=self.instance.agent.tenant_id, is_active=True)
        names = dict(offered.order_by("slug").values_list("slug", "name"))
        if form.instance.skill:
            names.setdefault(form.instance.skill, form.instance.skill)
        choices = [(slug, f"{name} ({slug})") for slug, name in names.items()]
        form.fields["skill"].choices = [("", ""), *choices]

    def save_existing(self, form: Any, obj: Any, commit: bool = True) -> Any:
        """Only the columns that this person changed."""
        changed = {name: form.cleaned_data[name] for name in form.changed_data}
        BusMethod.objects.filter(pk=obj.pk).update(**changed)
        return obj

    def clean(self) -> None:
        super().clean()
        for form in self.forms:
            if form.is_valid() and form.cleaned_data and not form.cleaned_data.get("DELETE"):
                self._check(form, self.instance.agent)

    def _check(self, form: Any, agent: Agent) -> None:
        fields = form.cleaned_data
        skill = Skill.objects.filter(tenant=agent.tenant_id, slug=fields["skill"]).first()
        if skill is None:
            text = _("The tenant {tenant} has no such skill.").format(tenant=agent.tenant_id)
            form.add_error("skill", text)
        elif fields["is_ours"] and skill.agent_id == agent.pk:
            form.add_error("is_ours", _("It belongs to the agent of the bus: it is done there."))
        elif not fields["is_ours"] and skill.agent_id != agent.pk:
            text = _("What others do there is a skill of {name}; add it there first.")
            form.add_error("is_ours", text.format(name=agent.name))


MethodFormSet: Any = forms.inlineformset_factory(
    GitBus, BusMethod, form=MethodForm, formset=BaseMethodFormSet, extra=1, can_delete_extra=False
)
