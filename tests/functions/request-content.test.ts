import { generateKeyPairSync } from "node:crypto";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { servePreviews } from "../../src/cli/preview/serve-previews.ts";
import { stopPreview } from "../../src/coordinator/preview/preview.ts";
import { startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { createGitHubServer, type GitHubServer } from "../support/github-server.ts";
import { usualToken } from "../support/github-state.ts";

const serve = `node -e "require('http').createServer((q,s)=>s.end('up')).listen(process.env.PORT,'127.0.0.1')"`;
/** A test key of Stripe: a finding on a line, which does not block. */
const testKey = ["sk", "test", "4eC39HqLyjWDarjtT1zdp7dc"].join("_");

describe("what a request on GitHub has", { timeout: 240_000 }, () => {
  let server: GitHubServer;
  let fixture: BuildFixture;
  let folder: string;
  beforeAll(async () => {
    server = await createGitHubServer();
    folder = await mkdtemp(join(tmpdir(), "wavesmith-app-key-"));
  });
  afterAll(async () => {
    await server.close();
    await rm(folder, { recursive: true });
  });
  afterEach(() => fixture.close());
  const address = () => ({ WAVESMITH_GITHUB_API: server.url, WAVESMITH_GITHUB_URL: server.url });
  const asApp = async () => {
    const { privateKey } = generateKeyPairSync("rsa", { modulusLength: 2048 });
    const file = join(folder, "app.pem");
    await writeFile(file, privateKey.export({ type: "pkcs1", format: "pem" }));
    return { ...address(), WAVESMITH_GITHUB_APP_ID: "7", WAVESMITH_GITHUB_APP_KEY_FILE: file };
  };

  interface Output {
    readonly title: string;
    readonly annotations: readonly Record<string, unknown>[];
  }

  it("is a check for each gate on each wave's own head, with its findings on their lines", async () => {
    fixture = await createBuildFixture({ env: await asApp(), patienceMs: 150_000 });
    const repo = "octo-org/checked";
    const repository = await server.repository(repo);
    const build = await fixture.build({
      tasks: [
        { id: "one", run: `printf 'export const a = 1;\\nexport const key = "${testKey}";\\n' > one.js` },
        { id: "two", run: `printf 'export const key = "${testKey}";\\n' > two.js`, dependsOn: ["one"] },
      ],
      gates: {
        testing: { command: "echo 1..2; echo ok 1 - a; echo ok 2 - b" },
        integration: { command: "echo joined" },
      },
      deliver: { forge: "github", repo },
    });
    expect(build).toMatchObject({ status: "completed", reason: null });
    await expect
      .poll(() => repository.checkRuns.filter(({ sha }) => sha === build.headSha).length, { timeout: 60_000 })
      .toBe(3);
    const waves = await fixture.app.store.waves.list({ buildId: build.id }, { by: "number" });
    const shown = waves.map(({ headSha }) =>
      repository.checkRuns
        .filter(({ sha }) => sha === headSha)
        .map(({ name, conclusion, output }) => {
          const { annotations = [], title } = output as Output;
          const lines = annotations.map(({ path, start_line: line, annotation_level: level }) => [path, line, level]);
          return { name, conclusion, lines, title };
        })
        .sort((left, right) => left.name.localeCompare(right.name)),
    );
    const passed = { conclusion: "success" };
    const wave = (path: string, line: number) => [
      { ...passed, name: "wavesmith/critic", lines: [[path, line, "warning"]], title: expect.any(String) },
      { ...passed, name: "wavesmith/integration", lines: [], title: expect.stringContaining("echo joined") },
      { ...passed, name: "wavesmith/testing", lines: [], title: expect.stringContaining("2 of 2 tests passed") },
    ];
    expect(shown).toEqual([wave("one.js", 2), wave("two.js", 1)]);
    // Nothing is reported on any other commit, and nothing twice.
    expect(repository.checkRuns).toHaveLength(6);
  });

  it("links to the preview once it has answered, and says when it has ended", async () => {
    let goOn: () => void = () => undefined;
    const held = new Promise<void>((resolve) => {
      goOn = resolve;
    });
    fixture = await createBuildFixture({
      env: { ...address(), WAVESMITH_GITHUB_TOKEN: usualToken },
      patienceMs: 150_000,
      crashPoint: (name) => (name === "preview-intend.after-commit" ? held : undefined),
    });
    const domain = { protocol: "http", name: "previews.localhost", port: 4400 } as const;
    const quiet = () => undefined;
    const previews = servePreviews(fixture.app, { domain, tell: quiet, warn: quiet });
    const served = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key: "k", host: "127.0.0.1", port: 0 },
      ...{ inform: quiet, warn: quiet },
    });
    const read = async (path: string): Promise<unknown> =>
      (await fetch(`${served.origin}/api/v1${path}`, { headers: { authorization: "Bearer k" } })).json();
    try {
      const repo = "octo/shown";
      const { pulls } = await server.repository(repo);
      const build = await fixture.build({
        tasks: [{ id: "one", run: "echo 1 > one.txt" }],
        gates: { integration: false },
        preview: { command: serve, healthPath: "/up" },
        deliver: { forge: "github", repo },
      });
      const rows = () => fixture.app.store.pullRequests.list({ buildId: build.id });
      await expect.poll(async () => (await rows())[0]?.status, { timeout: 60_000 }).toBe("open");
      // It is being started, and has its address.
      const project = () => fixture.app.store.projects.get({ id: build.projectId });
      await expect.poll(async () => (await project()).previewOrigin, { timeout: 30_000 }).not.toBeNull();
      await expect.poll(async () => (await rows())[0]?.status, { timeout: 60_000 }).toBe("open");
      expect(pulls[0]!.body).not.toContain("Preview");
      const shown = async () => ({ ofBuild: await read(`/builds/${build.id}`), all: await read("/previews") });
      expect(await shown()).toMatchObject({
        ofBuild: { preview: { status: "starting", url: null } },
        all: { items: [{ status: "starting", url: null, localUrl: null }] },
      });
      goOn();
      const { previewOrigin, previewPort } = await project();
      await expect
        .poll(() => pulls[0]!.body, { timeout: 40_000 })
        .toContain(`**Preview** of wave 1: ${previewOrigin}/up`);
      const url = `${previewOrigin}/up`;
      expect(await shown()).toMatchObject({
        ofBuild: { preview: { status: "ready", url } },
        all: { items: [{ status: "ready", url, localUrl: `http://127.0.0.1:${previewPort}/up` }] },
      });
      await expect.poll(async () => (await rows())[0]?.status, { timeout: 60_000 }).toBe("open");
      await stopPreview(fixture.app.ports, build.id, "it is *enough*");
      await expect
        .poll(() => pulls[0]!.body, { timeout: 40_000 })
        .toContain("**Preview** of wave 1: ended, because it is &#42;enough&#42;");
      expect(pulls[0]!.body).not.toContain("previews.localhost");
      expect(await read(`/builds/${build.id}`)).toMatchObject({ preview: { status: "stopped", url: null } });
      expect(pulls).toHaveLength(1);
    } finally {
      goOn();
      await served.stop(1_000);
      await previews.stop();
    }
  });
});
