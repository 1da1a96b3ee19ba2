# The program alone, on a small Debian, as a user without rights. docs/operating/install.md says how to run it.

FROM rust:1.95-slim-trixie AS build
# The compiler of the image is the one that rust-toolchain.toml asks for, without its tools for developers.
ENV RUSTUP_TOOLCHAIN=1.95.0
WORKDIR /source
COPY . .
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/source/target \
    cargo build --profile dist --locked --package bezoar-cli \
    && cp target/dist/bezoar /bezoar

FROM debian:trixie-slim
# Certificates to deliver to https endpoints.
RUN apt-get update --quiet \
    && apt-get install --quiet --yes --no-install-recommends ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && useradd --system --uid 8420 --home-dir /var/lib/bezoar --create-home --shell /usr/sbin/nologin bezoar
COPY --from=build /bezoar /usr/bin/bezoar
USER bezoar
# Messages, below the folder that it is started in.
WORKDIR /var/lib/bezoar
VOLUME /var/lib/bezoar
# Loopback in a container is nobody else's, so it must listen beyond that: this needs a token.
ENV BEZOAR_SERVER__LISTEN=0.0.0.0:8420
# Bodies of 128 KiB and more are given back to the system as soon as they are handled.
ENV MALLOC_MMAP_THRESHOLD_=131072
EXPOSE 8420
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["bezoar", "health"]
ENTRYPOINT ["bezoar"]
CMD ["up"]
