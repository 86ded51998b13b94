"""Project wiring: settings, all from the environment. Importing this starts nothing."""

from __future__ import annotations

import os
import sys
from decimal import Decimal
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

import dj_database_url

from approvals import __version__, processes
from approvals.configuration import (
    commands,
    flag,
    logging_settings,
    names,
    oauth_settings,
    text,
)
from ledger.foundation import redis_connections

BASE_DIR = Path(__file__).resolve().parent.parent
VERSION = __version__


DEBUG = flag("ASSENT_DEBUG")
# Set by `make demo`: its people and their passwords are known to everybody.
IS_DEMO = DEBUG and flag("ASSENT_DEMO")
SECRET_KEY = text("ASSENT_SECRET_KEY")
# Earlier ones, whose sessions and signatures still count until they are taken off the list.
SECRET_KEY_FALLBACKS = names("ASSENT_SECRET_KEY_FALLBACKS")
ALLOWED_HOSTS = names("ASSENT_ALLOWED_HOSTS", "localhost,127.0.0.1,[::1]")
# Where people reach the desk, and where their browsers open what stays open (WebSocket and
# long-polls). Behind one proxy the two are the same.
PUBLIC_URL = text("ASSENT_PUBLIC_URL", "http://localhost:8000")
LIVE_URL = text("ASSENT_LIVE_URL", PUBLIC_URL)
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL]

# Modules with a tools.py, as one lists apps.
TOOL_APPS = names("ASSENT_TOOL_APPS")
# What may be left out: the product runs without each of them, and with ``none``.
OPTIONAL_APPS = names(
    "ASSENT_OPTIONAL_APPS",
    "a2a.doors.git_bus,a2a.doors.humanlayer,a2a.doors.mcp_server,approvals.insight,"
    "approvals.local,approvals.oauth,approvals.slack,approvals.conformance"
    + (",approvals.scim" if find_spec("scim2_models") else ""),  # of the extra scim
)
if OPTIONAL_APPS == ["none"]:
    OPTIONAL_APPS = []
INSTALLED_APPS = [
    "approvals",
    "a2a",
    "ledger",
    *OPTIONAL_APPS,
    *TOOL_APPS,
    "channels",
    "django_rq",
    "ninja",
    *(["oauth2_provider"] if "approvals.oauth" in OPTIONAL_APPS else []),
    "django.contrib.admin",
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.humanize",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.sessions",
    "django.contrib.staticfiles",
]
MIDDLEWARE = [
    "approvals.http.middleware.SecurityHeaders",
    "approvals.http.middleware.ProblemsForMachines",
    "approvals.http.middleware.StorableTexts",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "approvals.http.middleware.CompressedPages",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "approvals.http.preferences.PersonalPages",
    "approvals.http.expired_sessions.EndedSessions",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "approvals.http.middleware.TenantsOfUser",
    "approvals.http.visits.Visits",
    "approvals.http.middleware.DatabaseOutages",
    "approvals.http.not_found.MissingPages",
]
ROOT_URLCONF = "approvals.urls"
WSGI_APPLICATION = "approvals.wsgi.application"
ASGI_APPLICATION = "approvals.asgi.application"
APPEND_SLASH = True

TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "approvals.web.requests.desk",
            ],
            "libraries": {"ledger_pages": "approvals.admin.ledger_pages"},
        },
    }
]

DATABASE_URL = text("DATABASE_URL", "postgresql:///assent")
# The role that migrates. The processes are the one in DATABASE_URL, which may change less.
OWNER_DATABASE_URL = text("ASSENT_OWNER_DATABASE_URL")
# The sweeper's role: the only one that may write checkpoints, tiles and cosignatures.
LOG_DATABASE_URL = text("ASSENT_LOG_DATABASE_URL")
KEEPS_LOG = processes.run_by(sys.argv[1:]) is processes.SWEEPER
DATABASES = {
    "default": dj_database_url.parse(
        (KEEPS_LOG and LOG_DATABASE_URL) or DATABASE_URL,
        engine="ledger.foundation.postgres.backend",
        conn_max_age=600,
    )
}
DATABASES["default"]["CONN_HEALTH_CHECKS"] = False
# "transaction" behind a pooler that gives each database transaction another session.
DATABASE_POOLING = text("ASSENT_DATABASE_POOLING", "session")
DATABASES["default"]["DISABLE_SERVER_SIDE_CURSORS"] = DATABASE_POOLING == "transaction"
DATABASES["default"]["OPTIONS"] = {
    "connect_timeout": 3,  # seconds
    # A host or a network that is gone is noticed within about ten seconds: by the kernel's probes
    # while nothing is sent, and by the lack of acknowledgements (ms) where something was.
    "keepalives_idle": 4,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 8_000,
    **DATABASES["default"].get("OPTIONS", {}),  # what the URL says counts
    "server_side_binding": True,
}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"

