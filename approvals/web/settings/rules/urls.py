"""The addresses of the pages of rules and groups."""

from __future__ import annotations

from django.urls import path

from approvals.web.settings.rules import editing, first_rules, group_pages, pages, previews

urlpatterns = [
    path("", pages.tenants, name="rules"),
    path("<slug:tenant>/", pages.rules_of, name="rules-of"),
    path("<slug:tenant>/begin", first_rules.begin, name="rules-begin"),
    path("<slug:tenant>/rule/", editing.new_rule, name="rule-new"),
    path("<slug:tenant>/rule/<int:place>/", editing.rule, name="rule"),
    path("<slug:tenant>/rule/<int:place>/remove", editing.remove, name="rule-remove"),
    path("<slug:tenant>/text/", editing.as_text, name="rules-text"),
    path("<slug:tenant>/discard", pages.discard, name="rules-discard"),
    path("<slug:tenant>/activate", pages.activate, name="rules-activate"),
    path("<slug:tenant>/put-back/<int:number>", pages.put_back, name="rules-put-back"),
    path("<slug:tenant>/preview/", previews.preview_page, name="rules-preview"),
    path("<slug:tenant>/preview/next", previews.next_part, name="rules-preview-next"),
    path("<slug:tenant>/preview/start", previews.start, name="rules-preview-start"),
    path("<slug:tenant>/groups/", group_pages.groups_page, name="groups"),
    path("<slug:tenant>/groups/<int:group_id>/add", group_pages.add_member, name="group-add"),
    path(
        "<slug:tenant>/groups/members/<int:member_id>/remove",
        group_pages.remove_member,
        name="group-remove",
    ),
]
