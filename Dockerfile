# Builds the binary, then an image with nothing but it, a C library and the system's authorities. Runs as an unprivileged user.
FROM rust:1-slim-bookworm AS build
WORKDIR /src
COPY Cargo.toml Cargo.lock ./
COPY src src
COPY benches benches
COPY tests tests
# The examples are another member of the workspace: the image needs the proxy alone.
RUN sed -i 's/^members = .*/members = ["."]/' Cargo.toml
RUN --mount=type=cache,target=/usr/local/cargo/registry --mount=type=cache,target=/src/target \
    cargo build --release --bin untwin && cp target/release/untwin /usr/local/bin/untwin

FROM debian:bookworm-slim
# For sslrootcert=system.
RUN apt-get update && apt-get install -y --no-install-recommends ca-certificates && rm -rf /var/lib/apt/lists/*
RUN useradd --system --uid 10001 --user-group --no-create-home untwin \
    && install -d -o untwin -g untwin /var/lib/untwin
COPY --from=build /usr/local/bin/untwin /usr/local/bin/untwin
COPY LICENSE /usr/share/doc/untwin/LICENSE
USER untwin
VOLUME /var/lib/untwin
# Where the journal is, if no setting says otherwise: /var/lib/untwin/journal.jsonl. The user has no home directory.
ENV XDG_STATE_HOME=/var/lib
ENV UNTWIN_LISTEN=0.0.0.0:6432
ENV UNTWIN_ADMIN_LISTEN=0.0.0.0:9632
EXPOSE 6432 9632
# Healthy is: clients are welcome. Whether the database behind it answers is the database's own check.
HEALTHCHECK --interval=10s --timeout=3s --start-period=5s --start-interval=1s \
    CMD ["bash", "-c", "exec 3<>/dev/tcp/127.0.0.1/9632 && printf 'GET /readyz HTTP/1.0\\r\\n\\r\\n' >&3 && grep -q '^ready' <&3"]
ENTRYPOINT ["untwin"]
