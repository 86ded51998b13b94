"""Differences between two sets of rules, and changes of rules and groups for a second operator."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from django.utils.html import format_html, format_html_join
from django.utils.translation import gettext as _

from approvals.presentation import in_words, instant
from approvals.web.record.pending import Difference, Pending, show, strong
from ledger.models import ChangeRequest, RuleSet
from ledger.sign_off import groups, rules
from ledger.sign_off.rules import Rule, RulesRefused, sentences


@dataclass(frozen=True, slots=True)
class RuleChange:
    """A rule that is new, gone, or another one. ``loosens`` if that takes a second operator."""

    number: int
    before: str
    after: str
    loosens: bool

    @property
    def words(self) -> str:
        if not self.before:
            return _("New: {rule}").format(rule=self.after)
        if not self.after:
            return _("No longer: {rule}").format(rule=self.before)
        return _("{rule} (until now: {before})").format(rule=self.after, before=self.before)


def changes_between(before: Sequence[Rule], after: Sequence[Rule]) -> list[RuleChange]:
    """The rules that differ, by their place; what loosens first."""
    loosens = set(rules.loosened(before, after))
    gone = {place: rule for place, rule in enumerate(before, 1) if rule not in after}
    new = {place: rule for place, rule in enumerate(after, 1) if rule not in before}
    changes = [
        RuleChange(
            place,
            _sentence(gone.get(place)),
            _sentence(new.get(place)),
            not loosens.isdisjoint({f"+{place}", f"-{place}"}),
        )
        for place in sorted({*gone, *new})
    ]
    return sorted(changes, key=lambda change: not change.loosens)


def _sentence(rule: Rule | None) -> str:
    return in_words(sentences.sentence_of(rule)) if rule else ""


# --- what waits for a second operator -------------------------------------------------------------


def waiting_rules(request: ChangeRequest) -> Pending:
    """Other rules, each with what it replaces; what loosens is marked."""
    sentence = format_html(
        _("{asker} asks to activate other rules about who signs what."),
        asker=strong(request.asked_by_name),
    )
    try:
        after = rules.read(0, request.after["rules"]).rules
        before = _replaced(request)
    except RulesRefused:
        return Pending(sentence, is_overtaken=True)
    differences = [
        Difference(
            _("Rule {number}").format(number=change.number),
            change.before,
            change.after,
            change.loosens,
            is_sentence=True,
        )
        for change in changes_between(before, after)
    ]
    return Pending(
        sentence,
        differences,
        text=rules.as_yaml(request.after["rules"]),
        is_overtaken=_is_overtaken(request),
    )


def _replaced(request: ChangeRequest) -> Sequence[Rule]:
    """The rules in whose place these would be. Raises ``RulesRefused``."""
    if not request.in_place_of:
        return ()
    rows = RuleSet.objects.filter(tenant=request.tenant, sha256=request.in_place_of)
    row = rows.exclude(number=request.after["number"]).order_by("-number").first()
    if row is None:
        raise RulesRefused("The rules that it replaces are not there.")
    return rules.read(row.number, row.rules).rules


def _is_overtaken(request: ChangeRequest) -> bool:
    draft, active = rules.in_work(request.tenant), rules.active(request.tenant)
    same_draft = draft is not None and draft.rules == request.after["rules"]
    return not same_draft or request.in_place_of != (active.sha256 if active else "")


def waiting_member(request: ChangeRequest) -> Pending:
    """Somebody who would join a group, for how long, and in whose place."""
    after = request.after
    sentence = format_html(
        _("{asker} asks to add {name} to the group {group}."),
        asker=strong(request.asked_by_name),
        name=strong(after["person_name"]),
        group=strong(request.subject.partition("/")[0]),
    )
    notes = [format_html(_("From {time}."), time=_instant(after["starts_at"]))]
    if after["ends_at"]:
        notes += [format_html(_("Until {time}."), time=_instant(after["ends_at"]))]
    else:
        notes += [format_html("{}", _("Without an end."))]
    if after["in_place_of"]:
        notes += [format_html(_("In place of {name}."), name=strong(after["in_place_of_name"]))]
    line = format_html_join(" ", "{}", ((note,) for note in notes))
    return Pending(sentence, notes=[line])


def _instant(text: str) -> str:
    return instant(datetime.fromisoformat(text))


show(rules.KIND, waiting_rules)
show(groups.KIND, waiting_member)
