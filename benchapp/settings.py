"""Settings: read from the environment, with defaults for a laptop; documented in docs/operations.md."""

import sys
from pathlib import Path
from typing import Any

import structlog
from django.core.exceptions import ImproperlyConfigured

from benchapp.framework.env import (
    read_broker,
    read_database,
    read_email_server,
    read_flag,
    read_integer,
    read_list,
    read_networks,
    read_oidc_provider,
    read_origins,
    read_ports,
    read_secret_key,
    read_text,
    read_time_zone,
)

BASE_DIR = Path(__file__).resolve().parent.parent
DATA_DIR = Path(read_text("BENCHAPP_DATA_DIR") or BASE_DIR / "var")
ROLE = read_text("BENCHAPP_ROLE", "command")
INSTANCE_ID = read_text("BENCHAPP_INSTANCE_ID")

DEBUG = read_flag("BENCHAPP_DEBUG", default=False)
# No default: `manage.py up` creates and stores one; otherwise the web process does not start without it.
SECRET_KEY = read_secret_key("BENCHAPP_SECRET_KEY", default="insecure-key-for-commands-that-sign-nothing")
ALLOWED_HOSTS = read_list("BENCHAPP_ALLOWED_HOSTS", default=("127.0.0.1", "localhost", "[::1]"))
PUBLIC_URL = read_text("BENCHAPP_PUBLIC_URL").rstrip("/")
PUBLIC_READ = read_flag("BENCHAPP_PUBLIC_READ", default=False)
# Remove what recurs with the hour and the weekday before detection.
DETECTION_SEASONS = read_flag("BENCHAPP_DETECTION_SEASONS", default=True)
TRUSTED_PROXIES = read_networks("BENCHAPP_TRUSTED_PROXIES")
BEHIND_TLS = PUBLIC_URL.startswith("https://")
# Also here: neither the web server nor Celery runs Django's checks.
if ROLE == "web" and SECRET_KEY.startswith("insecure-"):
    raise ImproperlyConfigured(
        "BENCHAPP_SECRET_KEY is not set; set at least 50 random characters (openssl rand -hex 32)"
    )
if DEBUG and BEHIND_TLS:
    raise ImproperlyConfigured(f"BENCHAPP_DEBUG is on while BENCHAPP_PUBLIC_URL is {PUBLIC_URL}; disable it")

INSTALLED_APPS = [
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "rest_framework",
    "drf_spectacular",
    "benchapp",
]
MIDDLEWARE = [
    # These four come first, so that responses of the others have their headers.
    "benchapp.framework.pages.security.add_headers",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "benchapp.framework.pages.security.check_proxy",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "benchapp.framework.pages.security.name_reader_and_writer",
    "benchapp.framework.api.view.PageLimit",
    "benchapp.framework.pages.page_context.apply_preferences",
    "benchapp.framework.pages.security.PageCompression",
    "benchapp.framework.api.parameters.check_query",
    "benchapp.framework.pages.page_context.note_parameters",
    "benchapp.framework.api.problems.answer_unavailable_database",
]
# Origins whose scripts may read the API with a token; cookies are never accepted from them (docs/api.md).
CORS_ORIGINS = read_origins("BENCHAPP_CORS_ORIGINS")
if CORS_ORIGINS:
    INSTALLED_APPS.append("corsheaders")
    # Behind the middleware of headers: its answers to preflight requests have them as well.
    MIDDLEWARE.insert(1, "benchapp.framework.pages.security.ReadOnlyCors")
    CORS_ALLOW_ALL_ORIGINS = CORS_ORIGINS == ["*"]
    CORS_ALLOWED_ORIGINS = [] if CORS_ALLOW_ALL_ORIGINS else CORS_ORIGINS
    CORS_URLS_REGEX = r"^/api/"
    CORS_ALLOW_CREDENTIALS = False
    CORS_ALLOW_METHODS = ["GET", "HEAD", "OPTIONS"]
    CORS_ALLOW_HEADERS = ["authorization", "content-type", "if-none-match", "x-request-id"]
    CORS_EXPOSE_HEADERS = [
        *("ETag", "Link", "Location", "Retry-After", "X-Request-ID"),
        *("RateLimit", "RateLimit-Policy", "Deprecation", "Sunset"),
        *("X-Is-Cut", "X-Is-Thinned", "X-Omitted-Rows", "X-Omitted-Columns", "X-Omitted-Panels"),
        *("X-Fixed", "X-Hidden-By-Fixed", "X-Unknown-X", "X-Omitted", "X-Ungrouped"),
        *("X-Outdated", "X-Incomplete", "X-Only-A", "X-Only-B"),
    ]