REDIS_URL = text("REDIS_URL", "redis://localhost:6379/0")
REDIS_POOL = redis_connections.pool_of(REDIS_URL)
RQ = {
    "COMMIT_MODE": "auto",  # we enqueue from on_commit already
    "QUEUE_CLASS": "ledger.workers.queues.IdQueue",
}
RQ_SHOW_ADMIN_LINK = False  # its pages are below /admin/rq/, for superusers only
_QUEUE = {
    # For RQ's pages about workers. Queues connect through the pool above (``IdQueue``).
    "URL": redis_connections.limited(REDIS_URL),
    "SERIALIZER": "json",
}
RQ_QUEUES = {name: dict(_QUEUE) for name in processes.QUEUES}
# What workers do: the queues, and the outbox.
WORK, DELIVER = processes.WORK, processes.DELIVER
# What waits for others, and must not delay what does not.
COURIER_QUEUES = frozenset(processes.COURIER_QUEUES)
QUEUE_THREADS = processes.QUEUE_THREADS
# Of the signals between our processes: the first encrypts, all decrypt.
CHANNELS_KEYS = names("ASSENT_CHANNELS_KEY")
CHANNEL_LAYERS = {
    "default": {
        "BACKEND": "channels_redis.pubsub.RedisPubSubChannelLayer",
        "CONFIG": {
            "hosts": [
                {
                    **redis_connections.cancellable(REDIS_URL),
                    "socket_connect_timeout": redis_connections.CONNECT_S,
                    "socket_timeout": redis_connections.ANSWER_S,
                    "health_check_interval": 5,  # seconds; a connection that died silently
                }
            ],
            "prefix": "assent",
            "serializer_format": "json",
            # Encrypted and signed: who writes to Redis cannot make us deaf to what happened.
            "symmetric_encryption_keys": CHANNELS_KEYS,
        },
    }
}

AUTH_PASSWORD_VALIDATORS = [
    {"NAME": f"django.contrib.auth.password_validation.{name}"}
    for name in (
        "UserAttributeSimilarityValidator",
        "MinimumLengthValidator",
        "CommonPasswordValidator",
        "NumericPasswordValidator",
    )
]
# Seconds for which a proof of who they are lets people change how they sign in.
CONFIRMED_FOR_S = 300
# Sign-in with the company: OpenID Connect.
OIDC_ISSUER = text("ASSENT_OIDC_ISSUER")
OIDC_CLIENT_ID = text("ASSENT_OIDC_CLIENT_ID")
OIDC_CLIENT_SECRET = text("ASSENT_OIDC_CLIENT_SECRET")
OIDC_NAME = text("ASSENT_OIDC_NAME", "your company")
# By commas, as groups=assent-approvers:approver@acme: claims give nothing else.
OIDC_ROLES, OIDC_GROUPS = names("ASSENT_OIDC_ROLES"), names("ASSENT_OIDC_GROUPS")
# Where people connect agents of theirs, and how (OAuth 2.1); empty: operators issue all tokens.
AUTHORIZATION_SERVER = PUBLIC_URL if "approvals.oauth" in OPTIONAL_APPS else ""
OAUTH2_PROVIDER_APPLICATION_MODEL = "oauth.Client"
OAUTH2_PROVIDER_GRANT_MODEL = "oauth.Code"
OAUTH2_PROVIDER_ACCESS_TOKEN_MODEL = "oauth.AccessToken"
OAUTH2_PROVIDER_REFRESH_TOKEN_MODEL = "oauth.RefreshToken"
OAUTH2_PROVIDER_ID_TOKEN_MODEL = "oauth2_provider.IDToken"  # of the toolkit, and unused
OAUTH2_PROVIDER = oauth_settings(
    AUTHORIZATION_SERVER, registers_clients=flag("ASSENT_OAUTH_REGISTRATION", default=IS_DEMO)
)
# The header in which a proxy of these networks says which client certificate it has verified.
CLIENT_CERT_HEADER = text("ASSENT_CLIENT_CERT_HEADER")
TRUSTED_PROXIES = names("ASSENT_TRUSTED_PROXIES")
# Bearer token of the directory (SCIM), and the tenant of those whom it brings; else no /scim/.
SCIM_TOKEN, SCIM_TENANT = text("ASSENT_SCIM_TOKEN"), text("ASSENT_SCIM_TENANT")
LOGIN_URL = "/sign-in/"
LOGIN_REDIRECT_URL = "/"
LOGOUT_REDIRECT_URL = "/sign-in/"

LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = ["approvals.formats"]
LANGUAGES = [("en", "English"), ("de", "Deutsch")]
LOCALE_PATHS = [BASE_DIR / "approvals" / "locale"]
TIME_ZONE = text("ASSENT_TIME_ZONE", "UTC")
USE_TZ = True

STATIC_URL = "/static/"
STATIC_ROOT = BASE_DIR / "staticfiles"
STATICFILES_DIRS = [BASE_DIR / "static"]
# After `manage.py collectstatic` the built files are served, before it those of the source tree.
_IS_BUILT = "collectstatic" in sys.argv or (STATIC_ROOT / "staticfiles.json").exists()
WHITENOISE_USE_FINDERS = not _IS_BUILT
WHITENOISE_AUTOREFRESH = DEBUG
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": (
            "approvals.http.built_files.BuiltFiles"
            if _IS_BUILT
            else "django.contrib.staticfiles.storage.StaticFilesStorage"
        )
    },
}

# HTTPS unless PUBLIC_URL is a plain http:// address (a demo on this machine).
_HTTPS = PUBLIC_URL.startswith("https://")
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = _HTTPS
SESSION_COOKIE_NAME = "assent_session"
SESSION_COOKIE_AGE = 12 * 60 * 60  # seconds: one working day
CSRF_COOKIE_HTTPONLY = True
CSRF_FAILURE_VIEW = "approvals.http.expired_sessions.csrf_failure"
SECURE_SSL_REDIRECT = _HTTPS and flag("ASSENT_SSL_REDIRECT", default=True)
SECURE_HSTS_SECONDS = 365 * 24 * 60 * 60 if _HTTPS else 0
# Not by default: a company could not take it back for a year.
SECURE_HSTS_INCLUDE_SUBDOMAINS = SECURE_HSTS_PRELOAD = _HTTPS and flag("ASSENT_HSTS_SUBDOMAINS")
BEHIND_PROXY = flag("ASSENT_BEHIND_PROXY")
if BEHIND_PROXY:
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
SILENCED_SYSTEM_CHECKS = [
    *("security.W005", "security.W021"),  # subdomains are for the company to say
    "oauth2_provider.E003",  # http leads to programs on this computer alone: see ``Client.clean``
]
SECURE_REFERRER_POLICY = "same-origin"
DEFAULT_EXCEPTION_REPORTER_FILTER = "approvals.http.error_reports.WithoutSecrets"
X_FRAME_OPTIONS = "DENY"

DATA_UPLOAD_MAX_MEMORY_SIZE = 256 * 1024  # bytes of one request's body
DATA_UPLOAD_MAX_NUMBER_FIELDS = 2_000

