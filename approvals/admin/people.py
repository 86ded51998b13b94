"""People and roles in the admin. Changes go through ``approvals.people.accounts``."""

from __future__ import annotations

from typing import Any

from django.contrib import admin, messages
from django.contrib.auth.admin import UserAdmin
from django.contrib.auth.forms import AdminUserCreationForm, UserChangeForm
from django.contrib.auth.models import Group, User
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.db.transaction import atomic
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect

from approvals.http.middleware import roles_of
from approvals.models import Membership, Role, UserName
from approvals.people import FLAGS, accounts, principal_of, words_of_ended_link
from ledger.admin.base import OwnChoices, StrictLookups, tenants_of
from ledger.admin.sealed_changes import VIA

admin.site.unregister(User)
admin.site.unregister(Group)  # rights are given to people one by one, and sealed


class MembershipInline(OwnChoices, admin.TabularInline):
    model = Membership
    extra = 1

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False  # a role is given or taken, nothing between

    def get_min_num(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> int:
        """One role at least: only superusers see an account that belongs to no tenant."""
        return 0 if request.user.is_superuser else 1

    def get_formset(self, request: HttpRequest, obj: Any = None, **kwargs: Any) -> Any:
        return super().get_formset(request, obj, **{**kwargs, "validate_min": True})


class UniqueNameForever:
    """A form field error for a user name that the database would refuse."""

    cleaned_data: dict[str, Any]
    instance: User

    def clean_username(self) -> str:
        name: str = self.cleaned_data["username"]
        owner = UserName.objects.filter(name=name.lower()).first()
        if owner is not None and owner.user_id != self.instance.pk:
            raise ValidationError("Somebody else has this name, or once had it.")
        return name


class NewPersonForm(UniqueNameForever, AdminUserCreationForm):
    pass


class PersonForm(UniqueNameForever, UserChangeForm):
    pass


@admin.register(User)
class PersonAdmin(StrictLookups, UserAdmin):
    """Superusers manage everybody, others only people who belong to no other tenant than theirs.

    Otherwise whoever may change people could enter any tenant, by a role or by a password.
    """

    form = PersonForm
    add_form = NewPersonForm
    inlines = (MembershipInline,)
    change_form_template = "admin/auth/person_form.html"
    list_filter = ("is_staff", "is_superuser", "is_active")
    list_display = ("username", "first_name", "last_name", "is_active", "is_staff", "last_login")
    filter_horizontal = ("user_permissions",)
    fieldsets = (
        (None, {"fields": ("username", "password", "first_name", "last_name", "email")}),
        (
            "Rights",
            {
                "fields": ("is_active", "is_staff", "is_superuser"),
                "description": "Rights in the admin, and every change of your own rights, take a "
                "second operator, who confirms them on the desk.",
            },
        ),
        ("Single rights in the admin", {"fields": ("user_permissions",), "classes": ("collapse",)}),
        ("Dates", {"fields": ("last_login", "date_joined")}),
    )

    def changelist_view(
        self, request: HttpRequest, extra_context: dict[str, Any] | None = None
    ) -> HttpResponse:
        """Operators who have no right to it here find their people on the desk."""
        roles = roles_of(_person(request)).values()
        if not self.has_view_permission(request) and any(Role.OPERATOR in own for own in roles):
            return redirect("desk:people")
        return super().changelist_view(request, extra_context)

    def get_queryset(self, request: HttpRequest) -> QuerySet[User]:
        people: QuerySet[User] = super().get_queryset(request)
        if request.user.is_superuser:
            return people
        tenants = tenants_of(request)
        own = Membership.objects.filter(tenant__in=tenants).values("user")
        others = Membership.objects.exclude(tenant__in=tenants).values("user")
        return people.filter(is_superuser=False, pk__in=own).exclude(pk__in=others)

    def get_readonly_fields(self, request: HttpRequest, obj: Any = None) -> tuple[str, ...]:
        dates: tuple[str, ...] = ("last_login", "date_joined")
        if obj and obj.last_login:  # colleagues know them by this name by now: it stays
            dates = ("username", *dates)
        if request.user.is_superuser:
            return dates
        return (*dates, "is_staff", "is_superuser", "user_permissions")

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        """Never: the ledger keeps naming its people. An account is deactivated instead."""
        return False

    def save_model(self, request: HttpRequest, obj: User, form: Any, change: bool) -> None:
        """Save names and address at once; flags may need a second operator."""
        origin: dict[str, Any] = {"by": principal_of(_person(request)), "via": VIA}
        if not change:
            super().save_model(request, obj, form, change)
            accounts.opened(obj, **origin)
            return
        before = User.objects.get(pk=obj.pk)
        flags = {flag: getattr(obj, flag) for flag in FLAGS}
        obj.save(update_fields=list(accounts.LABELS))
        labels = {name: getattr(before, name) for name in accounts.LABELS}
        accounts.relabelled(obj, labels, **origin)
        for flag, value in flags.items():
            setattr(obj, flag, getattr(before, flag))
            if flag in form.changed_data:
                self._notify(request, accounts.set_flag(obj, flag, value, **origin))

    def save_related(self, request: HttpRequest, form: Any, formsets: Any, change: bool) -> None:
        origin: dict[str, Any] = {"by": principal_of(_person(request)), "via": VIA}
        person = form.instance
        if "user_permissions" in form.changed_data:
            permissions = form.cleaned_data["user_permissions"]
            self._notify(request, accounts.set_permissions(person, permissions, **origin))
        for formset in formsets:
            formset.save(commit=False)
            for role in formset.deleted_objects:
                args = (person, role.tenant_id, role.role)
                self._notify(request, accounts.take_role(*args, **origin))
            for role in formset.new_objects:
                args = (person, role.tenant_id, role.role)
                is_done = accounts.give_role(*args, **origin)
                self._notify(request, is_done)
                if is_done and role.role != Role.VIEWER:
                    self._tell_of_ended_link(request, person)

    def user_change_password(
        self, request: HttpRequest, id: str, form_url: str = ""
    ) -> HttpResponse:
        """Change somebody else's password; one's own is changed on the desk with the old one."""
        if str(request.user.pk) == id:
            return redirect("desk:password")
        before = self.get_object(request, id)
        with atomic():
            response: HttpResponse = super().user_change_password(request, id, form_url)
            after = User.objects.filter(pk=id).first()
            if before and after and after.password != before.password:
                accounts.password_was_set(after, by=principal_of(_person(request)), via=VIA)
        return response

    def _tell_of_ended_link(self, request: HttpRequest, person: User) -> None:
        if words := words_of_ended_link(person):
            self.message_user(request, words, messages.WARNING)

    def _notify(self, request: HttpRequest, is_done: bool) -> None:
        if not is_done:
            text = "A second operator has to confirm part of it: it waits on the desk."
            self.message_user(request, text, messages.WARNING)


def _person(request: HttpRequest) -> User:
    assert isinstance(request.user, User)
    return request.user