ROOT_URLCONF = "benchapp.urls"
ASGI_APPLICATION = "benchapp.asgi.application"
TEMPLATES: list[dict[str, Any]] = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "APP_DIRS": True,
        "OPTIONS": {
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "benchapp.framework.pages.page_context.describe_frame",
            ],
            "builtins": ["benchapp.templatetags.values", "django.templatetags.static"],
        },
    },
]

# Of web processes only: workers compare the answer of now with the last one. The largest results have 1 MB.
CACHES: dict[str, dict[str, Any]] = {
    "default": {
        "BACKEND": f"django.core.cache.backends.{'locmem.LocMemCache' if ROLE == 'web' else 'dummy.DummyCache'}",
        "OPTIONS": {"MAX_ENTRIES": 100},
    }
}

DATABASES: dict[str, dict[str, Any]] = {
    "default": read_database(
        "DATABASE_URL", "DATABASE_PASSWORD", default="postgresql://benchapp@127.0.0.1:5432/benchapp"
    )
}
# A server that is gone without a word is noticed in 25 s; libpq ignores these for sockets in a directory.
DATABASES["default"]["OPTIONS"] = {
    "connect_timeout": 3 if ROLE == "web" else 10,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 3,
    "tcp_user_timeout": 25_000,
    **DATABASES["default"]["OPTIONS"],
}
DATABASES["default"]["CONN_MAX_AGE"] = 0 if ROLE == "web" else 600
# The web process tests its pool after a failure instead (api.framework.database_errors.refresh_connections).
DATABASES["default"]["CONN_HEALTH_CHECKS"] = ROLE != "web"
# Limit for one statement of a page or the API: users have left by then, but the connection is still in use.
STATEMENT_TIMEOUT_S = read_integer("BENCHAPP_STATEMENT_TIMEOUT_S", default=30, minimum=0, maximum=3600)
if ROLE == "web":
    # Under ASGI every request has its own thread; only a pool keeps connections open between them.
    # By default the pool waits twice as long before each new attempt, for five minutes: the process stayed away for up
    # to a minute after an outage. After four seconds it gives up instead, and the next request connects at once.
    DATABASES["default"]["OPTIONS"]["pool"] = {
        "min_size": 1,
        "max_size": 16,
        "timeout": 2,
        "reconnect_timeout": 4,
    }
    DATABASES["default"]["ENGINE"] = "benchapp.watched_postgresql"
    if read_flag("BENCHAPP_PREPARED_STATEMENTS", default=True):
        # Of queries that bind values in the server (binary_columns.py): PostgreSQL takes several times as long to
        # parse and plan most queries of a page as to run them.
        DATABASES["default"]["OPTIONS"]["prepare_threshold"] = 5
    if STATEMENT_TIMEOUT_S:
        # First, so that options of DATABASE_URL override it.
        _given = DATABASES["default"]["OPTIONS"].get("options", "")
        # A transaction is idle while the client of a stream reads (handler.py), or for good if this process is frozen.
        DATABASES["default"]["OPTIONS"]["options"] = (
            f"-c statement_timeout={STATEMENT_TIMEOUT_S}s -c idle_in_transaction_session_timeout=120s {_given}".rstrip()
        )

if read_text("DATABASE_REPLICA_URL"):
    _primary = DATABASES["default"]
    _replica = read_database("DATABASE_REPLICA_URL", "DATABASE_PASSWORD", default="")
    DATABASES["replica"] = {**_primary, **_replica, "OPTIONS": {**_primary["OPTIONS"], **_replica["OPTIONS"]}}
    if ROLE == "web":
        DATABASES["replica"]["OPTIONS"]["pool"] = dict(_primary["OPTIONS"]["pool"])
        # Of those who are known, and may be limited to pools.
        _place = MIDDLEWARE.index("benchapp.framework.pages.security.name_reader_and_writer") + 1
        MIDDLEWARE.insert(_place, "benchapp.framework.read.replica.read_from_replica")

