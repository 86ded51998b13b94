"""The addresses of the desk's pages."""

from __future__ import annotations

from django.apps import apps
from django.contrib.auth.views import LogoutView
from django.urls import include, path

from approvals.web import history, inbox, policy_documents
from approvals.web.account import account, installing, notifications
from approvals.web.item import records, reviews, transactions
from approvals.web.operations import operations
from approvals.web.people import people, people_page
from approvals.web.sign_in import company_and_links, first_start, second_step_pages, sign_in
from approvals.web.tasks import files, giving, tasks

app_name = "desk"
SLACK = (
    [path("", include("approvals.slack.link_page"))] if apps.is_installed("approvals.slack") else []
)
INSIGHT = (
    [path("", include("approvals.insight.urls"))] if apps.is_installed("approvals.insight") else []
)
urlpatterns = [
    path("", inbox.inbox_view, name="inbox"),
    path("rows", inbox.rows, name="rows"),
    path("transactions/<uuid:transaction_id>/", transactions.transaction, name="transaction"),
    path(
        "transactions/<uuid:transaction_id>/approve",
        transactions.approve,
        name="transaction-approve",
    ),
    path(
        "transactions/<uuid:transaction_id>/reject", transactions.reject, name="transaction-reject"
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
    path(
        "ops/deliveries/<int:delivery_id>/again", operations.send_again, name="delivery-send-again"
    ),
    *SLACK,
    path("changes/", people.changes_view, name="changes"),
    path("changes/<int:change_id>/confirm", people.confirm_change, name="change-confirm"),
    path("changes/<int:change_id>/decline", people.decline_change, name="change-decline"),
    path("people/", people_page.people, name="people"),
    path("people/invite", people_page.invite, name="people-invite"),
    path("people/<int:person_id>/link", people_page.new_link, name="people-link"),
    path("people/<int:person_id>/role/give", people_page.give_role, name="people-give-role"),
    path("people/<int:person_id>/role/take", people_page.take_role, name="people-take-role"),
    path("people/<int:person_id>/active", people_page.set_active, name="people-active"),
    path("people/<int:person_id>/reset", people_page.reset, name="people-reset"),
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
        "account/company/disconnect",
        second_step_pages.disconnect_company,
        name="account-company-disconnect",
    ),
    path("password/", people.password, name="password"),
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
    path("notices/<int:notice_id>/dismiss", people.dismiss_notice, name="notice-dismiss"),
    path("metrics", operations.prometheus, name="metrics"),
    path(
        "policies/<slug:tenant>/<str:sha256>/",
        policy_documents.policy_document,
        name="policy-document",
    ),
    path("reviews/", reviews.reviews, name="reviews"),
    path("reviews/<int:review_id>", reviews.review, name="review"),
    path("history/", history.history, name="history"),
    path("history/export.<str:form>", history.export, name="history-export"),
    *INSIGHT,
    path("tools/", inbox.tools, name="tools"),
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
    path("first/tools/", first_start.tools, name="first-tools"),
    path("first/token/", first_start.token, name="first-token"),
    path("first/waiting", first_start.waiting, name="first-waiting"),
    path("first/<str:token>/", first_start.first_account, name="first-account"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
]
