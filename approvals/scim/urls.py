"""The addresses of SCIM."""

from __future__ import annotations

from django.urls import path, re_path

from approvals.scim import views
from approvals.scim.views import door

ANY = dict.fromkeys(("GET", "POST", "PUT", "PATCH", "DELETE"), views.nothing)
CHANGED = dict.fromkeys(("PUT", "PATCH"), views.change_person)
CHANGED_GROUP = dict.fromkeys(("PUT", "PATCH"), views.change_group)

app_name = "scim"
urlpatterns = [
    path("ServiceProviderConfig", door(GET=views.service)),
    path("ResourceTypes", door(GET=views.resource_types)),
    path("ResourceTypes/<str:key>", door(GET=views.resource_types)),
    path("Schemas", door(GET=views.schemas)),
    path("Schemas/<str:key>", door(GET=views.schemas)),
    path("Users", door(GET=views.list_people, POST=views.make_person)),
    path(
        "Users/<int:person_id>",
        door(GET=views.show_person, DELETE=views.close_person, **CHANGED),
    ),
    path("Groups", door(GET=views.list_groups, POST=views.refuse_group)),
    path("Groups/<str:group_id>", door(GET=views.show_group, **CHANGED_GROUP)),
    re_path("^(?P<rest>.*)$", door(**ANY)),
]