# Seconds that a worker may be silent before another may ask what became of its work.
LEASE_S = float(text("ASSENT_LEASE_S", "15"))
# Limits other than the defaults in ledger/limits/terms.py, as agent.pending=1000; off: none at all.
LIMITS = names("ASSENT_LIMITS")
# Processes that share what comes in: each lets in its part of a limit per second.
WEB_PROCESSES = int(text("ASSENT_WEB_PROCESSES", "1"))
# Of the whole installation; they have database sessions too.
WORKER_PROCESSES = int(text("ASSENT_WORKER_PROCESSES", "2"))
COURIER_PROCESSES = int(text("ASSENT_COURIER_PROCESSES", "1"))
BUS_PROCESSES = int(text("ASSENT_BUS_PROCESSES", "0"))
# Database sessions that all processes may have together; 0: as many as PostgreSQL gives.
DATABASE_SESSIONS = int(text("ASSENT_DATABASE_SESSIONS", "0"))
# Amount (in whatever currency) from which settling by hand takes two operators.
SECOND_OPERATOR_FROM = Decimal(text("ASSENT_SECOND_OPERATOR_FROM", "1000"))
SWEEP_EVERY_S = float(text("ASSENT_SWEEP_EVERY_S", "1"))
CHECKPOINT_EVERY_S = float(text("ASSENT_CHECKPOINT_EVERY_S", "60"))
# Ed25519 private key (32 bytes, hexadecimal) that signs the audit checkpoints.
AUDIT_KEY = text("ASSENT_AUDIT_KEY")
# Ed25519 public keys (hexadecimal) that verified the log in former times, or verify it where the
# private one is not.
AUDIT_PUBLIC_KEYS = names("ASSENT_AUDIT_PUBLIC_KEYS")
# The name of our transparency log (C2SP tlog-checkpoint): the address of /log without its scheme.
LOG_ORIGIN = text("ASSENT_LOG_ORIGIN") or PUBLIC_URL.partition("://")[2].rstrip("/") + "/log"
# A file to which each signed checkpoint is appended, best on storage that nobody can change.
LOG_FILE = text("ASSENT_LOG_FILE")
# Witnesses that cosign checkpoints (C2SP tlog-witness): "<address> <verifier key>", by commas.
WITNESSES = names("ASSENT_WITNESSES")
# Ed25519 private keys of the agent card, of push notifications, of what tools over HTTP are asked,
# and of permits: the first signs, all are published, so that what an earlier one signed can still
# be checked.
CARD_KEYS = names("ASSENT_CARD_KEY")
PUSH_KEYS = names("ASSENT_PUSH_KEY")
TOOL_KEYS = names("ASSENT_TOOL_KEY")
PERMIT_KEYS = names("ASSENT_PERMIT_KEY")
# Programs that are MCP servers of tools, as JSON: {"files": ["/usr/bin/mcp-files", "/srv/files"]}.
MCP_COMMANDS = commands("ASSENT_MCP_COMMANDS")
# The same in a file, which is read again for each call: one may be added while all runs.
MCP_COMMANDS_FILE = os.environ.get("ASSENT_MCP_COMMANDS_FILE", "")
# All of our environment that these see: our secrets stand in it too.
_SEEN = ("HOME", "LANG", "LC_ALL", "PATH", "TMPDIR", "USER")
MCP_ENVIRONMENT = {name: os.environ[name] for name in _SEEN if name in os.environ}
# AES-256 keys (hexadecimal) of the secrets in the database: the first encrypts, all decrypt.
ENCRYPTION_KEYS = names("ASSENT_ENCRYPTION_KEYS")
# Web push (RFC 8292): the P-256 private key (32 bytes, hexadecimal) that signs, for couriers only,
# and its public half (base64url), which browsers are given. Without it there is no web push.
VAPID_KEY = text("ASSENT_VAPID_KEY")
VAPID_PUBLIC_KEY = text("ASSENT_VAPID_PUBLIC_KEY")
# smtp://user:password@host:port, smtp+starttls:// or smtps://; empty: no e-mail is sent.
EMAIL_URL = text("ASSENT_EMAIL_URL")
HAS_MAIL = flag("ASSENT_HAS_MAIL")  # for processes without that address, which leave it to couriers
_MAIL_SERVER = urlsplit(EMAIL_URL)
EMAIL_HOST = _MAIL_SERVER.hostname or "localhost"
EMAIL_PORT = _MAIL_SERVER.port or {"smtps": 465, "smtp+starttls": 587}.get(_MAIL_SERVER.scheme, 25)
EMAIL_HOST_USER = unquote(_MAIL_SERVER.username or "")
EMAIL_HOST_PASSWORD = unquote(_MAIL_SERVER.password or "")
EMAIL_USE_TLS = _MAIL_SERVER.scheme == "smtp+starttls"
EMAIL_USE_SSL = _MAIL_SERVER.scheme == "smtps"
EMAIL_TIMEOUT = 10  # seconds for each answer of the server
EMAIL_BACKEND = f"django.core.mail.backends.{'smtp' if EMAIL_URL else 'dummy'}.EmailBackend"
DEFAULT_FROM_EMAIL = text("ASSENT_EMAIL_FROM", f"Assent <assent@{urlsplit(PUBLIC_URL).hostname}>")
# Seconds after which an open desk is asked again whether its person may still listen.
SOCKET_CHECK_S = float(text("ASSENT_SOCKET_CHECK_S", "20"))
# Days for which the content of a task is kept, where its skill says nothing else.
TASK_RETENTION_DAYS = float(text("ASSENT_TASK_RETENTION_DAYS", "2555"))
# Seconds that a call of a HumanLayer client waits for sign-off; the client has no term of its own.
HUMANLAYER_TTL_S = float(text("ASSENT_HUMANLAYER_TTL_S", "86400"))
# How many levels deep a task may be delegated.
DELEGATION_BUDGET = int(text("ASSENT_DELEGATION_BUDGET", "5"))
# Seconds that a blocking A2A send waits at most.
BLOCKING_SEND_S = float(text("ASSENT_BLOCKING_SEND_S", "600"))
# Seconds that a remote agent may be out of reach before its tasks are given up.
REMOTE_LOST_S = float(text("ASSENT_REMOTE_LOST_S", "600"))
# Where the process of the git buses keeps its copies; they can be thrown away at any moment.
_OWN_FOLDER = text("ASSENT_HOME", str(BASE_DIR / ".assent"))
GIT_BUS_FOLDER = text("ASSENT_GIT_BUS_FOLDER", f"{_OWN_FOLDER}/buses")
# Whether a bus may be a folder of this machine, as in the demo.
GIT_BUS_LOCAL = flag("ASSENT_GIT_BUS_LOCAL")
# Bytes of one A2A request.
A2A_BODY_MAX = int(text("ASSENT_A2A_BODY_MAX", str(1024 * 1024)))
# Seconds within which the body of a request to the live process has to be there.
BODY_S = float(text("ASSENT_BODY_S", "30"))
# Database sessions that the threads of the live process share; a waiting thread holds none.
DATABASE_POOL = int(text("ASSENT_DATABASE_POOL", "20"))
# Threads that each live process has for pages and REST.
PAGE_THREADS = int(text("ASSENT_PAGE_THREADS", "4"))
# Plans of tools that one process runs at once, each in a thread of its own.
PLAN_THREADS = int(text("ASSENT_PLAN_THREADS", "12"))
# Calls of tools that one worker has at work at once; of one tool a quarter.
CALL_THREADS = int(text("ASSENT_CALL_THREADS", "256"))
# Bearer token with which /metrics may be read; without one it is not there.
METRICS_TOKEN = text("ASSENT_METRICS_TOKEN")
# Where the log goes for a SIEM: an address, the form that is spoken there, and its token.
SIEM_URL = text("ASSENT_SIEM_URL")
SIEM_FORM = text("ASSENT_SIEM_FORM", "json")
SIEM_TOKEN = text("ASSENT_SIEM_TOKEN")
# A file of certificate authorities (PEM) that vouch for it, in the place of the public ones.
SIEM_CA = text("ASSENT_SIEM_CA")
# Networks (CIDR) that webhooks may reach although they are private.
WEBHOOK_NETWORKS = names("ASSENT_WEBHOOK_NETWORKS")
# Ports of the public internet that we call; in the networks above any.
WEBHOOK_PORTS = names("ASSENT_WEBHOOK_PORTS", "80,443,8080,8443")

