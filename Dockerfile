# The image of web, worker, beat and migrate; docker-compose.yml says which is which.
FROM python:3.13-slim AS build
ENV UV_LINK_MODE=copy UV_COMPILE_BYTECODE=1 UV_PYTHON_DOWNLOADS=never PIP_DISABLE_PIP_VERSION_CHECK=1
WORKDIR /app
COPY tools/uv.txt tools/
RUN pip install --no-cache-dir --require-hashes --requirement tools/uv.txt
COPY pyproject.toml uv.lock ./
# Neither the embedded servers nor the tools of development.
RUN uv sync --frozen --no-default-groups --extra parquet
COPY package.json package-lock.json manage.py LICENSE ./
COPY agent agent
COPY benchapp benchapp
COPY docs docs
COPY static static
COPY templates templates
RUN .venv/bin/python -m benchapp.operation.embedded.javascript \
 && .venv/bin/python manage.py collectstatic --no-input \
 && rm -rf .esbuild \
 && .venv/bin/python -m compileall -q agent benchapp

FROM python:3.13-slim
RUN useradd --uid 10001 --user-group --no-create-home --shell /usr/sbin/nologin benchapp
WORKDIR /app
COPY --from=build /app /app
ENV PATH=/app/.venv/bin:$PATH PYTHONUNBUFFERED=1 MALLOC_ARENA_MAX=2 MALLOC_MMAP_THRESHOLD_=1048576 \
    DJANGO_SETTINGS_MODULE=benchapp.settings BENCHAPP_DATA_DIR=/nonexistent
USER benchapp
EXPOSE 8000
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 \
  CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["granian", "--interface", "asginl", "--host", "0.0.0.0", "--port", "8000", "--workers", "1", "--no-ws", "--http", "1", "--http1-buffer-size", "65536", "benchapp.asgi:application"]
