from __future__ import annotations

from django.contrib.auth.views import LoginView, LogoutView
from django.urls import path

from approvals.web import (
    operations,
    people_views,
    record_views,
    slack_views,
    task_views,
    views,
)

app_name = "desk"
urlpatterns = [
    path("", views.inbox_view, name="inbox"),
    path("rows", views.rows, name="rows"),
    path("transactions/<uuid:transaction_id>/", views.transaction, name="transaction"),
    path("transactions/<uuid:transaction_id>/approve", views.approve, name="transaction-approve"),
    path("transactions/<uuid:transaction_id>/reject", views.reject, name="transaction-reject"),
    path("transactions/<uuid:transaction_id>/resolve", views.resolve, name="transaction-resolve"),
    path(
        "transactions/<uuid:transaction_id>/compensate",
        views.compensate,
        name="transaction-compensate",
    ),
    path(
        "transactions/<uuid:transaction_id>/record/",
        record_views.transaction,
        name="transaction-record",
    ),
    path(
        "transactions/<uuid:transaction_id>/record.json",
        record_views.transaction_file,
        name="transaction-record-file",
    ),
    path("tasks/<uuid:task_id>/record/", record_views.task, name="task-record"),
    path("tasks/<uuid:task_id>/record.json", record_views.task_file, name="task-record-file"),
    path("questions/<uuid:question_id>/", task_views.question, name="question"),
    path("questions/<uuid:question_id>/answer", task_views.answer, name="question-answer"),
    path("tasks/", task_views.tasks, name="tasks"),
    path("tasks/<uuid:task_id>/", task_views.task, name="task"),
    path("tasks/<uuid:task_id>/cancel", task_views.cancel, name="task-cancel"),
    path("ops/", operations.operations, name="operations"),
    path(
        "ops/deliveries/<int:delivery_id>/again", operations.send_again, name="delivery-send-again"
    ),
    path("slack/", slack_views.slack, name="slack"),
    path("slack/<int:workspace_id>/link", slack_views.ask, name="slack-ask"),
    path("slack/<int:workspace_id>/unlink", slack_views.unlink, name="slack-unlink"),
    path("slack/link/<str:token>/", slack_views.confirm, name="slack-confirm"),
    path("changes/", people_views.changes_view, name="changes"),
    path("changes/<int:change_id>/confirm", people_views.confirm_change, name="change-confirm"),
    path("changes/<int:change_id>/decline", people_views.decline_change, name="change-decline"),
    path("password/", people_views.password, name="password"),
    path("notices/<int:notice_id>/dismiss", people_views.dismiss_notice, name="notice-dismiss"),
    path("metrics", operations.prometheus, name="metrics"),
    path("history/", views.history, name="history"),
    path("history/export.<str:form>", views.export, name="history-export"),
    path("tools/", views.tools, name="tools"),
    path(
        "sign-in/",
        LoginView.as_view(
            template_name="registration/sign_in.html", redirect_authenticated_user=True
        ),
        name="sign-in",
    ),
    path("sign-out", LogoutView.as_view(), name="sign-out"),
]
