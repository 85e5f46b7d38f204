import { existsSync, mkdtempSync, readdirSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Readable } from "node:stream";
import type Docker from "dockerode";
import { describe, expect, it } from "vitest";
import { checkDocker } from "../../src/sandbox/drivers/docker/check.ts";
import { guestRights } from "../../src/sandbox/drivers/docker/container/container-spec.ts";
import { connectEngine } from "../../src/sandbox/drivers/docker/engine/engine.ts";
import {
  buildImageFromRecipe,
  type ImageProgress,
  type ImageRequest,
  imageName,
  trialLabels,
} from "../../src/sandbox/drivers/docker/image.ts";
import { guestProgram } from "../../src/sandbox/guest/guest-program.ts";
import { requires } from "../support/require.ts";

// The image of Docker sandboxes, on a real engine: its content, its start, its build.

const own = "uid=0,gid=0,mode=0700,exec";
const places = { "/tmp": "exec", "/run/wavesmith": own, "/workspace": own };
/** The image as a job's user sees it. */
const jobPlaces = { "/tmp": "exec", "/workspace": "uid=20000,gid=20000,mode=0700,exec" };

describe.runIf(requires("docker"))("the sandbox's image", () => {
  const docker = connectEngine(process.env);

  /** Runs a program in a container as confined as a sandbox, and reports how it ended. */
  async function run(
    argv: readonly string[] | null,
    { tmpfs = places, user = "0:0" }: { tmpfs?: Record<string, string>; user?: string } = {},
  ): Promise<{ code: number; output: string }> {
    const container = await docker.createContainer({
      Image: imageName(),
      ...(argv === null ? {} : { Entrypoint: [...argv], Cmd: [] }),
      User: user,
      Tty: true,
      Labels: trialLabels,
      HostConfig: {
        Init: true,
        NetworkMode: "none",
        CapDrop: ["ALL"],
        CapAdd: [...guestRights],
        SecurityOpt: ["no-new-privileges"],
        ReadonlyRootfs: true,
        Tmpfs: tmpfs,
      },
    });
    try {
      await container.start();
      // As a stream, because the library takes a log that is one JSON object apart.
      const log = (await container.logs({ follow: true, stdout: true, stderr: true })) as unknown as Readable;
      let output = "";
      for await (const chunk of log.setEncoding("utf8")) output += chunk;
      const { StatusCode } = (await container.wait()) as { StatusCode: number };
      return { code: StatusCode, output: output.replaceAll("\r\n", "\n") };
    } finally {
      await container.remove({ force: true });
    }
  }
  const shell = (script: string) => run(["/bin/bash", "-ec", script], { tmpfs: jobPlaces, user: "20000:20000" });

  it("has the programs that agents and the checks of plans call, usable by its user on a read-only root", async () => {
    const programs = "git rg jq curl python3 pip zstd tar socat ps make g++ patch unzip xz file less node npm npx";
    const { code, output } = await shell(`
      for name in ${programs}; do command -v $name >/dev/null || echo "no $name"; done
      node -e 'const [major, minor] = process.versions.node.split("."); if (major < 20 || (major == 20 && minor < 19)) console.log("old Node")'
      cd /workspace
      echo 'int main() { return 0; }' >a.cpp && g++ a.cpp -o a && ./a
      python3 -m venv env && env/bin/python -c 'import ssl, sqlite3'
      printf 'from setuptools import setup\\nsetup(name="own", version="1", py_modules=["own"])\\n' >setup.py
      echo 'print("imported")' >own.py
      pip -q install --no-deps --no-build-isolation --disable-pip-version-check . 2>&1 | grep -v 'Defaulting to user' || true
      cd /tmp && python3 -c 'import own'
      npm init -y >/dev/null
      git init -q repo && git -C repo -c user.name=a -c user.email=a@b commit -q --allow-empty -m x
      touch "$HOME/mine" && id -un
    `);
    expect(output).toBe("imported\njob20000\n");
    expect(code).toBe(0);
  }, 300_000);

  it("boots in named phases up to its guest", async () => {
    expect(await checkDocker({ environment: process.env })).toEqual([]);
  });

  it.each([
    ["user", { user: "10001:10001" }, "start the container as user 0:0 with --cap-drop ALL"],
    ["folders", { tmpfs: {} }, "mount a tmpfs at /tmp"],
    ["workspace", { tmpfs: { ...places, "/workspace": "ro" } }, "mount a writable volume at /workspace"],
  ])("ends in its phase %s when that fails, with what to do about it", async (phase, options, remedy) => {
    const { code, output } = await run(null, options);
    expect(code).toBe(78);
    const lines = output
      .trim()
      .split("\n")
      .map((line) => JSON.parse(line));
    expect(lines.at(-1)).toMatchObject({ phase, ok: false, remedy: expect.stringContaining(remedy) });
    expect(lines.slice(0, -1).every(({ ok }) => ok === true)).toBe(true);
  });

  const name = `wavesmith-test-image:${process.pid}`;
  const certificates = "/usr/local/share/ca-certificates";

  /**
   * The base of this machine's image, if .ci/sandbox-image made it, so that every layer is known
   * already.
   */
  async function requestFor(folder: string): Promise<ImageRequest> {
    const images = await docker.listImages({ filters: { reference: ["wavesmith-test-base"] } });
    const base = images.flatMap(({ RepoTags }) => RepoTags ?? [])[0] ?? imageName();
    const hasOwn = existsSync(certificates) && readdirSync(certificates).some((file) => file.endsWith(".crt"));
    return {
      guestPath: await guestProgram(folder),
      base,
      certificates: hasOwn ? certificates : null,
      chromium: false,
      npmRegistry: null,
      image: name,
    };
  }

  const danglingImages = async (): Promise<string[]> =>
    (await docker.listImages({ filters: { dangling: ["true"] } })).map(({ Id }) => Id);

  async function inFolder<T>(work: (folder: string) => Promise<T>): Promise<T> {
    const folder = mkdtempSync(join(tmpdir(), "wavesmith-image-"));
    try {
      return await work(folder);
    } finally {
      rmSync(folder, { recursive: true, force: true });
    }
  }

  it("is built step by step, and the same again is the same image", async () => {
    await inFolder(async (folder) => {
      const request = await requestFor(folder);
      const told: ImageProgress[] = [];
      try {
        const first = await buildImageFromRecipe(docker, request, { onProgress: (progress) => told.push(progress) });
        expect(first).toMatchObject({ image: name, unchanged: false });
        expect(first.versions.node).toMatch(/^\d+\.\d+\.\d+$/);
        expect(first.sizeBytes).toBeGreaterThan(100 * 1024 ** 2);
        const steps = told.flatMap((progress) => (progress.type === "step" ? [progress.step] : []));
        expect(steps).toEqual(steps.map((_, index) => index + 1));
        const again = await buildImageFromRecipe(docker, request, { onProgress: () => undefined });
        expect(again).toEqual({ ...first, unchanged: true });
      } finally {
        await docker.getImage(name).remove().catch(ignoreAbsent);
      }
    });
  }, 600_000);

  it("stops building when it is interrupted, and leaves nothing of the build", async () => {
    await inFolder(async (folder) => {
      const abort = new AbortController();
      // A base above which the engine knows no layer: the first step that works takes a while.
      const request = { ...(await requestFor(folder)), base: imageName() };
      const known = new Set((await unlabelled(docker)).map(({ Id }) => Id));
      const images = new Set(await danglingImages());
      const building = buildImageFromRecipe(docker, request, {
        signal: abort.signal,
        onProgress: ({ type }) => (type === "output" ? abort.abort() : undefined),
      });
      await expect(building).rejects.toThrow();
      await expect
        .poll(async () => (await unlabelled(docker)).filter(({ Id }) => !known.has(Id)), { timeout: 60_000 })
        .toEqual([]);
      await expect(docker.getImage(name).inspect()).rejects.toMatchObject({ statusCode: 404 });
      // The engine keeps finished steps as a cache.
      for (const id of await danglingImages()) if (!images.has(id)) await docker.getImage(id).remove();
    });
  }, 600_000);

  it("without a base says so", async () => {
    await inFolder(async (folder) => {
      const request = { ...(await requestFor(folder)), base: "localhost:1/nothing:1" };
      await expect(buildImageFromRecipe(docker, request, { onProgress: () => undefined })).rejects.toMatchObject({
        code: "environment",
        message: expect.stringMatching(/step 2 of \d+ \(FROM \$\{BASE\}\) failed/),
        remedy: expect.stringContaining("--base IMAGE"),
      });
    });
  }, 120_000);
});

/** Containers that no driver and no test made, such as those of a build. */
async function unlabelled(docker: Docker): Promise<Docker.ContainerInfo[]> {
  const all = await docker.listContainers({ all: true });
  return all.filter(({ Labels }) => Labels["io.wavesmith.installation"] === undefined);
}

function ignoreAbsent(error: unknown): void {
  if ((error as { statusCode?: number }).statusCode !== 404) throw error;
}
