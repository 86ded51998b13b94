"""Forms of a registered tool: its text, its terms in sentences, and a new one by its address."""

from __future__ import annotations

from typing import Any

from django import forms
from django.utils.translation import gettext_lazy

from approvals.web.forms import STRENGTHS
from approvals.web.settings.operators import choose_tenant
from ledger.contracts import ConsequenceLevel, RequiredApprover, RiskLevel
from ledger.models import Tenant
from ledger.tools import manifests
from ledger.tools.manifests import Manifest

MINUTE, HOUR, DAY = 60.0, 3_600.0, 86_400.0  # as contracts have them
WAITS = {
    5 * MINUTE: gettext_lazy("5 minutes"),
    15 * MINUTE: gettext_lazy("15 minutes"),
    HOUR: gettext_lazy("an hour"),
    4 * HOUR: gettext_lazy("4 hours"),
    DAY: gettext_lazy("a day"),
}
SIGNERS = {
    RequiredApprover.HUMAN: gettext_lazy("a manager"),
    RequiredApprover.SUPERVISOR: gettext_lazy("a supervising agent, or a manager"),
    RequiredApprover.NONE: gettext_lazy("nobody: it is carried out at once, and recorded"),
}
FLOORS = {
    "": gettext_lazy("no less than that"),
    RequiredApprover.HUMAN: gettext_lazy("one manager"),
    RequiredApprover.SUPERVISOR: gettext_lazy("a supervising agent, or a manager"),
    RequiredApprover.NONE: gettext_lazy("nobody"),
}
RISKS = {
    RiskLevel.LOW: gettext_lazy("low"),
    RiskLevel.MEDIUM: gettext_lazy("medium"),
    RiskLevel.HIGH: gettext_lazy("high"),
    RiskLevel.CRITICAL: gettext_lazy("critical"),
}
UNDOING = {
    ConsequenceLevel.REVERSIBLE: gettext_lazy("can be undone"),
    ConsequenceLevel.COMPENSABLE: gettext_lazy("can be made good"),
    ConsequenceLevel.IRREVERSIBLE: gettext_lazy("cannot be undone"),
}


class TextForm(forms.Form):
    text = forms.CharField(
        label=gettext_lazy("Manifest"),
        max_length=manifests.texts.MOST,
        widget=forms.Textarea(attrs={"rows": 28, "spellcheck": "false", "class": "mono"}),
        help_text=gettext_lazy(
            "YAML or JSON. What you leave out of the contract is the strictest there is. "
            "Nothing is registered before you have seen what changes."
        ),
    )


class NewTextForm(TextForm):
    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    field_order = ("tenant", "text")

    def __init__(self, *args: Any, tenants: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choose_tenant(self, tenants)


class TermsForm(forms.Form):
    """The terms of a contract that an operator decides, in the words of a sentence."""

    required_approver = forms.ChoiceField(
        label=gettext_lazy("It is signed off by"), choices=list(SIGNERS.items())
    )
    quorum = forms.IntegerField(label=gettext_lazy("How many of them"), min_value=1, max_value=20)
    floor = forms.ChoiceField(
        label=gettext_lazy("Rules may lower that to"), choices=list(FLOORS.items()), required=False
    )
    strength = forms.ChoiceField(label=gettext_lazy("Each of them signs with"), choices=STRENGTHS)
    ttl_s = forms.TypedChoiceField(
        label=gettext_lazy("It waits for them"), coerce=float, choices=list(WAITS.items())
    )
    risk_level = forms.ChoiceField(label=gettext_lazy("Its risk is"), choices=list(RISKS.items()))
    consequence_level = forms.ChoiceField(
        label=gettext_lazy("Its effect"), choices=list(UNDOING.items())
    )
    undo = forms.CharField(
        label=gettext_lazy("How, in a sentence that the manager reads"),
        max_length=300,
        required=False,
    )
    web_only = forms.BooleanField(
        label=gettext_lazy("It is signed on the desk only, not in Slack"), required=False
    )

    def __init__(self, *args: Any, manifest: Manifest, **kwargs: Any) -> None:
        terms = manifest.contract.model_dump(mode="json")
        kwargs["initial"] = {name: terms[name] for name in self.base_fields}
        super().__init__(*args, **kwargs)
        self.manifest = manifest
        waits: Any = self.fields["ttl_s"]
        if terms["ttl_s"] not in WAITS:
            seconds = f"{terms['ttl_s']:g}"
            waits.choices = [(terms["ttl_s"], f"{seconds} s"), *WAITS.items()]

    def text(self) -> str:
        """The manifest with these terms. Raises ``ManifestRefused``."""
        value = self.manifest.as_json()
        contract = {**value["contract"], **self.cleaned_data}
        if contract["ttl_s"] > contract["max_ttl_s"]:
            contract["max_ttl_s"] = contract["ttl_s"]
        return manifests.texts.text_of(manifests.read({**value, "contract": contract}))


class AddressForm(forms.Form):
    """Address of a tool over HTTP, at which its contract is read."""

    tenant = forms.ModelChoiceField(Tenant.objects.none(), label=gettext_lazy("Tenant"))
    address = forms.URLField(
        label=gettext_lazy("Address"),
        max_length=500,
        assume_scheme="https",
        help_text=gettext_lazy("As https://payments.example/assent. Its contract is read there."),
    )
    name = forms.RegexField(
        r"^[a-z][a-z0-9_]{0,99}$",
        label=gettext_lazy("Name of the tool"),
        help_text=gettext_lazy("As the service calls it: refund_invoice."),
        error_messages={"invalid": gettext_lazy("Small letters, digits and _, as refund_invoice.")},
    )
    owner_service = forms.CharField(
        label=gettext_lazy("Service that owns it"),
        max_length=100,
        help_text=gettext_lazy("Its team is told of what goes wrong: payments."),
    )
    credential = forms.SlugField(
        label=gettext_lazy("Secret that it asks for"),
        max_length=63,
        required=False,
        help_text=gettext_lazy("The name of one that is stored here; empty: our signature alone."),
    )

    def __init__(self, *args: Any, tenants: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choose_tenant(self, tenants)
