"""The form of a skill: what it does and takes, how its tasks are done, who may give it work."""

from __future__ import annotations

from typing import Any

from django import forms
from django.contrib.postgres.forms import SimpleArrayField
from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _, gettext_lazy

from a2a.models import Skill
from approvals.web.settings.connections.json_fields import KeptJSONField
from approvals.web.settings.connections.spans import SpanField
from approvals.web.settings.saving import saves_changes_only
from ledger.contracts import json_schemas
from ledger.errors import SchemaUnusable
from ledger.models import Agent

SCHEMA = {"rows": 8, "spellcheck": "false", "class": "mono"}
OF_CARD = ("name", "description", "tags", "input_schema", "output_schema")


class SkillForm(forms.ModelForm):  # type: ignore[type-arg]
    agent = forms.ModelChoiceField(
        Agent.objects.none(),
        label=gettext_lazy("Agent that does it"),
        empty_label="",
        help_text=gettext_lazy("Its workers do the tasks, with a token that lets them."),
    )
    name = forms.CharField(label=gettext_lazy("Name"), max_length=200)
    slug = forms.SlugField(
        label=gettext_lazy("Short name"),
        max_length=100,
        help_text=gettext_lazy("By which other agents ask for it; it never changes."),
    )
    description = forms.CharField(
        label=gettext_lazy("What it does"),
        max_length=10_000,
        required=False,
        widget=forms.Textarea(attrs={"rows": 3}),
        help_text=gettext_lazy("Other agents and people read it before they give it work."),
    )
    tags = SimpleArrayField(
        forms.CharField(max_length=50),
        label=gettext_lazy("Tags"),
        required=False,
        help_text=gettext_lazy("With commas between."),
    )
    input_schema = KeptJSONField(
        label=gettext_lazy("What it takes (JSON Schema)"),
        required=False,
        widget=forms.Textarea(attrs=SCHEMA),
    )
    output_schema = KeptJSONField(
        label=gettext_lazy("What it gives back (JSON Schema)"),
        required=False,
        widget=forms.Textarea(attrs=SCHEMA),
    )
    max_concurrency = forms.IntegerField(
        label=gettext_lazy("Open tasks at a time"),
        required=False,
        min_value=0,
        max_value=2_147_483_647,
        help_text=gettext_lazy("The next one is rejected. Empty: no limit."),
    )
    timeout = SpanField(
        label=gettext_lazy("A task lasts at most"),
        help_text=gettext_lazy("From submission to the end, without the waits for people."),
    )
    lease = SpanField(
        label=gettext_lazy("A worker may be silent for"),
        help_text=gettext_lazy("Longer, and the task is taken from it."),
    )
    question_ttl = SpanField(label=gettext_lazy("A question waits for its answer"))
    retention = SpanField(
        label=gettext_lazy("The content of a task is kept for"),
        required=False,
        help_text=gettext_lazy("Empty: as long as this installation keeps them."),
    )
    is_retry_safe = forms.BooleanField(
        label=gettext_lazy("Another worker may begin again when one falls silent"), required=False
    )
    max_attempts = forms.IntegerField(
        label=gettext_lazy("How often it is begun at most"),
        min_value=0,
        max_value=32_767,
        initial=3,
    )
    required_scope = forms.CharField(
        label=gettext_lazy("Scope that a request has to carry"),
        max_length=50,
        required=False,
        help_text=gettext_lazy("As transcripts:read. Empty: none in particular."),
    )
    open_to = SimpleArrayField(
        forms.SlugField(max_length=63),
        label=gettext_lazy("Other tenants that may give it work"),
        required=False,
        help_text=gettext_lazy("Their short names with commas between. They need an envelope."),
    )
    requires_envelope = forms.BooleanField(
        label=gettext_lazy("Its own tenant needs a whole envelope, too"), required=False
    )
    is_active = forms.BooleanField(
        label=gettext_lazy("It takes new tasks"), required=False, initial=True
    )

    class Meta:
        model = Skill
        fields = (
            "agent",
            *OF_CARD,
            "slug",
            "max_concurrency",
            "timeout",
            "lease",
            "question_ttl",
            "retention",
            "is_retry_safe",
            "max_attempts",
            "required_scope",
            "open_to",
            "requires_envelope",
            "is_active",
        )

    def __init__(self, *args: Any, agents: Any = None, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk is None:
            agent: Any = self.fields["agent"]
            agent.queryset = agents
            return
        of_card = OF_CARD if is_of_card(self.instance) else ()
        for name in ("agent", "slug", *of_card):
            del self.fields[name]
        saves_changes_only(self)

    @property
    def what(self) -> list[Any]:
        return self._those("agent", "name", "slug", "description", "tags")

    @property
    def schemas(self) -> list[Any]:
        return self._those("input_schema", "output_schema")

    @property
    def work(self) -> list[Any]:
        return self._those(
            "max_concurrency",
            "timeout",
            "lease",
            "question_ttl",
            "is_retry_safe",
            "max_attempts",
            "retention",
        )

    @property
    def askers(self) -> list[Any]:
        return self._those("required_scope", "open_to", "requires_envelope")

    def _those(self, *names: str) -> list[Any]:
        return [self[name] for name in names if name in self.fields]

    def clean_input_schema(self) -> Any:
        return self._usable("input_schema")

    def clean_output_schema(self) -> Any:
        return self._usable("output_schema")

    def _usable(self, name: str) -> Any:
        schema = self.cleaned_data[name] or {}
        try:
            json_schemas.check(schema)
        except SchemaUnusable as refusal:
            raise ValidationError(refusal.detail) from refusal
        return schema

    def clean(self) -> Any:
        fields = super().clean() or self.cleaned_data
        agent, slug = fields.get("agent"), fields.get("slug")
        if agent and slug and Skill.objects.filter(tenant=agent.tenant_id, slug=slug).exists():
            self.add_error("slug", _("There is such a skill already: choose another name."))
        return fields


def is_of_card(skill: Skill) -> bool:
    """True where the card of a remote agent says what the skill is."""
    return hasattr(skill.agent, "remote")
