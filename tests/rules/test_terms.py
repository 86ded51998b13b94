"""Terms are a lattice, and a rule that is added never loosens unless it says so of known facts."""

from __future__ import annotations

import itertools
from decimal import Decimal

import pytest
from hypothesis import given, strategies as st

from ledger.errors import NotAllowed
from ledger.principals import Principal
from ledger.sign_off import groups, rules
from ledger.sign_off.rules import Base, Facts, RulesRefused, Strength, Terms, read
from ledger.sign_off.rules.seats import are_filled, filled_seats

GROUPS = ("approvers", "supervisors", "finance", "legal")
SEATS_AND_WIDENING = st.dictionaries(
    st.sampled_from(GROUPS),
    st.tuples(
        st.integers(1, 3),
        st.dictionaries(st.sampled_from(["approvers", "board"]), st.integers(60, 180)),
    ),
)
TERMS = st.builds(
    lambda seats, **others: Terms(
        seats={group: number for group, (number, _) in seats.items()},
        widen={group: later for group, (_, later) in seats.items() if later},
        **others,
    ),
    seats=SEATS_AND_WIDENING,
    strength=st.sampled_from(Strength),
    desk_only=st.booleans(),
    needs_note=st.booleans(),
    is_denied=st.booleans(),
)
WHEN = st.dictionaries(
    st.sampled_from(["tool", "agent", "amount", "risk", "arguments.country"]), st.none(), max_size=3
).flatmap(
    lambda facts: st.fixed_dictionaries(
        {
            fact: st.fixed_dictionaries({"is": st.just(["refund", "DE", "LOW"])})
            if fact not in {"amount", "risk"}
            else st.sampled_from([{"at_least": "50 EUR"}, {"below": "50 EUR"}])
            if fact == "amount"
            else st.just({"at_least": "MEDIUM"})
            for fact in facts
        }
    )
)
TIGHTENING = st.builds(
    lambda when, seats, note, widen: {
        "when": when,
        "then": {
            "verdict": "ask",
            "seats": seats,
            "note": note,
            **({"widen": {"after_minutes": widen, "to": "board"}} if "finance" in seats else {}),
        },
    },
    WHEN,
    st.dictionaries(st.sampled_from(["approvers", "finance"]), st.integers(1, 3), min_size=1),
    st.booleans(),
    st.integers(1, 3),
)
PASSING = WHEN.filter(bool).map(lambda when: {"when": when, "then": {"verdict": "pass"}})
RULES = st.lists(TIGHTENING | PASSING, max_size=6)
FACTS = st.builds(
    Facts,
    tool=st.sampled_from(["refund", "pay"]),
    agent=st.sampled_from(["DE", "helpdesk"]),
    risk=st.sampled_from(["LOW", "MEDIUM", "HIGH"]),
    consequence=st.sampled_from(["COMPENSABLE", "IRREVERSIBLE"]),
    arguments=st.sampled_from([{}, {"country": "DE"}, {"country": "FR"}]),
    amount=st.sampled_from([None, Decimal(10), Decimal(50)]),
    currency=st.sampled_from(["EUR", "USD"]),
)
BASE = Base(Terms(seats={"approvers": 1}), Terms())


@given(TERMS, TERMS, TERMS)
def test_join_is_associative_commutative_and_idempotent(a, b, c):
    assert a.join(b).join(c) == a.join(b.join(c))
    assert a.join(b) == b.join(a)
    assert a.join(a) == a


@given(TERMS, TERMS)
def test_what_is_joined_is_at_least_as_strict_as_both(a, b):
    assert a.join(b).covers(a)
    assert a.join(b).covers(b)


@given(RULES, TIGHTENING, FACTS)
def test_a_rule_that_asks_never_loosens(rules, added, facts):
    before = read(1, rules).judge(facts, BASE).terms
    after = read(1, [*rules, added]).judge(facts, BASE).terms

    assert after.covers(before)


@given(RULES, PASSING, FACTS)
def test_a_rule_that_lets_pass_goes_to_the_floor_only_where_all_its_facts_are_known(
    rules, added, facts
):
    before = read(1, rules).judge(facts, BASE).terms
    after = read(1, [*rules, added]).judge(facts, BASE).terms

    if not after.covers(before):
        single = read(1, [added])
        assert single.judge(facts, BASE).matched == (1,)
        assert facts.risk != "HIGH"
        assert facts.consequence != "IRREVERSIBLE"
    assert after.covers(BASE.floor)


@given(RULES, FACTS)
def test_the_order_of_rules_does_not_matter(rules, facts):
    there = read(1, rules).judge(facts, BASE).terms
    back = read(1, rules[::-1]).judge(facts, BASE).terms

    assert there == back


@given(TERMS, st.lists(st.sets(st.sampled_from(["finance", "legal"])), max_size=5))
def test_a_voter_more_fills_at_most_one_seat_more(terms, voters):
    filled = [filled_seats(terms, voters[:number]) for number in range(len(voters) + 1)]

    assert all(0 <= after - before <= 1 for before, after in itertools.pairwise(filled))


@pytest.mark.parametrize("country", ["de", " DE", "De"])
def test_what_is_spelled_in_another_way_is_not_known(country):
    facts = Facts("refund", "a", "LOW", "COMPENSABLE", {"country": country})
    when = {"arguments.country": "DE"}

    assert read(1, [{"when": when, "then": "deny"}]).judge(facts, BASE).terms.is_denied
    assert read(1, [{"when": when, "then": "pass"}]).judge(facts, BASE).matched == ()


def test_no_agent_makes_rules_or_groups():
    agent = Principal("agent", "acme/helpdesk", "Helpdesk")

    with pytest.raises(NotAllowed):
        rules.edit("acme", [], seen="", by=agent)
    with pytest.raises(NotAllowed):
        rules.activate("acme", seen="", by=agent, via="api")
    with pytest.raises(NotAllowed):
        groups.make("acme", "finance", by=agent, via="api")


def test_a_person_in_two_groups_fills_one_seat():
    terms = Terms(seats={"finance": 1, "legal": 1})

    assert not are_filled(terms, [{"finance", "legal"}])
    assert are_filled(terms, [{"finance", "legal"}, {"finance"}])
    assert not are_filled(terms, [{"finance"}, {"finance"}])


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ({"then": "pass"}, "names what passes"),
        ({"when": {"tool": "a"}, "then": "maybe"}, "then.verdict"),
        ({"when": {"colour": "red"}, "then": "ask"}, "colour is no fact"),
        ({"when": {"amount": {"below": "50"}}, "then": "ask"}, "no amount with its currency"),
        (
            {"when": {"amount": {"is": "50 EUR"}}, "then": "ask"},
            "an amount is below, at_most or at_least",
        ),
        ({"when": {"risk": {"at_least": "BIG"}}, "then": "ask"}, "risk is one of LOW"),
        ({"when": {"tool": {}}, "then": "ask"}, "tool is compared with nothing"),
        ({"when": {"tool": "a"}, "then": {"verdict": "pass", "note": True}}, "make it two rules"),
        ({"then": {"verdict": "ask", "seats": {"supervisors": 1}}}, "seats are of people"),
        ({"then": {"verdict": "deny", "strength": "typed"}}, "is denied asks for nothing"),
        ({"then": "ask", "order": 3}, "Extra inputs"),
    ],
)
def test_a_rule_that_would_not_mean_what_it_says_is_refused(rule, why):
    with pytest.raises(RulesRefused, match=f"Rule 2: .*{why}"):
        read(1, [{"when": {"tool": "a"}, "then": "deny"}, rule])
