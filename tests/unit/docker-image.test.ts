import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Readable } from "node:stream";
import { extract } from "tar-stream";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { runCommandLine } from "../../src/cli/main.ts";
import { createOutput } from "../../src/cli/output/output.ts";
import { imageName } from "../../src/sandbox/drivers/docker/image.ts";
import { runHere } from "../support/command-line.ts";
import { type FakeEngine, fakeEngine, json, type Route } from "../support/fake-docker-engine.ts";

// As much of `sandbox image build` as an engine with prepared answers can show.

let folder = "";
let engine: FakeEngine | null = null;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-image-test-"));
});
afterEach(async () => {
  await engine?.close();
  rmSync(folder, { recursive: true, force: true });
});

type Line = Readonly<Record<string, unknown>>;
const says =
  (...lines: Line[]): Route =>
  (reply) =>
    void reply.writeHead(200).end(lines.map((line) => `${JSON.stringify(line)}\r\n`).join(""));
const built = [
  { stream: "Step 1/4 : ARG BASE" },
  { stream: "\n" },
  { stream: "Step 2/4 : FROM debian:12" },
  { stream: " ---> 693d97e78f03\n" },
  { stream: "Step 3/4 : RUN apt-get -q update\n" },
  { stream: " ---> Using cache\n" },
  { stream: "Step 4/4 : RUN make it" },
  { stream: "\n ---> Running in 54de148411c9\n" },
  { stream: "Fetched 100 kB\nUnpacking\n" },
  { stream: "Removing intermediate container 54de148411c9\n" },
  { stream: "Successfully built 0eddaa2a3742\n" },
];
const versions = ["v20.20.2", "git version 2.39.5", "Python 3.11.2", ""].join("\r\n");
const routes = (build: Route): Record<string, Route> => ({
  "GET /version": json({ Version: "24.0.7", ApiVersion: "1.43", Os: "linux" }),
  "POST /build": build,
  [`GET /images/${imageName()}/json`]: json({ Id: "sha256:new", Size: 700 * 1024 ** 2, RepoTags: [] }),
  "POST /containers/create": json({ Id: "c1" }, 201),
  "POST /containers/c1/start": (reply) => void reply.writeHead(204).end(),
  "POST /containers/c1/wait": json({ StatusCode: 0 }),
  "GET /containers/c1/logs": (reply) => void reply.writeHead(200).end(versions),
  "DELETE /containers/c1": (reply) => void reply.writeHead(204).end(),
});

async function run(build: Route, ...options: string[]) {
  engine = await fakeEngine(folder, routes(build));
  return runHere(["sandbox", "image", "build", ...options], engine.environment);
}

/** The files of a build's context, with their modes. */
async function filesOf(context: Buffer): Promise<Record<string, { mode: number; text: string }>> {
  const files: Record<string, { mode: number; text: string }> = {};
  const tar = extract();
  Readable.from([context]).pipe(tar as never);
  for await (const entry of tar) {
    let text = "";
    for await (const chunk of entry) text += chunk;
    files[entry.header.name] = { mode: entry.header.mode ?? 0, text };
  }
  return files;
}

