# The image of every command, in the first place of `streamer worker`. `docker compose build` makes it.
#
# It has no compiler, runs as nobody, and writes nowhere but /tmp and its folder of machine code, so its root may be
# read-only. Kubernetes: readOnlyRootFilesystem, runAsNonRoot, an emptyDir for /tmp; table.yaml comes as a volume at /table.
FROM python:3.11-slim AS build
WORKDIR /src
RUN python -m venv /opt/streamer
ENV PATH=/opt/streamer/bin:$PATH
COPY requirements requirements
RUN pip install --no-cache-dir --require-hashes -r requirements/worker.txt
COPY pyproject.toml README.md LICENSE ./
COPY streamer streamer
COPY agents agents
RUN pip install --no-cache-dir --no-deps --no-build-isolation . \
 && pip uninstall --yes setuptools pip

FROM python:3.11-slim
COPY --from=build /opt/streamer /opt/streamer
RUN install -d -o 65534 -g 65534 -m 700 /var/cache/streamer
ENV PATH=/opt/streamer/bin:$PATH HOME=/tmp NUMBA_CACHE_DIR=/var/cache/streamer PYTHONUNBUFFERED=1
USER 65534:65534
# Else a worker is slow for its first minute, as it is on a processor of another kind than that of the build.
RUN streamer warm --core float32
# A volume is writable, also if the root is not, and begins with what the image has.
VOLUME /var/cache/streamer
WORKDIR /table
EXPOSE 8080
CMD ["streamer", "worker", "--table", "/table", "--web", "0.0.0.0:8080"]