AUTH_USER_MODEL = "benchapp.User"
PASSWORD_HASHERS = [
    "django.contrib.auth.hashers.Argon2PasswordHasher",
    "django.contrib.auth.hashers.PBKDF2PasswordHasher",
]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
    {"NAME": "django.contrib.auth.password_validation.NumericPasswordValidator"},
]
# Links to set a password, as invitations (accounts.write.accounts.LINK_LIFETIME).
PASSWORD_RESET_TIMEOUT = 86_400
LOGIN_URL = "sign_in"
LOGIN_REDIRECT_URL = "home"
SESSION_COOKIE_SAMESITE = "Lax"
SESSION_COOKIE_SECURE = CSRF_COOKIE_SECURE = BEHIND_TLS
CSRF_TRUSTED_ORIGINS = [PUBLIC_URL] if PUBLIC_URL else []
SECURE_HSTS_SECONDS = 31_536_000 if BEHIND_TLS else 0
SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https") if TRUSTED_PROXIES else None
SECURE_SSL_REDIRECT = BEHIND_TLS and bool(TRUSTED_PROXIES)
# W005, W021: HSTS for a whole domain and its preload list are decided by the domain's owner.
SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]
SECURE_REDIRECT_EXEMPT = [r"^healthz$", r"^readyz$"]
SECURE_REFERRER_POLICY = "same-origin"
X_FRAME_OPTIONS = "DENY"
# The body guard has already limited the body.
DATA_UPLOAD_MAX_MEMORY_SIZE = 34 * 2**20
# An output with its 200 logs, or a folder of outputs; the body's limit bounds their size.
DATA_UPLOAD_MAX_NUMBER_FILES = 1000

LANGUAGE_CODE = "en"
USE_I18N = False
TIME_ZONE = "UTC"
# Of pages, for visitors and for users without a preference; the API, notices and log lines use UTC.
PAGE_TIME_ZONE = read_time_zone("BENCHAPP_TIME_ZONE", default="UTC")
USE_TZ = True

STATIC_URL = "static/"
STATIC_ROOT = Path(read_text("BENCHAPP_STATIC_ROOT") or BASE_DIR / "staticfiles")
STATICFILES_DIRS = [BASE_DIR / "static"]
# Without those of Django REST framework, whose pages are not used.
STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
# Hashed names come from `collectstatic`; without its manifest (a checkout, the tests) files are served unchanged.
_IS_COLLECTED = (STATIC_ROOT / "staticfiles.json").exists()
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {
        "BACKEND": "benchapp.framework.pages.static_files.StaticStorage"
        if _IS_COLLECTED or "collectstatic" in sys.argv
        else "django.contrib.staticfiles.storage.StaticFilesStorage"
    },
}
WHITENOISE_USE_FINDERS = not _IS_COLLECTED
WHITENOISE_AUTOREFRESH = not _IS_COLLECTED
# Templates and style sheets name the hashed files only.
WHITENOISE_KEEP_ONLY_HASHED_FILES = True

REST_FRAMEWORK = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "benchapp.framework.api.permissions.TokenAuthentication",
        "rest_framework.authentication.SessionAuthentication",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["benchapp.framework.api.permissions.MayRead"],
    "DEFAULT_RENDERER_CLASSES": ["benchapp.framework.api.answers.JsonRenderer"],
    "DEFAULT_PARSER_CLASSES": ["rest_framework.parsers.JSONParser"],
    "DEFAULT_SCHEMA_CLASS": "drf_spectacular.openapi.AutoSchema",
    "EXCEPTION_HANDLER": "benchapp.framework.api.problems.answer_exception",
    "URL_FORMAT_OVERRIDE": None,
}
SPECTACULAR_SETTINGS = {
    "TITLE": "benchapp",
    "DESCRIPTION": "The history of storage benchmarks. Base units: ns, bytes/s, operations/s, bytes, seconds.",
    "VERSION": "1",
    "SERVE_INCLUDE_SCHEMA": False,
    "OAS_VERSION": "3.1.1",
    "LICENSE": {"name": "MIT", "identifier": "MIT"},
    "SERVERS": [{"url": "/", "description": "this server"}],
    "POSTPROCESSING_HOOKS": [
        "benchapp.intake.api.submissions.add_intake_paths",
        "benchapp.framework.api.openapi.complete_document",
    ],
}

# Intake (docs/operations.md, "Limits").
BODY_LIMIT_BYTES = read_integer("BENCHAPP_BODY_LIMIT_MIB", default=8, minimum=1, maximum=256) * 2**20
UNPACKED_LIMIT_BYTES = read_integer("BENCHAPP_UNPACKED_LIMIT_MIB", default=32, minimum=1, maximum=512) * 2**20
# Limit for all bodies that a web process receives at one time, as sent (compressed).
BODIES_IN_FLIGHT_BYTES = (
    read_integer("BENCHAPP_BODIES_IN_FLIGHT_MIB", default=256, minimum=1, maximum=65_536) * 2**20
)
if BODIES_IN_FLIGHT_BYTES < BODY_LIMIT_BYTES:
    raise ImproperlyConfigured("BENCHAPP_BODIES_IN_FLIGHT_MIB must not be less than BENCHAPP_BODY_LIMIT_MIB")
