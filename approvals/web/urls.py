"""The addresses of the desk's pages."""

from __future__ import annotations

from django.apps import apps
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from approvals.web import first_day, inbox
from approvals.web.account import account, installing, notifications, password, saved_views
from approvals.web.item import (
    allow,
    changing,
    evidence,
    records,
    reviews,
    set_aside,
    together,
    transactions,
)
from approvals.web.operations import brakes, operations
from approvals.web.record import break_glass, changes, history, policy_documents, standing
from approvals.web.settings import agents, organisations, people, person
from approvals.web.settings.channels import overview as channels
from approvals.web.settings.connections import overview, remote_agents, skills
from approvals.web.settings.tools import catalogue, mcp_servers, owners, registered, secrets, tries
from approvals.web.sign_in import company_and_links, first_start, second_step_pages, sign_in
from approvals.web.tasks import files, giving, tasks

app_name = "desk"
SLACK = (
    [
        path("", include("approvals.slack.link_page")),
        path("settings/channels/slack/", include("approvals.web.settings.channels.urls")),
    ]
    if apps.is_installed("approvals.slack")
    else []
)
INSIGHT = (
    [path("", include("approvals.insight.urls"))] if apps.is_installed("approvals.insight") else []
)
FUNCTIONS = (
    [path("", include("approvals.web.settings.connections.functions"))]
    if apps.is_installed("a2a.doors.humanlayer")
    else []
)
BUSES = (
    [
        path("", include("approvals.web.settings.connections.buses")),
        path("", include("approvals.web.operations.bus_requests")),
    ]
    if apps.is_installed("a2a.doors.git_bus")
    else []
)
urlpatterns = [
    path("", inbox.inbox_view, name="inbox"),
    path("rows", inbox.rows, name="rows"),
    path("views/save", saved_views.save, name="view-save"),
    path("views/<int:view_id>/remove", saved_views.remove, name="view-remove"),
    path("together/", together.together, name="together"),
    path("transactions/<uuid:transaction_id>/", transactions.transaction, name="transaction"),
    path(
        "transactions/<uuid:transaction_id>/approve",
        transactions.approve,
        name="transaction-approve",
    ),
    path("transactions/<uuid:transaction_id>/sign", transactions.sign, name="transaction-sign"),
    path("transactions/<uuid:transaction_id>/allow/", allow.allow_page, name="transaction-allow"),
    path("transactions/<uuid:transaction_id>/change/", changing.change, name="transaction-change"),
    path(
        "transactions/<uuid:transaction_id>/send-back",
        transactions.send_back,
        name="transaction-send-back",
    ),
    path("transactions/<uuid:transaction_id>/ask", transactions.ask, name="transaction-ask"),
    path("transactions/<uuid:transaction_id>/note", transactions.note, name="transaction-note"),
    path(
        "transactions/<uuid:transaction_id>/more-time",
        transactions.more_time,
        name="transaction-more-time",
    ),
    path("transactions/<uuid:transaction_id>/undo", transactions.undo, name="transaction-undo"),
    path(
        "transactions/<uuid:transaction_id>/reject", transactions.reject, name="transaction-reject"
    ),
    path(
        "transactions/<uuid:transaction_id>/aside",
        set_aside.set_aside,
        name="transaction-aside",
    ),
    path(
        "transactions/<uuid:transaction_id>/aside/back",
        set_aside.take_back,
        name="transaction-take-back",
    ),
    path(
        "transactions/<uuid:transaction_id>/resolve",
        transactions.resolve,
        name="transaction-resolve",
    ),
    path(
        "transactions/<uuid:transaction_id>/compensate",
        transactions.compensate,
        name="transaction-compensate",
    ),
    path(
        "transactions/<uuid:transaction_id>/record/",
        records.transaction,
        name="transaction-record",
    ),
    path(
        "transactions/<uuid:transaction_id>/record.json",
        records.transaction_file,
        name="transaction-record-file",
    ),
    path(
        "transactions/<uuid:transaction_id>/evidence/<int:number>",
        evidence.evidence,
        name="transaction-evidence",
    ),
    path("tasks/<uuid:task_id>/record/", records.task, name="task-record"),
    path("tasks/<uuid:task_id>/record.json", records.task_file, name="task-record-file"),
    path("questions/<uuid:question_id>/", tasks.question, name="question"),
    path("questions/<uuid:question_id>/answer", tasks.answer, name="question-answer"),
    path("tasks/", tasks.tasks, name="tasks"),
    path("tasks/new/", giving.choose, name="give-choose"),
    path("tasks/new/<int:skill_id>/", giving.give, name="give"),
    path("tasks/<uuid:task_id>/", tasks.task, name="task"),
    path("tasks/<uuid:task_id>/files/<slug:key>", files.file, name="task-file"),
    path("tasks/<uuid:task_id>/revise/", giving.revise, name="task-revise"),
    path("tasks/<uuid:task_id>/cancel", tasks.cancel, name="task-cancel"),
    path("ops/", operations.operations, name="operations"),
    path("stop/", brakes.stop, name="stop"),
    path("brakes/<int:brake_id>/lift", brakes.lift, name="brake-lift"),
    path(
        "ops/deliveries/<int:delivery_id>/again", operations.send_again, name="delivery-send-again"
    ),
    *SLACK,
    path("changes/", changes.changes_view, name="changes"),
    path("changes/<int:change_id>/", changes.change_view, name="change"),
    path("changes/<int:change_id>/confirm", changes.confirm_change, name="change-confirm"),
    path("changes/<int:change_id>/read", changes.read_change, name="change-read"),
    path("changes/<int:change_id>/decline", changes.decline_change, name="change-decline"),
    path("people/", people.people, name="people"),
    path("people/invite", people.invite, name="people-invite"),
    path("people/<int:person_id>/", person.person, name="person"),
    path("people/<int:person_id>/sessions/end", person.end_sessions, name="person-end-sessions"),
    path("people/<int:person_id>/keys/let-sign", person.let_sign, name="person-key"),
    path("people/<int:person_id>/keys/end", person.end_signing, name="person-key-end"),
    path("people/<int:person_id>/link", people.new_link, name="people-link"),
    path("people/<int:person_id>/role/give", people.give_role, name="people-give-role"),
    path("people/<int:person_id>/role/take", people.take_role, name="people-take-role"),
    path("people/<int:person_id>/active", people.set_active, name="people-active"),
    path("people/<int:person_id>/reset", people.reset, name="people-reset"),
    path("settings/rules/", include("approvals.web.settings.rules.urls")),
    path("settings/channels/", channels.channels, name="channels"),
    path("settings/organisation/", organisations.organisations, name="organisations"),
    path("settings/organisation/<slug:slug>/", organisations.organisation, name="organisation"),
    path("account/", account.account, name="account"),
    path("account/profile", account.profile, name="account-profile"),
    path("account/email", account.email, name="account-email"),
    path("account/email/<str:token>/", account.confirm_email, name="account-confirm-email"),
    path("account/preferences", account.preferences, name="account-preferences"),
    path("account/sessions/end", account.end_other_sessions, name="account-end-others"),
    path("account/sessions/<int:session_id>/end", account.end_session, name="account-end-session"),
    path("account/confirm/", account.confirm, name="account-confirm"),
    path(
        "account/confirm/passkey",
        second_step_pages.confirm_passkey,
        name="account-confirm-passkey",
    ),
    path("account/app/", second_step_pages.app, name="account-app"),
    path("account/app/remove", second_step_pages.remove_app, name="account-app-remove"),
    path("account/codes/", second_step_pages.codes, name="account-codes"),
    path("account/codes/new", second_step_pages.new_codes, name="account-new-codes"),
    path(
        "account/passkeys/options",
        second_step_pages.passkey_options,
        name="account-passkey-options",
    ),
    path("account/passkeys/add", second_step_pages.add_passkey, name="account-passkey-add"),
    path(
        "account/passkeys/<int:passkey_id>/remove",
        second_step_pages.remove_passkey,
        name="account-passkey-remove",
    ),
    path(
        "account/passkeys/<int:passkey_id>/sign/options",
        second_step_pages.signing_options,
        name="account-key-options",
    ),
    path("account/passkeys/<int:passkey_id>/sign", second_step_pages.let_sign, name="account-key"),
    path(
        "account/passkeys/<int:passkey_id>/sign/stop",
        second_step_pages.end_signing,
        name="account-key-stop",
    ),
    path(
        "account/company/disconnect",
        second_step_pages.disconnect_company,
        name="account-company-disconnect",
    ),
    path("password/", password.password, name="password"),
    path("account/notifications", notifications.notifications, name="notifications"),
    path("account/notifications/browsers", notifications.add_browser, name="browser-add"),
    path(
        "account/notifications/browsers/<int:browser_id>/remove",
        notifications.remove_browser,
        name="browser-remove",
    ),
    path("account/notifications/test", notifications.test, name="notifications-test"),
    path("account/notifications/not-now", notifications.not_now, name="notifications-not-now"),
    path("account/notifications/due", notifications.due, name="notifications-due"),
    path(
        "account/notifications/unsubscribe/<str:token>",
        notifications.unsubscribe,
        name="unsubscribe",
    ),
    path("manifest.webmanifest", installing.manifest, name="manifest"),
    path("service-worker.js", installing.service_worker, name="service-worker"),
    path("offline/", installing.offline, name="offline"),
    path("notices/<int:notice_id>/dismiss", password.dismiss_notice, name="notice-dismiss"),
    path("metrics", operations.prometheus, name="metrics"),
    path(
        "policies/<slug:tenant>/<str:sha256>/",
        policy_documents.policy_document,
        name="policy-document",
    ),
    path("reviews/", reviews.reviews, name="reviews"),
    path("reviews/<int:review_id>", reviews.review, name="review"),
    path("standing/", standing.standing, name="standing"),
    path("standing/glass/", break_glass.break_glass, name="standing-glass"),
    path("standing/<int:grant_id>/end", standing.end, name="standing-end"),
    path("history/", history.history, name="history"),
    path("history/export.<str:form>", history.export, name="history-export"),
    *INSIGHT,
    path("tools/", catalogue.tools, name="tools"),
    path("tools/new/", registered.new_by_address, name="tool-new"),
    path("tools/new/text/", registered.new_by_text, name="tool-new-text"),
    path("tools/servers/", mcp_servers.servers, name="mcp-servers"),
    path("tools/servers/<int:server_id>/read", mcp_servers.read_again, name="mcp-server-read"),
    path("tools/servers/tools/<int:tool_id>/", mcp_servers.server_tool, name="mcp-tool"),
    path(
        "tools/servers/tools/<int:tool_id>/settle", mcp_servers.settle_tool, name="mcp-tool-settle"
    ),
    path("tools/secrets/", secrets.secrets, name="secrets"),
    path("tools/secrets/new/", secrets.secret, name="secret-new"),
    path("tools/secrets/<int:secret_id>/", secrets.secret, name="secret"),
    path("tools/secrets/<int:secret_id>/remove", secrets.remove, name="secret-remove"),
    path("tools/owners/", owners.owners, name="tool-owners"),
    path("tools/owners/<int:owner_id>/", owners.owner, name="tool-owner"),
    path("tools/owners/<int:owner_id>/secret", owners.renew_secret, name="tool-owner-secret"),
    path("tools/owners/<int:owner_id>/remove", owners.remove, name="tool-owner-remove"),
    path("tools/<int:tool_id>/", registered.tool, name="tool"),
    path("tools/<int:tool_id>/version/", registered.version, name="tool-version"),
    path("tools/<int:tool_id>/terms/", registered.terms, name="tool-terms"),
    path("tools/<int:tool_id>/withdraw/", registered.withdraw, name="tool-withdraw"),
    path("tools/<int:tool_id>/contract/", registered.contract, name="tool-contract"),
    path("tools/try/<slug:tenant>/<str:name>/", tries.try_tool, name="tool-try"),
    path("agents/", agents.agents, name="agents"),
    path("agents/new/", agents.new_agent, name="agent-new"),
    path("agents/<int:agent_id>/", agents.agent, name="agent"),
    path("agents/<int:agent_id>/secret", agents.renew_secret, name="agent-secret"),
    path("agents/<int:agent_id>/first", agents.first_request, name="agent-first-request"),
    path("agents/<int:agent_id>/tokens", agents.issue_token, name="agent-token"),
    path(
        "agents/<int:agent_id>/tokens/<int:token_id>/rotate",
        agents.rotate_token,
        name="agent-token-rotate",
    ),
    path(
        "agents/<int:agent_id>/tokens/<int:token_id>/revoke",
        agents.revoke_token,
        name="agent-token-revoke",
    ),
    path("connections/", overview.connections, name="connections"),
    path("connections/skills/new/", skills.new_skill, name="connection-skill-new"),
    path("connections/skills/<int:skill_id>/", skills.skill, name="connection-skill"),
    path(
        "connections/agents/new/",
        remote_agents.new_remote_agent,
        name="connection-remote-agent-new",
    ),
    path(
        "connections/agents/<int:remote_id>/",
        remote_agents.remote_agent,
        name="connection-remote-agent",
    ),
    path(
        "connections/agents/<int:remote_id>/read",
        remote_agents.read_again,
        name="connection-remote-agent-read",
    ),
    path(
        "connections/agents/<int:remote_id>/accept",
        remote_agents.accept,
        name="connection-remote-agent-accept",
    ),
    path(
        "connections/agents/<int:remote_id>/sample",
        remote_agents.send_sample,
        name="connection-remote-agent-sample",
    ),
    path(
        "connections/agents/<int:remote_id>/switch",
        remote_agents.switch,
        name="connection-remote-agent-switch",
    ),
    *FUNCTIONS,
    *BUSES,
    path("sign-in/", sign_in.SignIn.as_view(), name="sign-in"),
    path("sign-in/code/", sign_in.code, name="sign-in-code"),
    path("sign-in/passkey/options", sign_in.passkey_options, name="sign-in-passkey-options"),
    path("sign-in/passkey", sign_in.passkey, name="sign-in-passkey"),
    path("sign-in/forgotten/", company_and_links.forgotten, name="forgotten"),
    path("sign-in/company/", company_and_links.company_start, name="company"),
    path("sign-in/company/callback", company_and_links.company_callback, name="company-callback"),
    path("join/<str:token>/", company_and_links.join, name="join"),
    path(
        "join/<str:token>/passkey/options",
        company_and_links.join_passkey_options,
        name="join-passkey-options",
    ),
    path("join/<str:token>/passkey", company_and_links.join_passkey, name="join-passkey"),
    path("first/try", first_day.try_it, name="first-try"),
    path("first/<str:token>/", first_start.first_account, name="first-account"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
]
