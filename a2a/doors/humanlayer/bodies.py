"""The bodies that clients send: read, checked, and without what is never kept."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import AfterValidator, BaseModel, Field, ValidationError, model_validator

from a2a.validation import refuse_unstorable
from ledger import seals
from ledger.errors import InvalidRequest

Json = dict[str, Any]
CALL_ID_MAX, RUN_ID_MAX = 100, 200
OPTIONS_MOST = 20
TOKEN = "bot_token"


def _printable(text: str) -> str:
    if not text.isprintable() or "/" in text or " " in text:
        raise ValueError("must be printable, without spaces and slashes")
    return text


CallId = Annotated[str, Field(min_length=1, max_length=CALL_ID_MAX), AfterValidator(_printable)]
Line = Annotated[str, Field(max_length=500)]


class Option(BaseModel):
    """One of the answers that a client offers."""

    name: Annotated[str, Field(min_length=1, max_length=200)]
    title: Line | None = None
    description: Line | None = None
    prompt_fill: Annotated[str, Field(max_length=2000)] | None = None

    @property
    def label(self) -> str:
        return self.title or self.name

    @property
    def text(self) -> str:
        """The text that the agent is told when it is chosen."""
        return self.prompt_fill or self.title or self.name


class Slack(BaseModel):
    channel_or_user_id: Line
    context_about_channel_or_user: Line | None = None
    allowed_responder_ids: list[Line] | None = None


class Phone(BaseModel):
    phone_number: Line


class Email(BaseModel):
    address: Line


class Channel(BaseModel):
    slack: Slack | None = None
    sms: Phone | None = None
    whatsapp: Phone | None = None
    email: Email | None = None


def _distinct(options: list[Option]) -> list[Option]:
    if len({option.name for option in options}) < len(options):
        raise ValueError("must have names of which no two are equal")
    return options


Options = Annotated[list[Option], Field(max_length=OPTIONS_MOST), AfterValidator(_distinct)]


class FunctionSpec(BaseModel):
    fn: str
    arguments: Json
    channel: Channel | None = None
    reject_options: Options | None = None

    @model_validator(mode="before")
    @classmethod
    def _kwargs(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            return value
        sent = value.get("kwargs")
        return {**value, "arguments": {} if sent is None else sent}


class ContactSpec(BaseModel):
    msg: Annotated[str, Field(min_length=1)]
    subject: Line | None = None
    channel: Channel | None = None
    response_options: Options | None = None


class FunctionCall(BaseModel):
    run_id: Annotated[str, Field(max_length=RUN_ID_MAX)] = ""
    call_id: CallId
    spec: FunctionSpec


class Contact(BaseModel):
    run_id: Annotated[str, Field(max_length=RUN_ID_MAX)] = ""
    call_id: CallId
    spec: ContactSpec


class Escalation(BaseModel):
    escalation_msg: Annotated[str, Field(min_length=1, max_length=2000)]
    additional_recipients: list[Json] | None = None


T = TypeVar("T", FunctionCall, Contact, Escalation)


def read(kind: type[T], body: Any) -> T:
    """Raises ``InvalidRequest``, which names every field that is wrong."""
    try:
        return kind.model_validate(body)
    except ValidationError as refusal:
        errors = [
            {"field": ".".join(map(str, error["loc"])), "message": error["msg"]}
            for error in refusal.errors(include_url=False, include_context=False)
        ]
        detail = "; ".join(
            f"{error['field'] or 'body'}: {error['message']}" for error in errors[:3]
        )
        raise InvalidRequest(f"{detail}.", errors=errors[:50]) from refusal


def options_of(kept: Any) -> list[Option]:
    """The options of a request that is stored; none where its content was erased."""
    try:
        return [Option.model_validate(each) for each in kept or []]
    except ValidationError:
        return []


def without_secrets(spec: Json) -> Json:
    """The spec as it is kept and comes back: a token of somebody's Slack app is never stored.

    Raises ``InvalidRequest`` for what could not come back as it was sent, and for options whose
    texts hide something from who chooses.
    """
    seals.refuse_unsafe_text(spec.get("reject_options"), "reject_options")
    arguments = {"kwargs": spec["kwargs"]} if "kwargs" in spec else {}
    kept = {**_without_tokens(spec), **arguments}
    refuse_unstorable(kept)
    return kept


def _without_tokens(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_tokens(each) for name, each in value.items() if name != TOKEN}
    return [_without_tokens(each) for each in value] if isinstance(value, list) else value


def refuse_responders(channel: Channel | None) -> None:
    """Refuse a client's choice of who may answer, so that it does not believe it has made one."""
    slack = channel.slack if channel is not None else None
    if slack is not None and slack.allowed_responder_ids is not None:
        raise InvalidRequest(
            "allowed_responder_ids cannot be kept to: who decides is set by the roles here.",
            hint="Leave allowed_responder_ids out. Nothing was prepared.",
        )


def escalation_in(body: Any) -> str:
    """The agent's words. Raises ``InvalidRequest``, also for recipients that it names."""
    escalation = read(Escalation, body)
    if escalation.additional_recipients:
        raise InvalidRequest(
            "additional_recipients are not written to: people here say how they are told.",
            hint="Leave additional_recipients out. Nobody was told.",
        )
    seals.refuse_unsafe_text(escalation.escalation_msg, "escalation_msg")
    return escalation.escalation_msg
