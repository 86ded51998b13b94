from __future__ import annotations

from django.urls import path

from a2a.transports import card_views, news

app_name = "a2a"
urlpatterns = [
    path(".well-known/agent-card.json", card_views.card, name="card"),
    path(".well-known/jwks.json", card_views.jwks, name="jwks"),
    path("a2a/v0.3/agent-card.json", card_views.v03_card, name="v03-card"),
    path("a2a/news/<int:mirror_id>", news.news, name="news"),
    path("a2a/schemas/<str:name>", card_views.schema, name="schema"),
]