# Slack: a bot token per workspace, in the same order the signing secret and (for Socket Mode) the
# app-level token of its app; one secret or app token may stand for all.
SLACK_BOT_TOKENS = names("ASSENT_SLACK_BOT_TOKEN")
HAS_SLACK = flag("ASSENT_HAS_SLACK")  # for processes without the tokens
SLACK_SIGNING_SECRETS = names("ASSENT_SLACK_SIGNING_SECRET")
SLACK_APP_TOKENS = names("ASSENT_SLACK_APP_TOKEN")
# http: Slack calls us under /slack/. socket: `manage.py slack_listen` calls Slack.
SLACK_TRANSPORT = text("ASSENT_SLACK_TRANSPORT", "http")
SLACK_API_URL = text("ASSENT_SLACK_API_URL", "https://slack.com/api/")

# Where the web processes of this host count requests: of the machine's memory, best of all.
METRICS_FOLDER = text("ASSENT_METRICS_FOLDER")

SENDS_TRACES = bool(
    text("OTEL_EXPORTER_OTLP_ENDPOINT") or text("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
)
LOG_FORMAT = text("ASSENT_LOG_FORMAT", "plain" if IS_DEMO or sys.stderr.isatty() else "json")
LOGGING = logging_settings(
    LOG_FORMAT, level=text("ASSENT_LOG_LEVEL", "WARNING"), tells_checkpoints=not IS_DEMO
)
