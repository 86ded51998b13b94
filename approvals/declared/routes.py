"""Slack's routes. Imported only where its app is there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from approvals.declared.kinds import Edits, Reference, Refused, Run, Spec
from approvals.declared.people import Username, person_named
from approvals.models import RISKS, SlackRoute, SlackWorkspace
from approvals.slack.edits import add_route, change_route, remove_route

Channel = Annotated[str, Field(pattern=r"^([CG][A-Z0-9]{1,19})?$")]
Risk = Annotated[str, Field(pattern=f"^({'|'.join(RISKS)})?$")]


class RouteSpec(Spec):
    """A route has no name: what it is about, and where it leads, tells it from others. The
    workspace itself is connected by ``manage.py slack_connect``, with its token."""

    kind = "slack_route"
    identity = ("workspace", "concerns", "tool", "owner", "min_risk", "channel", "approver")
    paths = {"workspace": "workspace.team_id"}

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

    @classmethod
    def rows(cls, tenant: str) -> Any:
        rows = SlackRoute.objects.filter(tenant=tenant)
        return rows.select_related("workspace", "approver").order_by("pk")

    @classmethod
    def of(cls, row: Any, **others: Any) -> RouteSpec:
        return super().of(row, approver=row.approver.username if row.approver else "")

    @classmethod
    def present(cls, tenant: str) -> Iterable[RouteSpec]:
        """Once where somebody has clicked the same route twice."""
        specs = {each.key: each for each in super().present(tenant)}
        return (specs[key] for key in sorted(specs))

    def needs(self) -> Iterable[Reference]:
        if self.approver:
            yield "person", self.approver

    def make(self, run: Run) -> None:
        """Raises ``Refused, ValidationError``."""
        workspace = SlackWorkspace.objects.filter(team_id=self.workspace).first()
        if workspace is None:
            raise Refused(f"{self.workspace} is not connected: manage.py slack_connect does it.")
        approver = person_named(self.tenant, self.approver) if self.approver else None
        columns = self.columns(self.facts().keys() - {"workspace", "approver"})
        about: dict[str, Any] = {"workspace": workspace, "approver": approver, **columns}
        add_route(SlackRoute(tenant=self.tenant_row, **about), **run.origin)

    def change(self, before: RouteSpec, edits: Edits, run: Run) -> None:
        for row in self._same():
            change_route(row.pk, self.columns(edits), **run.origin)

    def remove(self, run: Run) -> None:
        for row in self._same():
            remove_route(row.pk, **run.origin)

    def _same(self) -> list[SlackRoute]:
        return [row for row in self.rows(self.tenant) if self.of(row).key == self.key]