BACKLOG_LIMIT = read_integer("BENCHAPP_BACKLOG_LIMIT", default=100_000, minimum=1, maximum=10_000_000)
# Patterns of the label `branch`, besides main: runs of other branches are in no level (docs/clients.md).
MAIN_BRANCHES = read_list("BENCHAPP_MAIN_BRANCHES", default=("master",))
HOST_QUOTA_PER_HOUR = read_integer(
    "BENCHAPP_HOST_QUOTA_PER_HOUR", default=3_600, minimum=1, maximum=10_000_000
)
HOST_NEW_SERIES_PER_DAY = read_integer(
    "BENCHAPP_HOST_NEW_SERIES_PER_DAY", default=5_000, minimum=1, maximum=10_000_000
)
DISK_RESERVE_BYTES = (
    read_integer("BENCHAPP_DISK_RESERVE_MIB", default=256, minimum=0, maximum=10_000_000) * 2**20
)

# Pages and API requests of a token, a user or an address, posted results apart; 0: no limit (docs/api.md). A client
# that waits for each answer does not reach 100 per second.
REQUESTS_PER_MINUTE = read_integer(
    "BENCHAPP_REQUESTS_PER_MINUTE", default=6_000, minimum=0, maximum=1_000_000
)
# Per client address, for shared studies (docs/studies.md).
SHARED_CHARTS_PER_MINUTE = read_integer(
    "BENCHAPP_SHARED_CHARTS_PER_MINUTE", default=300, minimum=1, maximum=1_000_000
)

# Notices (docs/notifications.md).
EMAIL_SERVER = read_email_server("BENCHAPP_EMAIL_URL")
EMAIL_FROM = read_text("BENCHAPP_EMAIL_FROM")
if EMAIL_SERVER is not None and "@" not in EMAIL_FROM:
    raise ImproperlyConfigured("BENCHAPP_EMAIL_FROM is not a valid sender; use benchapp <bench@example.org>")
# Sign-in with a provider (docs/accounts.md).
OIDC = read_oidc_provider(roles=("viewer", "editor", "admin"))
LOCAL_SIGN_IN = read_flag("BENCHAPP_LOCAL_SIGN_IN", default=True)
if OIDC is not None and not PUBLIC_URL:
    raise ImproperlyConfigured(
        "BENCHAPP_OIDC_ISSUER is set, but not BENCHAPP_PUBLIC_URL, to which the provider returns"
    )
if OIDC is None and not LOCAL_SIGN_IN:
    raise ImproperlyConfigured(
        "BENCHAPP_LOCAL_SIGN_IN is off without BENCHAPP_OIDC_ISSUER: nobody could sign in"
    )
NOTICE_RETENTION_DAYS = read_integer("BENCHAPP_NOTICE_RETENTION_DAYS", default=180, minimum=0, maximum=36_500)
# Recovered incidents are resolved after so many days without an event; 0: never.
RECOVERED_QUIET_DAYS = read_integer("BENCHAPP_RECOVERED_QUIET_DAYS", default=14, minimum=0, maximum=36_500)
# Audit records (docs/operations.md, "Audit records"); 0 keeps all.
# Published limits in addition to benchapp/framework/read/limits.csv, or instead of its rows.
LIMITS_FILE = read_text("BENCHAPP_LIMITS_FILE")
AUDIT_RETENTION_DAYS = read_integer("BENCHAPP_AUDIT_RETENTION_DAYS", default=730, minimum=0, maximum=36_500)
WEBHOOK_PORTS = read_ports("BENCHAPP_WEBHOOK_PORTS", default=(80, 443, 8443))
APPRISE_HOSTS = [host.lower() for host in read_list("BENCHAPP_APPRISE_HOSTS")]
WEBHOOK_ALLOW_PRIVATE = read_networks("BENCHAPP_WEBHOOK_ALLOW_PRIVATE")

