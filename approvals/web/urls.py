"""The addresses of the desk's pages."""

from __future__ import annotations

from django.contrib.auth.views import LogoutView
from django.urls import path

from approvals.web import (
    giving,
    history,
    inbox,
    installing,
    notifications,
    operations,
    people,
    policy_documents,
    records,
    reviews,
    slack_link,
    tasks,
    transactions,
)
from approvals.web.sign_in import SignIn

app_name = "desk"
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
    path("tasks/<uuid:task_id>/revise/", giving.revise, name="task-revise"),
    path("tasks/<uuid:task_id>/cancel", tasks.cancel, name="task-cancel"),
    path("ops/", operations.operations, name="operations"),
    path(
        "ops/deliveries/<int:delivery_id>/again", operations.send_again, name="delivery-send-again"
    ),
    path("slack/", slack_link.slack, name="slack"),
    path("slack/<int:workspace_id>/link", slack_link.ask, name="slack-ask"),
    path("slack/<int:workspace_id>/unlink", slack_link.unlink, name="slack-unlink"),
    path("slack/link/<str:token>/", slack_link.confirm, name="slack-confirm"),
    path("changes/", people.changes_view, name="changes"),
    path("changes/<int:change_id>/confirm", people.confirm_change, name="change-confirm"),
    path("changes/<int:change_id>/decline", people.decline_change, name="change-decline"),
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
    path("tools/", inbox.tools, name="tools"),
    path("sign-in/", SignIn.as_view(), name="sign-in"),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
]
