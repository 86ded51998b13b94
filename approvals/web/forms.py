"""The forms of the desk."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

from django import forms
from django.contrib.auth.models import User
from django.db.models import TextChoices
from django.utils.functional import Promise
from django.utils.translation import gettext as _, gettext_lazy

from a2a.models import Skill
from a2a.states import TaskState
from approvals.desk import ANSWERERS
from approvals.desk.inbox import Filters
from approvals.desk.policies import OUTCOMES
from approvals.people import accounts
from ledger.contracts import RiskLevel
from ledger.foundation.characters import lookalikes, unsafe_in
from ledger.models import ReviewVerdict
from ledger.reporting.usage import KINDS
from ledger.sign_off.rules import Strength
from ledger.states import Outcome, State

HOUR, DAY = 3600, 86_400
# Seconds that people choose among for a task.
SPANS = (HOUR // 4, HOUR, 4 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 30 * DAY)

RISKS: list[tuple[str, str | Promise]] = [
    (RiskLevel.LOW.value, gettext_lazy("Low risk")),
    (RiskLevel.MEDIUM.value, gettext_lazy("Medium risk")),
    (RiskLevel.HIGH.value, gettext_lazy("High risk")),
    (RiskLevel.CRITICAL.value, gettext_lazy("Critical risk")),
]

STRENGTHS: list[tuple[str, str | Promise]] = [
    (Strength.CLICK.value, gettext_lazy("a click")),
    (Strength.TYPED.value, gettext_lazy("the amount, or the name, typed")),
    (Strength.PASSKEY.value, gettext_lazy("a passkey")),
]


def in_words_of(states: type[TextChoices]) -> list[tuple[str, Promise]]:
    """The choices of states, each in the language of who reads them."""
    return [(state.value, gettext_lazy(str(state.label))) for state in states]


class ReasonField(forms.CharField):
    """Browsers end the lines of a text area with two characters; texts here are kept with one."""

    def to_python(self, value: Any) -> str:
        return (super().to_python(value) or "").replace("\r\n", "\n")


def amount_field(label: Any, least: Decimal | int = 0) -> forms.DecimalField:
    return forms.DecimalField(
        label=label,
        required=False,
        min_value=least,
        max_digits=18,
        decimal_places=4,
        localize=True,
        widget=forms.TextInput(attrs={"inputmode": "decimal", "size": 10, "autocomplete": "off"}),
    )


class SignedForm(forms.Form):
    """The fields of what may be signed with a passkey: the browser's answer, if it was."""

    credential = forms.CharField(required=False, max_length=8_000)
    nonce = forms.CharField(required=False, max_length=500)


class ApproveForm(SignedForm):
    digest = forms.RegexField(r"^[0-9a-f]{64}$")
    typed = forms.CharField(required=False, max_length=200)
    shown = forms.CharField(required=False, max_length=100)
    opened = forms.BooleanField(required=False)
    reason = ReasonField(required=False, max_length=2000)


class SignForm(forms.Form):
    """Without an outcome it is an approval that is signed."""

    shown = forms.CharField(required=False, max_length=100)
    opened = forms.BooleanField(required=False)
    outcome = forms.ChoiceField(required=False, choices=Outcome.choices)
    receipt = forms.CharField(required=False, max_length=500)


class RejectForm(forms.Form):
    digest = forms.RegexField(r"^[0-9a-f]{64}$")
    reason = ReasonField(
        max_length=2000, error_messages={"required": gettext_lazy("Say why: the agent reads it.")}
    )


class SendBackForm(forms.Form):
    digest = forms.RegexField(r"^[0-9a-f]{64}$")
    reason = ReasonField(
        max_length=2000,
        error_messages={
            "required": gettext_lazy("Say what to propose instead: the agent reads it.")
        },
    )


class ChangeForm(forms.Form):
    """Fields beside those of the tool's own arguments."""

    digest = forms.RegexField(r"^[0-9a-f]{64}$")
    shown = forms.CharField(required=False, max_length=100)
    reason = ReasonField(required=False, max_length=2000)


class SayForm(forms.Form):
    text = ReasonField(
        max_length=2000,
        error_messages={"required": gettext_lazy("Say something: the text is empty.")},
    )


class MoreTimeForm(forms.Form):
    until = forms.DateTimeField()


class ResolveForm(SignedForm):
    outcome = forms.ChoiceField(choices=list(OUTCOMES.items()))
    receipt = forms.CharField(required=False, max_length=500)
    reason = ReasonField(
        max_length=2000,
        error_messages={"required": gettext_lazy("Say how you know; it is kept for good.")},
    )


class ReviewForm(forms.Form):
    verdict = forms.ChoiceField(choices=ReviewVerdict.choices)
    reason = ReasonField(required=False, max_length=2000)


