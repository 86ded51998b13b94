"""The rules of one tenant as its pages show and change them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from django.core.exceptions import PermissionDenied
from django.db.models import QuerySet
from django.http import HttpRequest
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _

from approvals.models import Role
from approvals.presentation import in_words
from approvals.presentation.labels import title_of
from approvals.web.requests import roles_of_request
from approvals.web.settings.operators import kept_tenants
from ledger.errors import NotPossible
from ledger.models import RuleSet, Tenant
from ledger.principals import Principal
from ledger.sign_off import groups, rules
from ledger.sign_off.rules import Rule, RulesRefused, sentences
from ledger.tools import contracts_of, tools_of

READERS = frozenset({Role.APPROVER, Role.OPERATOR})


def readable_tenants(request: HttpRequest) -> QuerySet[Tenant]:
    """Those whose rules this person may read. Refuses whoever may read none."""
    roles = roles_of_request(request)
    slugs = [slug for slug, names in roles.items() if names & READERS]
    if not slugs:
        raise PermissionDenied(_("Rules are for managers and operators to read."))
    return Tenant.objects.filter(slug__in=slugs).order_by("name")


@dataclass(frozen=True)
class Rulebook:
    """The active set of a tenant, and its draft if there is one.

    ``shown`` is the one that an edit begins from, and ``seen`` its hash: what is sent with a form
    counts for that one alone.
    """

    tenant: Tenant
    may_edit: bool
    active: RuleSet | None
    draft: RuleSet | None

    @property
    def shown(self) -> RuleSet | None:
        return self.draft or self.active

    @property
    def seen(self) -> str:
        return self.shown.sha256 if self.shown else ""

    @property
    def written(self) -> list[Any]:
        return list(self.shown.rules) if self.shown else []

    @cached_property
    def lowered(self) -> dict[str, bool]:
        """By tool of the tenant, whether its owner lets rules lower what it asks for."""
        contract_of = contracts_of(self.tenant.pk)
        bases = {
            name: rules.base_of_contract(contract)
            for name in sorted(tools_of({self.tenant.pk}))
            if (contract := contract_of(name))
        }
        return {name: base.floor != base.own for name, base in bases.items()}

    def check_seen(self, seen: str) -> None:
        """Raises ``NotPossible`` if a form was made of other rules."""
        if seen != self.seen:
            raise NotPossible(rules.OVERTAKEN)

    def save(self, written: list[Any], *, by: Principal) -> None:
        """Keep these rules as the draft. Raises ``RulesRefused, InvalidRequest, NotPossible``."""
        groups.check_known(self.tenant.pk, rules.read(0, written).rules)
        rules.edit(self.tenant.pk, written, seen=self.draft.sha256 if self.draft else "", by=by)


def readable(request: HttpRequest, tenant: str) -> Rulebook:
    """The rules of a tenant for whoever may read them; ``Http404`` for another tenant's."""
    row = get_object_or_404(readable_tenants(request), pk=tenant)
    may_edit = Role.OPERATOR in roles_of_request(request)[row.pk]
    return Rulebook(row, may_edit, rules.active(row.pk), rules.in_work(row.pk))


def kept(request: HttpRequest, tenant: str) -> Rulebook:
    """The rules of a tenant for its operators; ``Http404`` for another tenant's."""
    get_object_or_404(kept_tenants(request), pk=tenant)
    return readable(request, tenant)


# --- rules as lines -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """A rule of a list. ``effect`` says where a rule that lets pass counts, if not everywhere."""

    number: int
    sentence: str
    note: str
    effect: str = ""
    is_new: bool = False


def rules_in(row: RuleSet | None) -> tuple[Rule, ...]:
    """Its rules; none of a set that cannot be read, which lets nothing pass."""
    try:
        return rules.read(row.number, row.rules).rules if row else ()
    except RulesRefused:
        return ()


def lines_of(
    row: RuleSet | None, lowered: dict[str, bool], beside: RuleSet | None = None
) -> list[Line]:
    """The rules of a set; those that another set has not are new."""
    others = rules_in(beside) if beside else None
    return [
        Line(
            number,
            in_words(sentences.sentence_of(rule)),
            rule.note,
            effect_of(rule, lowered),
            others is not None and rule not in others,
        )
        for number, rule in enumerate(rules_in(row), 1)
    ]


def effect_of(rule: Rule, lowered: dict[str, bool]) -> str:
    """The tools on which a rule that lets pass has no effect, in a sentence; empty for none."""
    if not rule.passes:
        return ""
    named = rule.when.get("tool")
    wanted = [*named.is_] if named and named.is_ else sorted(lowered)
    without = [title_of(name) for name in wanted if not lowered.get(name, False)]
    if not without:
        return ""
    if len(without) == len(wanted):
        return _("No effect: the owner of {tools} lets no rule lower what it asks for.").format(
            tools=", ".join(without)
        )
    return _("No effect on {tools}: the owner lets no rule lower what it asks for.").format(
        tools=", ".join(without)
    )