BROKER_URL = read_broker("BROKER_URL", "BROKER_PASSWORD")
CELERY_BROKER_URL = BROKER_URL or None
CELERY_RESULT_BACKEND = None
CELERY_TASK_IGNORE_RESULT = True
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_TASK_CREATE_MISSING_QUEUES = False
CELERY_TASK_QUEUES = {"celery": {"exchange": "celery", "routing_key": "celery"}}
CELERY_TASK_DEFAULT_QUEUE = "celery"
CELERY_TASK_TIME_LIMIT = 90
CELERY_WORKER_SEND_TASK_EVENTS = False
CELERY_WORKER_ENABLE_REMOTE_CONTROL = False
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
# Forever: without the broker the worker asks PostgreSQL (benchapp.tasks.Substitute).
CELERY_BROKER_CONNECTION_MAX_RETRIES = None
# A full broker refuses what a worker writes to it: that is no reason to end.
CELERY_BROKER_CHANNEL_ERROR_RETRY = True
CELERY_WORKER_SOFT_SHUTDOWN_TIMEOUT = 20
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
AUTO_RENORMALIZE = read_flag("BENCHAPP_AUTO_RENORMALIZE", default=True)
SWEEP_INTERVAL_S = read_integer("BENCHAPP_SWEEP_INTERVAL_S", default=10, minimum=1, maximum=60)
CELERY_BEAT_SCHEDULE = {
    # A task hint may be lost; this processes submissions that are still received.
    "sweep": {
        "task": "benchapp.tasks.sweep",
        "schedule": float(SWEEP_INTERVAL_S),
        "options": {"expires": 60},
    },
    # Silent hosts, and due notices of the outbox.
    "notify": {
        "task": "benchapp.tasks.notify",
        "schedule": 60.0,
        "options": {"expires": 60},
    },
    # Layout questions of subscriptions, each at most once an hour.
    "answer_layout_questions": {
        "task": "benchapp.tasks.answer_layout_questions",
        "schedule": 300.0,
        "options": {"expires": 300},
    },
    # Additional runs that confirm regressions, one at a time for each host.
    "confirm": {
        "task": "benchapp.tasks.confirm",
        "schedule": 60.0,
        "options": {"expires": 60},
    },
    # Deletes old notices; stops after 20 s and continues an hour later.
    "forget": {
        "task": "benchapp.tasks.forget",
        "schedule": 3600.0,
        "options": {"expires": 600},
    },
    "resolve_recovered": {
        "task": "benchapp.tasks.resolve_recovered",
        "schedule": 3600.0,
        "options": {"expires": 600},
    },
    # At most a third of one worker's time: the task stops after 20 s.
    "renormalize": {
        "task": "benchapp.tasks.renormalize",
        "schedule": 60.0,
        "options": {"expires": 60},
    },
}
if ROLE in ("web", "command"):
    # Publishing is a hint and must not delay a response or a command (measured: 0.00 s if refused, 2 s if the broker
    # hangs; 6 s with the defaults).
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        "max_retries": 0,
        "interval_start": 0,
        "interval_step": 0,
        "interval_max": 0,
        "socket_connect_timeout": 1,
        "socket_timeout": 2,
    }
    CELERY_TASK_PUBLISH_RETRY = False
else:
    CELERY_BROKER_TRANSPORT_OPTIONS = {
        # A broker that hangs is lost: the main thread would wait for it, also when it is stopped.
        "socket_connect_timeout": 5,
        "socket_timeout": 5,
        "visibility_timeout": 600,
        "unacked_restore_interval": 5,
        "unacked_restore_throttle": 1,
    }

LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "formatters": {
        "line": {
            "()": "benchapp.operation.log_masking.MaskingFormatter",
            "processor": structlog.processors.KeyValueRenderer(key_order=["timestamp", "level", "event"]),
            "foreign_pre_chain": [
                structlog.contextvars.merge_contextvars,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.stdlib.add_log_level,
                structlog.processors.format_exc_info,
            ],
        }
    },
    "handlers": {"console": {"class": "logging.StreamHandler", "formatter": "line"}},
    "root": {"handlers": ["console"], "level": read_text("BENCHAPP_LOG_LEVEL", "INFO")},
    "loggers": {
        "django.request": {"level": "ERROR"},
        # benchapp.urls logs it, without the traceback.
        "django.security.DisallowedHost": {"level": "CRITICAL"},
        # Log lines of the server, including its access log, are masked as well: URLs may be secrets.
        "_granian": {"handlers": ["console"], "propagate": False},
        "granian.access": {"handlers": ["console"], "propagate": False},
    },
}
structlog.configure(
    processors=[
        # The id of the request.
        structlog.contextvars.merge_contextvars,
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        structlog.processors.format_exc_info,
        structlog.stdlib.ProcessorFormatter.wrap_for_formatter,
    ],
    logger_factory=structlog.stdlib.LoggerFactory(),
)
