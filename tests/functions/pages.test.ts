import { execFile } from "node:child_process";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { projectIdFor } from "../../src/coordinator/build/request/project.ts";
import { createWebhookSite, type WebhookSite, webhookSecret } from "../support/webhook-site.ts";

// The commands of two pages, typed as a reader types them, against a real server.

const run = promisify(execFile);
const gates = { testing: false, critic: false, integration: false };
const standing = JSON.stringify({
  on: { push: { branches: ["main"] }, label: "build-me" },
  plan: { name: "upkeep", gates, network: "none", tasks: [{ id: "a", run: "echo a > a.txt" }] },
});

/** The shell blocks of a page of `docs/`. */
const blocksOf = (page: string): string[] => {
  const text = readFileSync(new URL(`../../docs/${page}`, import.meta.url), "utf8");
  return [...text.matchAll(/^```sh\n([\s\S]*?)^```$/gm)].map(([, block]) => block!);
};

describe("the commands in the pages", () => {
  let site: WebhookSite;
  let folder: string;
  let buildId: string;
  beforeAll(async () => {
    site = await createWebhookSite({ WAVESMITH_GITHUB_REPOSITORIES: "octo/app" });
    await site.github.repository("octo/app", { "wavesmith.yaml": standing });
    folder = mkdtempSync(join(tmpdir(), "wavesmith-pages-"));
    mkdirSync(join(folder, ".wavesmith"));
    writeFileSync(join(folder, ".wavesmith", "serve-key"), "s3cret-of-serve\n");
    await run("git", ["clone", "-q", site.github.state.find("octo/app")!.folder, join(folder, "clone")]);
  });
  afterAll(async () => {
    await site.close();
    rmSync(folder, { recursive: true });
  });

  /** Types blocks into one shell. Returns the JSON objects that `curl` prints. */
  const type = async (...blocks: string[]): Promise<Record<string, unknown>[]> => {
    const script = blocks.join("\n").replace("http://127.0.0.1:4400", site.server.origin);
    const env = {
      ...{ PATH: process.env.PATH, HOME: folder, GIT_DIR: join(folder, "clone", ".git") },
      WAVESMITH_GITHUB_WEBHOOK_SECRET: webhookSecret,
    };
    const { stdout } = await run("bash", ["-euc", script], { cwd: folder, env });
    return stdout
      .replaceAll("}{", "}\n{")
      .split("\n")
      .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Record<string, unknown>]));
  };
  const waits = async (): Promise<string> => {
    const { id } = await site.fixture.build({
      ...{ gates, network: "none", approval: "wave", source: "empty", tasks: [{ id: "a", run: "echo a > a.txt" }] },
    });
    expect(await site.fixture.app.store.builds.get({ id })).toMatchObject({ status: "waiting", reason: null });
    return id;
  };
  const newest = (project: string) =>
    site.fixture.app.store.builds.find(
      { projectId: projectIdFor("default", project) },
      { by: "position", descending: true },
    );

  it("of docs/events.md: start, cancel, approve and reject a build", async () => {
    const [place = "", start = "", cancel = "", approve = "", reject = ""] = blocksOf("events.md");
    expect(await type(place, start)).toMatchObject([{ status: 200 }]);
    await expect.poll(() => newest("hello"), { timeout: 30_000 }).not.toBeNull();
    buildId = (await newest("hello"))!.id;
    expect(await site.fixture.until(buildId)).toMatchObject({ status: "completed", reason: null });
    for (const [block, status] of [
      [approve, "completed"],
      [cancel, "cancelled"],
      [reject, "failed"],
    ] as const) {
      const id = await waits();
      expect(await type(place, block.replace("bld_…", id))).toMatchObject([{ status: 200 }]);
      expect(await site.fixture.until(id, (build) => build.status === status)).toMatchObject({ id });
    }
  });

  it("of docs/webhooks.md: report a check, and send what GitHub sends", async () => {
    const [report = "", ofGitHub = ""] = blocksOf("webhooks.md");
    const ofBuild = report.replace("guestbook", "hello").replace("bld_4k2", buildId);
    expect(ofBuild).not.toBe(report);
    expect(await type(ofBuild)).toMatchObject([
      { repeated: false, answer: `the check unit (failed) is passed on to build ${buildId}` },
    ]);
    const checks = () => site.fixture.app.store.ciChecks.list({ buildId });
    await expect.poll(checks, { timeout: 30_000 }).toMatchObject([{ name: "unit", conclusion: "failed" }]);

    const comments: { id: number; body: string; user: string }[] = [];
    site.github.state.find("octo/app")!.issues.set(7, { comments });
    const [place] = blocksOf("events.md");
    expect(await type(place!, ofGitHub)).toMatchObject(
      ["push", "label", "command"].map((kind) => ({
        answer: `the ${kind} by octo is passed on to the project octo/app`,
      })),
    );
    await expect.poll(() => newest("octo/app"), { timeout: 30_000 }).not.toBeNull();
    await site.ended((await newest("octo/app"))!.id);
    // Once for the label and once for the command.
    await expect.poll(() => comments.length, { timeout: 30_000 }).toBe(2);
  });
});