describe("sandbox image build", () => {
  it("prints the running steps in a pipe, and the image at the end", async () => {
    const { code, stdout, stderr } = await run(says(...built));
    expect(stderr).toBe("");
    expect(code).toBe(0);
    expect(stdout.replace(/ in [\d.]+s$/m, "").split("\n")).toEqual([
      "step 2/4: FROM debian:12",
      "step 3/4: RUN apt-get -q update",
      "step 4/4: RUN make it",
      `unchanged: ${imageName()}`,
      "  id        sha256:new",
      "  size      700 MiB",
      "  inside    Node 20.20.2, git 2.39.5, Python 3.11.2",
      expect.stringMatching(/^ {2}guest {5}protocol \d+$/),
      "",
    ]);
    expect(engine?.asked.at(-1)).toBe("DELETE /containers/c1");
  });

  it("prints one object per line with --json, the last of which is the image", async () => {
    const { stdout } = await run(says(...built), "--json");
    const lines = stdout
      .trimEnd()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines).toContainEqual({ type: "step", step: 3, steps: 4, instruction: "RUN apt-get -q update" });
    expect(lines).toContainEqual({ type: "cached", step: 3 });
    expect(lines.filter(({ type }) => type === "output").map(({ text }) => text)).toEqual([
      "Fetched 100 kB",
      "Unpacking",
    ]);
    expect(lines.at(-1)).toMatchObject({
      type: "image",
      image: imageName(),
      id: "sha256:new",
      versions: { node: "20.20.2", git: "2.39.5", python: "3.11.2" },
    });
  });

  it("sends the recipe, the guest and certificates, with modes that no checkout changes, and the options", async () => {
    const ca = join(folder, "certificates");
    mkdirSync(ca);
    const certificate = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n";
    writeFileSync(join(ca, "my company.pem"), certificate);
    writeFileSync(join(ca, "notes.txt"), "no certificate");
    let context = Buffer.alloc(0);
    let asked = new URLSearchParams();
    const build: Route = (reply, request) => {
      context = Buffer.from(request.body);
      asked = request.url.searchParams;
      says(...built)(reply, request);
    };
    expect((await run(build, "--base", "debian:12", "--ca", ca, "--chromium")).code).toBe(0);
    const files = await filesOf(context);
    expect(Object.keys(files).sort()).toEqual(
      [
        "Dockerfile",
        "agent-host.mjs",
        "builtin-agent.mjs",
        "ca/",
        "ca/my_company.pem.crt",
        "entrypoint",
        "guest.mjs",
        "install-node",
        "trust-certificates",
      ].sort(),
    );
    expect(files["ca/my_company.pem.crt"]?.text).toBe(certificate);
    expect(files.entrypoint?.mode).toBe(0o755);
    expect(files.Dockerfile?.mode).toBe(0o644);
    expect(files["guest.mjs"]?.text).toContain("/v1/");
    expect(JSON.parse(asked.get("buildargs") ?? "")).toMatchObject({ BASE: "debian:12", CHROMIUM: "1" });
    expect(asked.get("t")).toBe(imageName());
  });

  it("names the step that failed with its last lines, and what may help", async () => {
    const lines = Array.from({ length: 50 }, (_, index) => ({ stream: `line ${index}\n` }));
    const { code, stderr } = await run(
      says(
        { stream: "Step 6/24 : RUN apt-get -q update" },
        ...lines,
        { stream: "E: Unable to locate package jq\n" },
        { error: "The command '/bin/sh -c apt-get' returned a non-zero code: 100" },
      ),
    );
    expect(code).toBe(4);
    expect(stderr).toMatch(/step 6 of 24 \(RUN apt-get -q update\) failed: The command .* non-zero code: 100\n/);
    expect(stderr).toContain("\n  E: Unable to locate package jq\n");
    expect(stderr).toContain("\n  line 49\n");
    expect(stderr).not.toContain("line 20\n");
    expect(stderr).toMatch(/remedy: .*--ca FOLDER/);
  });

  it("says how to name another base if the base is unavailable", async () => {
    const step = { stream: "Step 2/24 : FROM debian:12" };
    const { code, stderr } = await run(says(step, { error: "pull access denied for nothing" }));
    expect(code).toBe(4);
    expect(stderr).toMatch(/step 2 of 24 .*pull access denied(?:.|\n)*remedy: .*--base IMAGE/);
  });

  it("does not mistake a lost engine for a finished one", async () => {
    const ended = await run(says({ stream: "Step 1/4 : ARG BASE" }));
    expect(ended.code).toBe(4);
    expect(ended.stderr).toContain("the engine closed the connection before the build was done");
    await engine?.close();
    const broken = await run((reply) => {
      reply.writeHead(200);
      reply.write(`${JSON.stringify({ stream: "Step 1/4 : ARG BASE" })}\n`, () => reply.destroy());
    });
    expect(broken.code).not.toBe(0);
  });

  it.each([
    ["is not there", () => undefined, /cannot be read/],
    ["has none", () => mkdirSync(join(folder, "ca")), /there is no certificate in/],
    [
      "has something else",
      () => {
        mkdirSync(join(folder, "ca"));
        writeFileSync(join(folder, "ca", "key.pem"), "-----BEGIN PRIVATE KEY-----");
      },
      /key\.pem is not a certificate/,
    ],
  ])("refuses a folder of certificates that %s, before anything is built", async (_, prepare, said) => {
    prepare();
    const { code, stderr } = await run(says(...built), "--ca", join(folder, "ca"));
    expect(code).toBe(2);
    expect(stderr).toMatch(said);
    expect(engine?.asked).not.toContain("POST /build");
  });

  it("exits with 4 and one line where there is no engine", async () => {
    engine = await fakeEngine(folder, {});
    const written: string[] = [];
    const write = (text: string, done?: () => void) => {
      written.push(text);
      done?.();
      return true;
    };
    const stream = { write, on: () => undefined };
    const out = createOutput({ stdout: stream, stderr: stream, environment: {} });
    const environment = { DOCKER_HOST: `unix://${join(folder, "none.sock")}` };
    expect(await runCommandLine(["sandbox", "image", "build"], out, environment)).toBe(4);
    expect(written.join("")).toMatch(
      /^wavesmith: (?:no Docker engine is running here: )?there is no socket .*\n {2}remedy: .*\n$/,
    );
  });
});

describe("the recipe", () => {
  const read = (name: string) => readFileSync(new URL(`../../sandbox-image/${name}`, import.meta.url), "utf8");

  it("is for the classic builder, which has neither mounts nor heredocs", () => {
    const instructions = read("Dockerfile").replace(/^#(?! syntax).*$/gm, "");
    expect(instructions).not.toMatch(/--mount|<<|^# syntax=/m);
  });

  it("prints a JSON object in every line of its entrypoint", () => {
    const texts = [...read("entrypoint").matchAll(/failed (\w+) "([^"]*)" "([^"]*)"/g)];
    expect(texts.length).toBeGreaterThan(5);
    for (const [, phase, message, remedy] of texts) {
      expect(() => JSON.parse(`{"phase":"${phase}","message":"${message}","remedy":"${remedy}"}`)).not.toThrow();
    }
  });
});
