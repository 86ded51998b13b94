FROM python:3.12-slim
ENV PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
# For git buses: the git program, and ssh with ssh-keygen.
RUN apt-get update && apt-get install -y --no-install-recommends git openssh-client \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /app
COPY requirements.lock .
RUN pip install --no-cache-dir --require-hashes -r requirements.lock
COPY . .
RUN ASSENT_SECRET_KEY=build python manage.py collectstatic --noinput && useradd --system assent \
    && install -d -o assent /log /buses
USER assent
CMD ["granian", "--interface", "asgi", "--ws", "--respawn-failed-workers", "--backpressure", "20000", "--http1-header-read-timeout", "10000", "--workers-kill-timeout", "5", "--log-level", "warning", "--host", "0.0.0.0", "--port", "8000", "approvals.asgi:application"]
