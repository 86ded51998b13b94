"""Connections: begun at the consent page, ended by their person or when something is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from django.contrib.auth.models import User
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django.db.transaction import atomic
from django.utils.text import slugify
from oauth2_provider.settings import oauth2_settings

from approvals.http.middleware import roles_of
from approvals.oauth.changes import SignInChange
from approvals.oauth.issuer_tables import UsedAssertion
from approvals.oauth.models import AccessToken, Client, Code, Connection, RefreshToken
from approvals.people import name_of, principal_of
from ledger.agents import enrolment
from ledger.events import edits_between
from ledger.foundation.characters import cleaned, one_line
from ledger.models import Agent, AgentToken, Tenant
from ledger.principals import Principal, Surface, system

TOKEN_ENDPOINT = system("token_endpoint", "The token endpoint")
# A program that came by itself and with which nobody has signed in.
UNUSED_FOR = timedelta(days=1)
BATCH = 500
LONGEST_SLUG = 63


@dataclass(frozen=True)
class Choice:
    """An agent that a person may connect: one of theirs, or one that would be made."""

    key: str
    name: str
    tenant: Tenant
    agent: Agent | None = None


def choices_of(person: User, client: Client) -> list[Choice]:
    """The agents that the person may connect as; those of this client first."""
    tenants = Tenant.objects.in_bulk(list(roles_of(person)))
    kept = Agent.objects.filter(
        kept_by=str(principal_of(person)), is_active=True, tenant__in=tenants
    ).select_related("tenant")
    connected = _last_connected(person, client)
    own = [Choice(f"agent:{row.pk}", row.name, row.tenant, row) for row in kept.order_by("name")]
    own.sort(key=lambda choice: choice.agent is not None and choice.agent.pk != connected)
    made = [
        Choice(f"new:{tenant.slug}", _name_of_new(person, client), tenant)
        for tenant in tenants.values()
        if tenant.own_agent_tools and not _has_made(kept, person, client, tenant)
    ]
    return [*own, *made]


def _last_connected(person: User, client: Client) -> int | None:
    earlier = Connection.objects.filter(person=person, client=client)
    return earlier.order_by("-pk").values_list("agent", flat=True).first()


def _has_made(kept: QuerySet[Agent], person: User, client: Client, tenant: Tenant) -> bool:
    return kept.filter(tenant=tenant, name=_name_of_new(person, client)).exists()


def _name_of_new(person: User, client: Client) -> str:
    """Whatever the program calls itself, whose agent it is stays visible."""
    return one_line(cleaned(f"{str(client)[:100]} of {name_of(person)}"))[:200]


def connect(
    person: User, client: Client, choice: Choice, *, scopes: list[str], redirect_to: str
) -> Connection:
    """Have the client act as the chosen agent, which is made if it is not there yet."""
    by, via = principal_of(person), Surface.WEB
    with atomic():
        agent = choice.agent or _make_agent(person, client, choice.tenant)
        row = Connection.objects.create(
            person=person, agent=agent, client=client, scopes=scopes, redirect_to=redirect_to[:300]
        )
        _record(row, SignInChange.AGENT_CONNECTED, by, via)
    return row


def _make_agent(person: User, client: Client, tenant: Tenant) -> Agent:
    by, via = principal_of(person), Surface.WEB
    # Two people at one moment are given two names, and two agents.
    Tenant.objects.select_for_update(no_key=True).get(pk=tenant.pk)
    wanted = {"kept_by": str(by), "tools": list(tenant.own_agent_tools)}
    agent = enrolment.agent_named(
        tenant, _free_slug(tenant, person, client), _name_of_new(person, client), by=by, via=via
    )
    edits = edits_between({name: getattr(agent, name) for name in wanted}, wanted)
    agent.kept_by, agent.tools = str(by), list(tenant.own_agent_tools)
    agent.save(update_fields=list(wanted))
    enrolment.was_changed(agent, edits, by=by, via=via)
    return agent


def _free_slug(tenant: Tenant, person: User, client: Client) -> str:
    """A slug that no agent of the tenant has: what it says was another's is not taken over."""
    wanted = slugify(f"{client}-{person.username}")[: LONGEST_SLUG - 4].strip("-") or "agent"
    taken = set(
        Agent.objects.filter(tenant=tenant, slug__startswith=wanted).values_list("slug", flat=True)
    )
    numbers = (f"{wanted}-{number}" for number in range(2, len(taken) + 3))
    return next(slug for slug in (wanted, *numbers) if slug not in taken)


def end(
    rows: QuerySet[Connection], *, by: Principal, via: Surface, reason: str = ""
) -> list[Connection]:
    """End these connections: from the next request on their tokens open nothing."""
    with atomic():
        # With no_key: a refresh holds its token, and then refers to the row.
        standing = rows.filter(ended_at=None)
        ended = list(standing.select_for_update(no_key=True, of=("self",)))
        for row in ended:
            Connection.objects.filter(pk=row.pk).update(ended_at=Now())
            Code.objects.filter(connection=row).delete()
            RefreshToken.objects.filter(connection=row, revoked=None).update(revoked=Now())
            AccessToken.objects.filter(connection=row).delete()
            _record(row, SignInChange.AGENT_DISCONNECTED, by, via, reason)
    return ended


def end_client(client: Client, *, by: Principal, via: Surface) -> None:
    """End all that it was given."""
    end(client.connections.all(), by=by, via=via, reason="The program was switched off.")
    AccessToken.objects.filter(application=client).delete()


def _record(
    row: Connection, kind: SignInChange, by: Principal, via: Surface, reason: str = ""
) -> None:
    enrolment.record(
        row.agent,
        kind,
        by,
        via,
        reason=reason,
        client=row.client.client_id,
        client_name=str(row.client),
        person=str(principal_of(row.person)),
        scopes=list(row.scopes),
        redirect_to=row.redirect_to,
    )


def forget_expired() -> None:
    """Delete what gives nothing any more, a batch of each kind; a step of the sweeper."""
    used_until = Now() - timedelta(seconds=oauth2_settings.REFRESH_TOKEN_EXPIRE_SECONDS)
    by_operators = Client.RegistrationSource.MANUAL
    # One that was switched off has to stay so.
    is_unused = ~Q(registration_source=by_operators) & Q(connections=None, is_active=True)
    has_row = Exists(AccessToken.objects.filter(agent_token=OuterRef("pk")))
    expired: tuple[QuerySet[Any], ...] = (
        Code.objects.filter(expires__lt=Now()),
        # A refresh token counts for as long as its access token is there.
        AccessToken.objects.filter(
            Q(expires__lt=used_until) | Q(connection=None, expires__lt=Now())
        ),
        RefreshToken.objects.filter(access_token=None, updated__lt=used_until),
        Client.objects.filter(is_unused, created__lt=Now() - UNUSED_FOR),
        UsedAssertion.objects.filter(expires_at__lt=Now()),
        AgentToken.objects.filter(~has_row, is_temporary=True, expires_at__lt=Now()),
    )
    for rows in expired:
        oldest = list(rows.order_by("pk").values_list("pk", flat=True)[:BATCH])
        rows.model.objects.filter(pk__in=oldest).delete()
