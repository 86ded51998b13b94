"""Addressees of news: the webhooks of services that own tools, and Slack's routes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Annotated, Any, Literal

from django.contrib.auth.models import User
from pydantic import Field, model_validator

from approvals.declared.agents import Address, SigningSecret
from approvals.declared.kinds import Edits, Kind, Reference, Refused, Run, Spec, tenant_of
from approvals.declared.people import Username, person_named
from approvals.models import RISKS, SlackRoute, SlackWorkspace
from ledger.agents import enrolment
from ledger.foundation.crypto.encryption import SecretUnreadable
from ledger.models import Owner


class OwnerSpec(Spec):
    identity = ("service",)

    service: Annotated[str, Field(min_length=1, max_length=100)]
    webhook_url: Annotated[Address, Field(min_length=1)]
    webhook_secret: SigningSecret = None


class Owners(Kind[OwnerSpec]):
    name = "owner"
    spec = OwnerSpec

    def present(self, tenant: str) -> Iterator[OwnerSpec]:
        rows = Owner.objects.filter(tenant=tenant).order_by("service")
        for service, url in rows.values_list("service", "webhook_url"):
            yield OwnerSpec.model_construct(tenant=tenant, service=service, webhook_url=url)

    def make(self, wanted: OwnerSpec, run: Run) -> None:
        tenant, url = tenant_of(wanted), wanted.webhook_url
        row = enrolment.add_owner(tenant, wanted.service, url, **run.origin)
        if wanted.webhook_secret is not None:
            enrolment.renew_owner_secret(row, secret=wanted.webhook_secret.text, **run.origin)
        else:
            run.made.append((f"webhook_secret of owner {row}", str(row.webhook_secret)))

    def change(self, before: OwnerSpec, wanted: OwnerSpec, edits: Edits, run: Run) -> None:
        row = _owner(wanted)
        enrolment.set_owner_address(row, wanted.webhook_url, **run.origin)
        if "webhook_secret" in edits and wanted.webhook_secret is not None:
            enrolment.renew_owner_secret(row, secret=wanted.webhook_secret.text, **run.origin)

    def remove(self, before: OwnerSpec, run: Run) -> None:
        enrolment.remove_owner(_owner(before), **run.origin)

    def is_kept(self, wanted: OwnerSpec, name: str, secret: str) -> bool:
        try:
            return str(_owner(wanted).webhook_secret) == secret
        except SecretUnreadable:
            return False


def _owner(spec: OwnerSpec) -> Owner:
    rows = Owner.objects.defer("webhook_secret").select_related("tenant")
    return rows.get(tenant=spec.tenant, service=spec.service)


# --- Slack ----------------------------------------------------------------------------------------

Channel = Annotated[str, Field(pattern=r"^([CG][A-Z0-9]{1,19})?$")]
Risk = Annotated[str, Field(pattern=f"^({'|'.join(RISKS)})?$")]


class RouteSpec(Spec):
    """A route has no name: what it is about, and where it leads, tells it from others."""

    identity = ("workspace", "concerns", "tool", "owner", "min_risk", "channel", "approver")

    workspace: Annotated[str, Field(pattern=r"^[TE][A-Z0-9]{1,19}$")]
    concerns: Literal["everything", "transactions", "questions"] = "everything"
    tool: Annotated[str, Field(max_length=100)] = ""
    owner: Annotated[str, Field(max_length=100)] = ""
    min_risk: Risk = ""
    channel: Channel = ""
    approver: Username | Literal[""] = ""
    escalate_to: Channel = ""
    escalate_after_s: Annotated[float, Field(gt=0, le=7 * 86_400)] | None = None

    @model_validator(mode="after")
    def _is_whole(self) -> RouteSpec:
        if bool(self.channel) == bool(self.approver):
            raise ValueError("name a channel or an approver, one of the two")
        if bool(self.escalate_to) != bool(self.escalate_after_s):
            raise ValueError("escalate_to and escalate_after_s go together")
        if self.concerns == "questions" and (self.min_risk or self.owner):
            raise ValueError("questions have neither a risk nor an owner")
        return self

    def needs(self) -> Iterable[Reference]:
        if self.approver:
            yield "person", self.approver


class Routes(Kind[RouteSpec]):
    """The workspace itself is connected by ``manage.py slack_connect``, with its token."""

    name = "slack_route"
    spec = RouteSpec

    def present(self, tenant: str) -> Iterator[RouteSpec]:
        every = {spec.key: spec for spec in map(_as_route, _rows(tenant))}
        yield from (every[key] for key in sorted(every))

    def make(self, wanted: RouteSpec, run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        from approvals.slack import edits

        workspace = SlackWorkspace.objects.filter(team_id=wanted.workspace).first()
        if workspace is None:
            raise Refused(f"{wanted.workspace} is not connected: manage.py slack_connect does it.")
        row = SlackRoute(workspace=workspace, tenant=tenant_of(wanted), **_columns(wanted))
        edits.add_route(row, **run.origin)

    def change(self, before: RouteSpec, wanted: RouteSpec, edits: Edits, run: Run) -> None:
        from approvals.slack.edits import change_route

        for row in _of(before):
            change_route(row.pk, _columns(wanted), **run.origin)

    def remove(self, before: RouteSpec, run: Run) -> None:
        from approvals.slack.edits import remove_route

        for row in _of(before):
            remove_route(row.pk, **run.origin)


def _rows(tenant: str) -> Iterable[SlackRoute]:
    rows = SlackRoute.objects.filter(tenant=tenant).select_related("workspace", "approver")
    return rows.order_by("pk")


def _of(spec: RouteSpec) -> list[SlackRoute]:
    """Several where somebody has clicked the same route twice."""
    return [row for row in _rows(spec.tenant) if _as_route(row).key == spec.key]


def _as_route(row: SlackRoute) -> RouteSpec:
    after = row.escalate_after
    names = ("concerns", "tool", "owner", "min_risk", "channel", "escalate_to")
    columns: dict[str, Any] = {name: getattr(row, name) for name in names}
    return RouteSpec.model_construct(
        tenant=row.tenant_id,
        workspace=row.workspace.team_id,
        approver=row.approver.username if row.approver else "",
        escalate_after_s=after.total_seconds() if after else None,
        **columns,
    )


def _columns(spec: RouteSpec) -> dict[str, Any]:
    approver: User | None = person_named(spec.tenant, spec.approver) if spec.approver else None
    seconds = spec.escalate_after_s
    names = ("concerns", "tool", "owner", "min_risk", "channel", "escalate_to")
    columns: dict[str, Any] = {name: getattr(spec, name) for name in names}
    after = timedelta(seconds=seconds) if seconds else None
    return {**columns, "approver": approver, "escalate_after": after}
