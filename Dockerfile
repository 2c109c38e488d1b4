# One image for each service (kb-knowledge has two programs: `python -m kb_knowledge.runner` is the other), and one with the operator's commands. docs/reference/images.md describes them; `make images` builds
# and tries all of them. One alone: docker build --target kb-api --tag kb-api .
#
# The final stages run nothing: they copy what the stages before them have made.

ARG PYTHON_IMAGE=docker.io/library/python:3.11-slim-bookworm
ARG IMAGE=kb-api

FROM ${PYTHON_IMAGE} AS tools
WORKDIR /build
COPY images/install.py images/unneeded.txt images/

FROM tools AS wheels
COPY images/build.lock images/
RUN ["python", "images/install.py", "tool", "/opt/build", "images/build.lock"]
COPY contracts contracts
COPY shared shared
COPY client client
COPY services services
RUN ["/opt/build/bin/pip", "--no-cache-dir", "wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", "/wheels", \
     "./contracts", "./shared", "./client", "./services/kb-api", "./services/indexer", "./services/search", "./services/knowledge", "./services/console", \
     "./services/reconciler"]

FROM ${PYTHON_IMAGE} AS runtime
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.vendor="Knowledge bases" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}" \
      org.opencontainers.image.revision="${REVISION}"
# The current folder is never searched for modules, no bytecode is written, and a crash in C code prints where it was. NumPy's
# operations here are small: threads of its own would only take the cores from other processes.
ENV PATH=/opt/kb/bin:$PATH \
    PYTHONSAFEPATH=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    PYTHONFAULTHANDLER=1 \
    OMP_NUM_THREADS=1 \
    OPENBLAS_NUM_THREADS=1 \
    HOME=/tmp
WORKDIR /tmp
USER 10001:10001

FROM runtime AS service
COPY images/healthcheck.py /opt/healthcheck.py
ENV KB_HTTP_HOST=0.0.0.0 \
    KB_HTTP_PORT=8080
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=15s --timeout=5s --start-period=30s --retries=3 CMD ["python", "-I", "-S", "/opt/healthcheck.py"]

FROM tools AS kb-api-parts
COPY images/kb-api.lock images/
RUN ["python", "images/install.py", "dependencies", "images/kb-api.lock"]
COPY --from=wheels /wheels /wheels
RUN ["python", "images/install.py", "packages", "kb_contracts", "kb_shared", "kb_api"]

FROM service AS kb-api
LABEL org.opencontainers.image.title="kb-api" \
      org.opencontainers.image.description="Knowledge bases: HTTP for people and upstream services"
COPY --from=kb-api-parts /opt/kb /opt/kb
COPY --from=kb-api-parts /opt/packages /opt/kb
ENTRYPOINT ["python", "-m", "kb_api"]

FROM tools AS kb-indexer-parts
COPY images/kb-indexer.lock images/
RUN ["python", "images/install.py", "dependencies", "images/kb-indexer.lock"]
COPY --from=wheels /wheels /wheels
RUN ["python", "images/install.py", "packages", "kb_contracts", "kb_shared", "kb_indexer"]

FROM service AS kb-indexer
LABEL org.opencontainers.image.title="kb-indexer" \
      org.opencontainers.image.description="Document events in, searchable chunks out"
COPY --from=kb-indexer-parts /opt/kb /opt/kb
COPY --from=kb-indexer-parts /opt/packages /opt/kb
ENTRYPOINT ["python", "-m", "kb_indexer"]

FROM tools AS kb-search-parts
COPY images/kb-search.lock images/
RUN ["python", "images/install.py", "dependencies", "images/kb-search.lock"]
COPY --from=wheels /wheels /wheels
RUN ["python", "images/install.py", "packages", "kb_contracts", "kb_shared", "kb_client", "kb_search"]

FROM service AS kb-search
LABEL org.opencontainers.image.title="kb-search" \
      org.opencontainers.image.description="Search over knowledge bases, and runs of chat models that cite"
COPY --from=kb-search-parts /opt/kb /opt/kb
COPY --from=kb-search-parts /opt/packages /opt/kb
ENTRYPOINT ["python", "-m", "kb_search"]

FROM tools AS kb-knowledge-parts
COPY images/kb-knowledge.lock images/
RUN ["python", "images/install.py", "dependencies", "images/kb-knowledge.lock"]
COPY --from=wheels /wheels /wheels
RUN ["python", "images/install.py", "packages", "kb_contracts", "kb_shared", "kb_client", "kb_knowledge"]

FROM service AS kb-knowledge
LABEL org.opencontainers.image.title="kb-knowledge" \
      org.opencontainers.image.description="Knowledge that people write, import or have fetched"
COPY --from=kb-knowledge-parts /opt/kb /opt/kb
COPY --from=kb-knowledge-parts /opt/packages /opt/kb
ENTRYPOINT ["python", "-m", "kb_knowledge"]

FROM tools AS kb-console-parts
COPY images/kb-console.lock images/
RUN ["python", "images/install.py", "dependencies", "images/kb-console.lock"]
COPY --from=wheels /wheels /wheels
RUN ["python", "images/install.py", "packages", "kb_contracts", "kb_shared", "kb_client", "kb_console"]

FROM service AS kb-console
LABEL org.opencontainers.image.title="kb-console" \
      org.opencontainers.image.description="Knowledge bases: the web console"
COPY --from=kb-console-parts /opt/kb /opt/kb
COPY --from=kb-console-parts /opt/packages /opt/kb
ENTRYPOINT ["python", "-m", "kb_console"]

FROM tools AS kb-reconciler-parts
COPY images/kb-reconciler.lock images/
RUN ["python", "images/install.py", "dependencies", "images/kb-reconciler.lock"]
COPY --from=wheels /wheels /wheels
RUN ["python", "images/install.py", "packages", "kb_contracts", "kb_shared", "kb_reconciler"]

FROM service AS kb-reconciler
LABEL org.opencontainers.image.title="kb-reconciler" \
      org.opencontainers.image.description="Finds drift, repairs it, and makes migrations"
COPY --from=kb-reconciler-parts /opt/kb /opt/kb
COPY --from=kb-reconciler-parts /opt/packages /opt/kb
ENTRYPOINT ["python", "-m", "kb_reconciler"]

FROM tools AS kb-admin-parts
COPY images/kb-admin.lock images/
RUN ["python", "images/install.py", "dependencies", "images/kb-admin.lock"]
COPY --from=wheels /wheels /wheels
RUN ["python", "images/install.py", "packages", "kb_contracts", "kb_shared", "kb_client", "kb_reconciler"]

FROM runtime AS kb-admin
LABEL org.opencontainers.image.title="kb-admin" \
      org.opencontainers.image.description="The kb command: set-up, backup, restore, export and import, for operators"
COPY --from=kb-admin-parts /opt/kb /opt/kb
COPY --from=kb-admin-parts /opt/packages /opt/kb
ENTRYPOINT ["kb"]

# The bill of materials of one image: docker build --target sbom --build-arg IMAGE=kb-api --output .images/sbom .
FROM tools AS sbom-tool
COPY images/sbom.lock images/
RUN ["python", "images/install.py", "tool", "/opt/sbom", "images/sbom.lock"]

FROM ${IMAGE} AS described

FROM sbom-tool AS sbom-of-image
WORKDIR /sbom
COPY --from=described /opt/kb /opt/kb
RUN ["/opt/sbom/bin/cyclonedx-py", "environment", "--output-reproducible", "--output-file", "/sbom/sbom.cdx.json", "/opt/kb/bin/python"]

FROM scratch AS sbom
COPY --from=sbom-of-image /sbom /
