# The image of every command, in the first place of `streamer worker`. `docker compose build` makes it.
#
# It has no compiler, runs as nobody, and writes nowhere but /tmp, so its root may be read-only. Kubernetes:
# readOnlyRootFilesystem, runAsNonRoot, an emptyDir for /tmp; table.yaml comes as a volume at /table.
# The machine code is built here, for x86-64-v2 and v3 or for arm64: which fits a processor is chosen where it runs.
FROM python:3.11 AS build
WORKDIR /src
RUN python -m venv /opt/streamer
ENV PATH=/opt/streamer/bin:$PATH
COPY requirements requirements
RUN pip install --no-cache-dir --require-hashes -r requirements/worker.txt
COPY pyproject.toml MANIFEST.in README.md LICENSE ./
COPY .ci/backend.py .ci/
COPY streamer streamer
COPY agents agents
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
 && pip uninstall --yes setuptools pip

FROM python:3.11-slim
COPY --from=build /opt/streamer /opt/streamer
ENV PATH=/opt/streamer/bin:$PATH HOME=/tmp PYTHONUNBUFFERED=1
USER 65534:65534
WORKDIR /table
EXPOSE 8080
CMD ["streamer", "worker", "--table", "/table", "--web", "0.0.0.0:8080"]
