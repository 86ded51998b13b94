"""Participants of a storm: a tenant, approvers, an operator, agents with a webhook each.

``make`` runs in a process of the product (``manage.py shell``) and prints what the driver needs.
"""

from __future__ import annotations

import json
import os
from typing import Any

from bench.chaos.installation import AGENTS, PEOPLE


def make() -> None:
    """Make them, and print tokens and principals as one line of JSON."""
    from ledger.agents import enrolment
    from ledger.events import account_changes
    from ledger.models import Scope
    from ledger.principals import Surface

    by: dict[str, Any] = {"by": account_changes.command_principal(), "via": Surface.COMMAND}
    storm = enrolment.tenant_named("storm", "Storm", **by)
    enrolment.allow_tools(storm, ["*"], **by)
    tokens = {}
    for slug in AGENTS:
        agent = enrolment.agent_named(storm, slug, **by)
        agent.webhook_url = os.environ["CHAOS_WEBHOOKS"]
        agent.save(update_fields=["webhook_url"])
        enrolment.renew_secret(agent, **by)
        scopes = [Scope.PROPOSE.value, Scope.SUBMIT.value]
        tokens[slug] = enrolment.issue(agent, scopes=scopes, **by)[1]
    supervisor = enrolment.agent_named(storm, "supervisor", **by)
    scopes = [Scope.DECIDE.value, Scope.READ_ALL.value]
    tokens["supervisor"] = enrolment.issue(supervisor, scopes=scopes, **by)[1]
    print(json.dumps({"tokens": tokens, "people": _make_people(by)}))


def _make_people(by: dict[str, Any]) -> dict[str, dict[str, str]]:
    """By user name, the principal and the session of somebody who has signed in."""
    from django.conf import settings
    from django.contrib.auth.models import User
    from django.test import Client

    from approvals.people import accounts, principal_of

    people = {}
    for name, role in PEOPLE.items():
        user, _ = User.objects.get_or_create(username=name, defaults={"first_name": name.title()})
        accounts.opened(user, **by)
        accounts.give_role(user, "storm", role, **by)
        client = Client()
        client.force_login(user)
        session = client.cookies[settings.SESSION_COOKIE_NAME].value
        people[name] = {"principal": str(principal_of(user)), "session": session}
    return people
