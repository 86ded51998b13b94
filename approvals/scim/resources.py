"""The resources of SCIM: of people what an account keeps, of groups their members.

scim2-models parses them, applies each dialect of PATCH, and publishes their schemas.
"""

from __future__ import annotations

from typing import Annotated, Any
from uuid import NAMESPACE_URL, uuid5

import scim2_models as scim
from django.conf import settings
from django.contrib.auth.models import User
from scim2_models import URN, CaseExact, ComplexAttribute, Mutability, Required, Resource

from approvals.people import name_of
from approvals.scim.models import Entry

MOST = 200  # resources in one answer
MOST_OPERATIONS = 100  # of one PATCH: each is applied to the whole of a group


class Name(ComplexAttribute):
    given_name: str | None = None
    family_name: str | None = None


class Email(ComplexAttribute):
    value: str | None = None
    type: str | None = None
    primary: bool | None = None


class Member(ComplexAttribute):
    value: Annotated[str | None, Mutability.immutable] = None
    display: Annotated[str | None, Mutability.immutable] = None


class Person(Resource[Any]):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:User")

    user_name: Annotated[str | None, scim.Uniqueness.server, Required.true] = None
    name: Name | None = None
    active: bool | None = None
    emails: list[Email] | None = None

    @property
    def labels(self) -> dict[str, str]:
        """The columns of an account that it names; of its addresses the primary, else the first."""
        emails = sorted(self.emails or [], key=lambda each: not each.primary)
        name = self.name or Name()
        texts = {
            "username": User.normalize_username(self.user_name or ""),
            "first_name": name.given_name,
            "last_name": name.family_name,
            "email": next((each.value for each in emails if each.value), ""),
        }
        return {column: (text or "").strip() for column, text in texts.items()}


class Group(Resource[Any]):
    __schema__ = URN("urn:ietf:params:scim:schemas:core:2.0:Group")

    display_name: Annotated[str | None, Required.true, CaseExact.true] = None
    members: list[Member] | None = None


SERVICE = scim.ScimProvider(
    models=[Person, Group],
    config=scim.ServiceProviderConfig(
        patch=scim.Patch(supported=True),
        bulk=scim.Bulk(supported=False, max_operations=0, max_payload_size=0),
        filter=scim.Filter(supported=True, max_results=MOST),
        change_password=scim.ChangePassword(supported=False),
        sort=scim.Sort(supported=False),
        etag=scim.ETag(supported=False),
        authentication_schemes=[
            scim.AuthenticationScheme(
                type=scim.AuthenticationScheme.Type.oauthbearertoken,
                name="Bearer token",
                description="The value of ASSENT_SCIM_TOKEN.",
            )
        ],
    ),
    # Directories send what we do not keep, and Entra what RFC 7644 does not know.
    policy=scim.ScimPolicy(
        unknown=scim.ScimPolicy.Unknown.ignore,
        remove_value_as_filter=scim.ScimPolicy.RemoveValue.apply,
        unmatched_path_filter=scim.ScimPolicy.UnmatchedPathFilter.create,
    ),
)


def person_of(entry: Entry) -> Person:
    person = entry.user
    return Person(
        id=str(person.pk),
        external_id=entry.external_id or None,
        user_name=person.username,
        name=Name(given_name=person.first_name or None, family_name=person.last_name or None),
        active=person.is_active,
        emails=[Email(value=person.email, type="work", primary=True)] if person.email else None,
        meta=scim.Meta(
            resource_type="User",
            created=person.date_joined,
            last_modified=entry.changed_at,
            location=address_of("Users", str(person.pk)),
        ),
    )


def group_of(name: str, entries: list[Entry]) -> Group:
    key = id_of_group(name)
    members = [Member(value=str(each.pk), display=name_of(each.user)) for each in entries]
    return Group(
        id=key,
        display_name=name,
        members=members or None,
        meta=scim.Meta(resource_type="Group", location=address_of("Groups", key)),
    )


def id_of_group(name: str) -> str:
    return str(uuid5(NAMESPACE_URL, f"urn:assent:scim:group:{name}"))


def address_of(kind: str, key: str) -> str:
    return f"{settings.PUBLIC_URL.rstrip('/')}/scim/v2/{kind}/{key}"
