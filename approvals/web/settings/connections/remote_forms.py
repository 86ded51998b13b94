"""Forms of a remote agent: its address, and its terms."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _, gettext_lazy

from a2a import remote
from a2a.models import RemoteAgent
from a2a.remote import ReadCard
from a2a.wire import CAPABILITIES
from approvals.web.settings.connections.json_fields import KeptJSONField
from approvals.web.settings.operators import TRIES, choose_tenant
from approvals.web.settings.saving import saves_changes_only
from ledger.foundation import http_out
from ledger.foundation.crypto.encryption import SecretUnreadable, decrypt, encrypt
from ledger.models import Agent, Tenant

PLACE = "settings.remote_agent"  # binds what is encrypted for the way through the browser
KEPT_S = 15 * 60
NEEDS = {
    "streaming": gettext_lazy("sends news while it works"),
    "push_notifications": gettext_lazy("calls us when there is news"),
    "extended_agent_card": gettext_lazy("shows more of its card to those it knows"),
}


def _needs() -> list[tuple[str, Any]]:
    return [(name, NEEDS.get(name, name)) for name in CAPABILITIES]


class NeedsField(forms.MultipleChoiceField):
    """Capabilities without which we do not work with an agent."""

    widget = forms.CheckboxSelectMultiple

    def __init__(self, **kwargs: Any) -> None:
        label = gettext_lazy("It has to be one that")
        super().__init__(choices=_needs, label=label, required=False, **kwargs)


@dataclass(frozen=True, slots=True)
class Wanted:
    """An agent as a person wants to register it, with the card that they were shown."""

    tenant: str
    slug: str
    url: str
    token: str
    required: list[str]
    wants_push: bool
    sha256: str
    in_place_of: str = ""  # the standing of what it replaces

    def kept_for(self, person: int) -> str:
        """Encrypted, because it goes through the browser with the token in it."""
        return encrypt(json.dumps([person, time.time(), asdict(self)]), PLACE)


def kept_wanted(kept: str, person: int) -> Wanted | None:
    """``None`` unless this person was given it a little while ago."""
    try:
        of_person, since, wanted = json.loads(decrypt(kept, PLACE))
    except (SecretUnreadable, ValueError):
        return None
    is_theirs = of_person == person and time.time() - since < KEPT_S
    return Wanted(**wanted) if is_theirs else None


class AddressForm(forms.Form):
    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    url = forms.URLField(
        label=gettext_lazy("Address"),
        max_length=2000,
        assume_scheme="https",
        help_text=gettext_lazy("Of the agent, or of its card. The card is read there."),
    )
    slug = forms.SlugField(
        label=gettext_lazy("Short name"),
        max_length=63,
        help_text=gettext_lazy("Its name among the agents here; it never changes."),
    )
    token = forms.CharField(
        label=gettext_lazy("Token that it asks for"),
        max_length=2000,
        required=False,
        widget=forms.PasswordInput(attrs={"autocomplete": "off"}),
        help_text=gettext_lazy("Sent as a bearer token, kept encrypted. Empty: none."),
    )
    required_capabilities = NeedsField()
    wants_push = forms.BooleanField(
        label=gettext_lazy("Ask it to call us when there is news, where its card allows that"),
        required=False,
    )

    def __init__(self, *args: Any, tenants: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choose_tenant(self, tenants)

    def clean_url(self) -> str:
        url: str = self.cleaned_data["url"]
        try:
            http_out.parse(url)
        except http_out.AddressRefused as refusal:
            raise ValidationError(str(refusal)) from None
        return url

    def clean(self) -> dict[str, Any]:
        fields = super().clean() or {}
        slug, tenant = fields.get("slug", ""), fields.get("tenant")
        if slug.startswith(TRIES):
            self.add_error("slug", _("Names that begin so are for trying tools: choose another."))
        others = Agent.objects.filter(tenant=tenant, slug=slug, remote__isnull=True)
        if tenant and others.exists():
            self.add_error("slug", _("There is such an agent already: choose another name."))
        return fields

    def read_card(self) -> ReadCard:
        """Raises ``CardRefused``."""
        fields = self.cleaned_data
        return remote.read_card(fields["url"], fields["token"], fields["required_capabilities"])

    def wanted(self, card: ReadCard, before: RemoteAgent | None) -> Wanted:
        fields = self.cleaned_data
        return Wanted(
            tenant=fields["tenant"].slug,
            slug=fields["slug"],
            url=fields["url"],
            token=fields["token"],
            required=fields["required_capabilities"],
            wants_push=fields["wants_push"],
            sha256=card.sha256,
            in_place_of=remote.standing(before),
        )

    def takes_place_of(self) -> RemoteAgent | None:
        """The one that is registered by this name already."""
        fields = self.cleaned_data
        of_name = RemoteAgent.objects.filter(
            agent__tenant=fields["tenant"], agent__slug=fields["slug"]
        )
        return of_name.defer("token").select_related("agent", "watched").first()


class TermsForm(forms.ModelForm):  # type: ignore[type-arg]
    required_capabilities = NeedsField()
    wants_push = forms.BooleanField(
        label=gettext_lazy("Ask it to call us when there is news, where its card allows that"),
        required=False,
    )
    sample = KeptJSONField(
        label=gettext_lazy("Sample task"),
        required=False,
        widget=forms.Textarea(attrs={"rows": 4, "spellcheck": "false", "class": "mono"}),
        help_text=gettext_lazy(
            "A harmless task, sent on demand and after its card has changed: "
            '{"skill": "echo", "input": {}}.'
        ),
    )

    class Meta:
        model = RemoteAgent
        fields = ("required_capabilities", "wants_push", "sample")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        saves_changes_only(self)

    def clean_sample(self) -> Any:
        sample = self.cleaned_data["sample"] or {}
        if sample and not remote.is_sample(self.instance, sample):
            raise ValidationError(
                _("Write a skill of it, and an input that it takes, as in the line above.")
            )
        return sample
