"""The form of one rule, which reads as a sentence, and that of all rules as text."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from django import forms
from django.utils.translation import gettext as _, gettext_lazy

from approvals.presentation import in_words, refusal_in_words
from approvals.presentation.labels import risk_words, title_of
from approvals.web.forms import STRENGTHS, amount_field
from approvals.web.settings.rules.rulebook import Rulebook
from ledger.contracts import CURRENCIES, RiskLevel
from ledger.errors import LedgerError
from ledger.models import Agent, Group
from ledger.sign_off import groups, rules
from ledger.sign_off.rules import APPROVERS, MOST_SEATS, RulesRefused, Strength, sentences
from ledger.tools import contracts_of

ARGUMENT = "arguments."
SEATS = "seats_"  # begins the names of the fields of groups
LISTS = {"is", "is_not"}
LIMITS = [
    ("below", gettext_lazy("is below")),
    ("at_most", gettext_lazy("is at most")),
    ("at_least", gettext_lazy("is at least")),
]
PERS = [
    ("day", gettext_lazy("a day")),
    ("month", gettext_lazy("a month")),
    ("total", gettext_lazy("in all")),
]
TIMES = (15, 30, 60, 120, 240, 480, 1440)  # minutes
VERDICTS = [
    ("pass", gettext_lazy("nobody has to sign")),
    ("ask", gettext_lazy("these have to sign:")),
    ("deny", gettext_lazy("it is denied")),
]


def _currency() -> forms.CharField:
    return forms.CharField(
        label=gettext_lazy("Currency"),
        required=False,
        max_length=3,
        initial="EUR",
        widget=forms.TextInput(
            attrs={"size": 4, "autocomplete": "off", "autocapitalize": "characters"}
        ),
    )


class RuleForm(forms.Form):
    """One rule. ``written`` is the rule once the form is valid."""

    tool = forms.ChoiceField(label=gettext_lazy("the tool is"), required=False)
    agent = forms.ChoiceField(label=gettext_lazy("the agent is"), required=False)
    amount_is = forms.ChoiceField(
        label=gettext_lazy("the amount"),
        required=False,
        choices=[("", gettext_lazy("is any")), *LIMITS],
    )
    amount = amount_field(gettext_lazy("Amount"))
    currency = _currency()
    risk = forms.ChoiceField(label=gettext_lazy("the risk is"), required=False)
    argument = forms.CharField(
        label=gettext_lazy("the argument"),
        required=False,
        max_length=190,
        widget=forms.TextInput(attrs={"size": 14, "autocomplete": "off", "spellcheck": "false"}),
    )
    argument_is = forms.ChoiceField(
        label=gettext_lazy("Comparison"),
        required=False,
        choices=[("is", gettext_lazy("is")), ("is_not", gettext_lazy("is not")), *LIMITS],
    )
    value = forms.CharField(
        label=gettext_lazy("Value"),
        required=False,
        max_length=2000,
        widget=forms.TextInput(attrs={"size": 14, "autocomplete": "off", "spellcheck": "false"}),
    )
    verdict = forms.ChoiceField(
        label=gettext_lazy("Then"),
        choices=VERDICTS,
        initial="ask",
        widget=forms.RadioSelect,
        error_messages={"required": gettext_lazy("Choose what follows.")},
    )
    sum_most = amount_field(gettext_lazy("up to"), least=Decimal("0.0001"))
    sum_currency = _currency()
    sum_per = forms.ChoiceField(label=gettext_lazy("In which time"), choices=PERS, required=False)
    times_most = forms.IntegerField(
        label=gettext_lazy("and so many times"),
        required=False,
        min_value=1,
        widget=forms.TextInput(attrs={"inputmode": "numeric", "size": 10, "autocomplete": "off"}),
    )
    times_per = forms.ChoiceField(label=gettext_lazy("In which time"), choices=PERS, required=False)
    people = forms.IntegerField(
        label=gettext_lazy("managers in all"),
        required=False,
        initial=1,
        min_value=1,
        max_value=MOST_SEATS,
    )
    widen_after = forms.TypedChoiceField(
        label=gettext_lazy("while it waits"), required=False, coerce=int, empty_value=None
    )
    widen_to = forms.ChoiceField(label=gettext_lazy("Who may sign too"), required=False)
    strength = forms.ChoiceField(
        label=gettext_lazy("each signs with"), choices=STRENGTHS, required=False
    )
    note = forms.BooleanField(label=gettext_lazy("each writes a note"), required=False)
    one_by_one = forms.BooleanField(label=gettext_lazy("not together with others"), required=False)
    desk_only = forms.BooleanField(
        label=gettext_lazy("at the desk only, not in Slack"), required=False
    )
    why = forms.CharField(
        label=gettext_lazy("Why there is this rule (colleagues read it)"),
        required=False,
        max_length=300,
    )

    def __init__(self, *args: Any, book: Rulebook, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.book = book
        self.written: dict[str, Any] = {}
        fields: Any = self.fields
        fields["tool"].choices = [("", _("any tool")), *self._tools()]
        fields["agent"].choices = [("", _("any agent")), *self._agents()]
        risks = [str(level) for level in RiskLevel][1:]
        fields["risk"].choices = [
            ("", _("any")),
            *((level, _("at least {risk}").format(risk=risk_words(level))) for level in risks),
        ]
        names = [*Group.objects.filter(tenant=book.tenant.pk).values_list("name", flat=True)]
        fields["widen_after"].choices = [("", _("nobody else may sign")), *self._times()]
        fields["widen_to"].choices = [
            (APPROVERS, _("any manager may sign too")),
            *(
                (name, _("somebody of {group} may sign too").format(group=name))
                for name in sorted(names)
            ),
        ]
        for name in sorted(names):
            fields[SEATS + name] = forms.IntegerField(
                label=name, required=False, min_value=1, max_value=MOST_SEATS
            )

    @property
    def of_groups(self) -> list[Any]:
        """The fields with the seats of each group."""
        return [self[name] for name in self.fields if name.startswith(SEATS)]

    @property
    def ways(self) -> list[Any]:
        """The fields of how each of them signs."""
        return [self[name] for name in ("note", "one_by_one", "desk_only")]

    def _tools(self) -> list[Any]:
        """Those that rules may let pass stand apart: of the others, a rule only asks for more."""
        lowered = dict(self.book.lowered)
        if named := self.initial.get("tool"):
            lowered.setdefault(named, False)
        parts = [
            (_("Rules may let these pass"), True),
            (_("Their owners let no rule lower what they ask for"), False),
        ]
        offered = [
            (
                label,
                [
                    (name, title_of(name))
                    for name, is_lowered in lowered.items()
                    if is_lowered is kind
                ],
            )
            for label, kind in parts
        ]
        return [(label, choices) for label, choices in offered if choices]

    def _times(self) -> list[tuple[int, str]]:
        minutes = {*TIMES, *([given] if (given := self.initial.get("widen_after")) else [])}
        return [
            (each, _("after {time}").format(time=in_words(sentences.length(each * 60))))
            for each in sorted(minutes)
        ]

    def _agents(self) -> list[tuple[str, str]]:
        rows = Agent.objects.filter(tenant=self.book.tenant).order_by("name")
        named = dict(rows.values_list("slug", "name"))
        if present := self.initial.get("agent"):
            named.setdefault(present, present)
        return list(named.items())

    def clean_currency(self) -> str:
        return str(self.cleaned_data["currency"]).upper()

    def clean_sum_currency(self) -> str:
        return str(self.cleaned_data["sum_currency"]).upper()

    def clean(self) -> dict[str, Any]:
        given: dict[str, Any] = super().clean() or {}
        if self.errors:
            return given
        self._check_halves(given)
        if not self.errors:
            self.written = written_of(given)
            self._check()
        return given

    def _check_halves(self, given: Mapping[str, Any]) -> None:
        """Refuse a condition said by half: it would mean something else than it seems to."""
        has_amount = given.get("amount") is not None
        if given.get("amount_is") and not has_amount:
            self.add_error("amount", _("Say which amount."))
        if has_amount and not given.get("amount_is"):
            self.add_error("amount", _("Say whether it is below this, or at least this."))
        has_sum = given.get("sum_most") is not None
        if has_sum and given.get("sum_currency") not in CURRENCIES:
            self.add_error("sum_most", _("Give the currency as three letters, like EUR."))
        if given.get("amount_is") and given.get("currency") not in CURRENCIES:
            self.add_error("amount", _("Give the currency as three letters, like EUR."))
        if bool(given.get("argument")) != bool(given.get("value")):
            self.add_error("argument", _("Name the argument and its value, or neither."))

    def _check(self) -> None:
        if self.written["then"]["verdict"] == "pass" and not self.written.get("when"):
            self.add_error(None, _("Say what passes: a rule cannot let everything pass."))
            return
        try:
            rules.read(0, [self.written])
        except RulesRefused as refusal:
            self.add_error(None, refusal_in_words(refusal))


def written_of(given: Mapping[str, Any]) -> dict[str, Any]:
    """The rule that these fields say."""
    when: dict[str, Any] = {}
    if given["tool"]:
        when["tool"] = {"is": [given["tool"]]}
    if given["agent"]:
        when["agent"] = {"is": [given["agent"]]}
    if given["amount_is"]:
        when["amount"] = {given["amount_is"]: f"{given['amount']:f} {given['currency']}"}
    if given["risk"]:
        when["risk"] = {"at_least": given["risk"]}
    if given["argument"]:
        when[ARGUMENT + given["argument"]] = {given["argument_is"]: _value_of(given)}
    further = {"ask": _asked, "pass": _budgeted}.get(given["verdict"])
    then = {"verdict": given["verdict"], **(further(given) if further else {})}
    return {
        **({"when": when} if when else {}),
        "then": then,
        **({"note": given["why"]} if given["why"] else {}),
    }


def _value_of(given: Mapping[str, Any]) -> Any:
    if given["argument_is"] not in LISTS:
        return given["value"]
    return [part.strip() for part in given["value"].split(",") if part.strip()]


def _asked(given: Mapping[str, Any]) -> dict[str, Any]:
    seats = {
        name.removeprefix(SEATS): number
        for name, number in given.items()
        if name.startswith(SEATS) and number
    }
    if given["people"]:
        seats[APPROVERS] = given["people"]
    strength = given["strength"]
    widen = {"after_minutes": given["widen_after"], "to": given["widen_to"]}
    return {
        **({"seats": seats} if seats else {}),
        **({"widen": widen} if given["widen_after"] else {}),
        **({} if strength in {"", Strength.CLICK} else {"strength": strength}),
        **({"desk_only": True} if given["desk_only"] else {}),
        **({"note": True} if given["note"] else {}),
        **({"one_by_one": True} if given["one_by_one"] else {}),
    }


def _budgeted(given: Mapping[str, Any]) -> dict[str, Any]:
    """As rules are kept: without the time of a budget of a day, which is its default."""
    budgets = []
    if given["sum_most"] is not None:
        most = f"{given['sum_most']:f} {given['sum_currency']}"
        budgets.append({"most": most, "per": given["sum_per"] or "day"})
    if given["times_most"]:
        budgets.append({"most": str(given["times_most"]), "per": given["times_per"] or "day"})
    kept = [rules.Budget(**each).model_dump(mode="json", exclude_defaults=True) for each in budgets]
    return {"budgets": kept} if kept else {}


def fields_of(written: Any) -> dict[str, Any] | None:
    """The fields that say this rule; ``None`` for one that the form cannot show in full."""
    try:
        [read] = rules.read(0, [written]).rules
    except RulesRefused:
        return None
    fields = _fields_of(read.as_json())
    is_whole = fields is not None and written_of(fields) == read.as_json()
    return fields if is_whole else None


def _fields_of(rule: Mapping[str, Any]) -> dict[str, Any] | None:
    """Of a rule with several values in one place, the fields have the first."""
    when, then = rule.get("when", {}), rule["then"]
    amount_is, money = next(iter(when.get("amount", {}).items()), ("", "0 EUR"))
    number, currency = money.split()[:2]
    arguments = [fact for fact in when if fact.startswith(ARGUMENT)]
    compared = when[arguments[0]] if arguments else {"is": ""}
    argument_is, value = next(iter(compared.items()))
    seats, widen = dict(then.get("seats", {})), then.get("widen", {})
    budgets = {" " in each["most"]: each for each in reversed(then.get("budgets", []))}
    total, times = budgets.get(True, {}), budgets.get(False, {})
    total_number, total_currency = total.get("most", f" {currency}").split(" ")
    return {
        "tool": (when.get("tool", {}).get("is") or [""])[0],
        "agent": (when.get("agent", {}).get("is") or [""])[0],
        "amount_is": amount_is,
        "amount": Decimal(number) if amount_is else None,
        "currency": currency,
        "risk": when.get("risk", {}).get("at_least", ""),
        "argument": arguments[0].removeprefix(ARGUMENT) if arguments else "",
        "argument_is": argument_is,
        "value": ", ".join(value) if isinstance(value, list) else value,
        "verdict": then["verdict"],
        "sum_most": Decimal(total_number) if total_number else None,
        "sum_currency": total_currency,
        "sum_per": total.get("per", "day"),
        "times_most": times.get("most"),
        "times_per": times.get("per", "day"),
        "people": seats.pop(APPROVERS, None),
        **{SEATS + name: number for name, number in seats.items()},
        "widen_after": widen.get("after_minutes", ""),
        "widen_to": widen.get("to", APPROVERS),
        "strength": then.get("strength", Strength.CLICK.value),
        "note": then.get("note", False),
        "one_by_one": then.get("one_by_one", False),
        "desk_only": then.get("desk_only", False),
        "why": rule.get("note", ""),
    }


class TextForm(forms.Form):
    """All rules as YAML. ``written`` are the rules once the form is valid."""

    text = forms.CharField(
        label=gettext_lazy("Rules, as YAML"),
        max_length=rules.MOST_CHARACTERS,
        strip=False,
        widget=forms.Textarea(attrs={"rows": 24, "spellcheck": "false", "class": "code"}),
    )

    def __init__(self, *args: Any, book: Rulebook, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.book = book
        self.written: list[Any] = []

    def clean_text(self) -> str:
        given, tenant = self.cleaned_data["text"], self.book.tenant.pk
        try:
            written, cases = rules.from_yaml(given)
            groups.check_known(tenant, rules.read(0, written).rules)
            failing = [*rules.failing_cases(written, cases, contracts_of(tenant))]
        except LedgerError as refusal:
            raise forms.ValidationError(refusal_in_words(refusal)) from None
        if failing:
            raise forms.ValidationError(failing[:10])
        self.written = written
        return str(given)
