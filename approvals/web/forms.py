"""The forms of the desk."""

from __future__ import annotations

from typing import Any

from django import forms
from django.db.models import TextChoices
from django.utils.functional import Promise
from django.utils.translation import gettext as _, gettext_lazy

from a2a.models import Skill
from a2a.states import TaskState
from approvals.desk import ANSWERERS
from approvals.desk.inbox import Filters
from approvals.desk.policies import OUTCOMES
from ledger.contracts import RiskLevel
from ledger.models import ReviewVerdict
from ledger.states import State

HOUR, DAY = 3600, 86_400
# Seconds that people choose among for a task.
SPANS = (HOUR // 4, HOUR, 4 * HOUR, DAY, 3 * DAY, 7 * DAY, 14 * DAY, 30 * DAY)

RISKS: list[tuple[str, str | Promise]] = [
    (RiskLevel.LOW.value, gettext_lazy("Low risk")),
    (RiskLevel.MEDIUM.value, gettext_lazy("Medium risk")),
    (RiskLevel.HIGH.value, gettext_lazy("High risk")),
    (RiskLevel.CRITICAL.value, gettext_lazy("Critical risk")),
]


def in_words_of(states: type[TextChoices]) -> list[tuple[str, Promise]]:
    """The choices of states, each in the language of who reads them."""
    return [(state.value, gettext_lazy(str(state.label))) for state in states]


class ReasonField(forms.CharField):
    """Browsers end the lines of a text area with two characters; texts here are kept with one."""

    def to_python(self, value: Any) -> str:
        return (super().to_python(value) or "").replace("\r\n", "\n")


class ApproveForm(forms.Form):
    digest = forms.RegexField(r"^[0-9a-f]{64}$")
    typed = forms.CharField(required=False, max_length=200)
    shown = forms.CharField(required=False, max_length=100)


class RejectForm(forms.Form):
    digest = forms.RegexField(r"^[0-9a-f]{64}$")
    reason = ReasonField(
        max_length=2000, error_messages={"required": gettext_lazy("Say why: the agent reads it.")}
    )


class ResolveForm(forms.Form):
    outcome = forms.ChoiceField(choices=list(OUTCOMES.items()))
    receipt = forms.CharField(required=False, max_length=500)
    reason = ReasonField(
        max_length=2000,
        error_messages={"required": gettext_lazy("Say how you know; it is kept for good.")},
    )


class ReviewForm(forms.Form):
    verdict = forms.ChoiceField(choices=ReviewVerdict.choices)
    reason = ReasonField(required=False, max_length=2000)


class CompensateForm(forms.Form):
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


class FilterForm(forms.Form):
    q = forms.CharField(required=False, max_length=200)
    tool = forms.CharField(required=False, max_length=100)
    risk = forms.ChoiceField(required=False, choices=[("", gettext_lazy("Any risk")), *RISKS])
    agent = forms.CharField(required=False, max_length=150)

    def filters(self) -> Filters:
        """The filters of the request; an invalid one counts as not set."""
        self.is_valid()
        values: dict[str, Any] = self.cleaned_data
        return Filters(**{name: values.get(name) or "" for name in ("q", "tool", "risk", "agent")})


class HistoryForm(FilterForm):
    state = forms.ChoiceField(
        required=False, choices=[("", gettext_lazy("Any outcome")), *in_words_of(State)]
    )
    before = forms.UUIDField(required=False)
    since = forms.DateField(required=False)
    until = forms.DateField(required=False)