class CompensateForm(SignedForm):
    reason = ReasonField(
        max_length=2000, error_messages={"required": gettext_lazy("Say why; it is kept for good.")}
    )


class CancelTaskForm(forms.Form):
    reason = ReasonField(
        max_length=2000,
        error_messages={"required": gettext_lazy("Say why: the agent that asked reads it.")},
    )


class GiveForm(forms.Form):
    """Fields beside the skill's own input. ``lasts`` is in seconds."""

    key = forms.UUIDField()
    change = ReasonField(required=False, max_length=10_000)
    lasts = forms.TypedChoiceField(required=False, coerce=int, empty_value=None)
    may_answer = forms.MultipleChoiceField(
        choices=[(name, name) for name in ANSWERERS],
        error_messages={"required": gettext_lazy("Somebody has to be able to answer.")},
    )

    def __init__(self, skill: Skill, *, is_revision: bool, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        limit = skill.timeout.total_seconds()
        # The type of the field is not that of its declaration, because Django builds it anew.
        lasts: Any = self.fields["lasts"]
        lasts.choices = [("", ""), *((seconds, "") for seconds in SPANS if seconds < limit)]
        if is_revision:
            self.fields["change"].required = True
            self.fields["change"].error_messages["required"] = _("Say what should change.")


class TaskListForm(forms.Form):
    state = forms.ChoiceField(
        required=False, choices=[("", gettext_lazy("Any state")), *in_words_of(TaskState)]
    )
    skill = forms.SlugField(required=False, max_length=100)
    trace = forms.RegexField(r"^[^\x00]{1,128}$", required=False)
    before = forms.UUIDField(required=False)


TERMS = ("tool", "risk", "agent")
TERM = re.compile(rf"(?<!\S)(?P<name>{'|'.join(TERMS)}):(?P<value>\S+)", re.IGNORECASE)


class FilterForm(forms.Form):
    q = forms.CharField(required=False, max_length=200)
    tool = forms.CharField(required=False, max_length=100)
    risk = forms.ChoiceField(required=False, choices=[("", gettext_lazy("Any risk")), *RISKS])
    agent = forms.CharField(required=False, max_length=150)
    aside = forms.CharField(required=False, max_length=1)

    def filters(self) -> Filters:
        """The filters of the request; an invalid one counts as not set.

        ``tool:``, ``risk:`` and ``agent:`` in the search are filters, too.
        """
        self.is_valid()
        values = {name: self.cleaned_data.get(name) or "" for name in ("q", "aside", *TERMS)}
        for term in TERM.finditer(values["q"]):
            name, value = term["name"].lower(), term["value"]
            values[name] = values[name] or (value.upper() if name == "risk" else value)
        return Filters(**{**values, "q": TERM.sub("", values["q"]).strip()})


def without_term(q: str, name: str) -> str:
    """The search without the filter that stands in it as ``name:value``."""
    return TERM.sub(lambda term: "" if term["name"].lower() == name else term[0], q).strip()


ENDED = "ended"
ANY = "any"  # outcome, also none yet
DAYS = (1, 7, 30)


class HistoryForm(FilterForm):
    state = forms.ChoiceField(
        required=False,
        choices=[
            ("", gettext_lazy("Decided")),
            (ENDED, gettext_lazy("Ended")),
            (ANY, gettext_lazy("What waits, too")),
            *in_words_of(State),
        ],
    )
    before = forms.UUIDField(required=False)
    since = forms.DateField(required=False)
    until = forms.DateField(required=False)
    # The last so many days, today included; where no day is named.
    days = forms.TypedChoiceField(
        required=False, coerce=int, empty_value=None, choices=[(days, "") for days in DAYS]
    )
    decided_since = forms.DateTimeField(required=False)
    # Only of what was decided since a moment: by itself it would be searched for without end.
    decided = forms.ChoiceField(required=False, choices=[(str(kind), "") for kind in KINDS])


class ProfileForm(forms.ModelForm):  # type: ignore[type-arg]
    class Meta:
        model = User
        fields = ("first_name", "last_name")
        labels = {
            "first_name": gettext_lazy("First name"),
            "last_name": gettext_lazy("Last name"),
        }

    def clean(self) -> dict[str, Any]:
        """Refuse the name of a colleague: people know by name who signed off."""
        cleaned: dict[str, Any] = super().clean() or {}
        name = " ".join(filter(None, (cleaned.get("first_name"), cleaned.get("last_name"))))
        if name and accounts.is_name_of_another(self.instance, name):
            raise forms.ValidationError(_("Somebody else here has this name."))
        if unsafe_in(name) or lookalikes([name]):
            raise forms.ValidationError(_("This name could be read as another one."))
        return cleaned
