import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { createHints } from "../../src/cli/output/hints.ts";
import { driverForTrial } from "../../src/cli/parts.ts";
import { loadConfig } from "../../src/config.ts";
import { bootFailure, checkDocker } from "../../src/sandbox/drivers/docker/check.ts";
import { engineProblem, socketPath } from "../../src/sandbox/drivers/docker/engine/engine.ts";
import { imageName } from "../../src/sandbox/drivers/docker/image.ts";
import type { HostFacts } from "../../src/sandbox/host/machine.ts";
import { fakeEngine, json, silentEngine } from "../support/fake-docker-engine.ts";

// Messages for a machine on which Docker does not work: one line each, with the command to type.

let folder = "";
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "wavesmith-engine-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const machine: HostFacts = {
  platform: "linux",
  isRoot: false,
  setting: () => null,
  osRelease: "ID=debian\n",
  inContainer: false,
};
const at = (name: string) => ({ DOCKER_HOST: `unix://${join(folder, name)}`, PATH: folder });
const version = (given: object = {}) =>
  json({ Version: "24.0.7", ApiVersion: "1.43", MinAPIVersion: "1.12", Os: "linux", ...given });

describe("the Docker engine", () => {
  it("is looked for where DOCKER_HOST says, but never on another machine", async () => {
    expect(socketPath({ DOCKER_HOST: "unix:///run/user/1000/docker.sock" })).toBe("/run/user/1000/docker.sock");
    expect(() => socketPath({ DOCKER_HOST: "tcp://build-host:2376" })).toThrow(/build-host.*on this machine/);
    expect(await engineProblem({ DOCKER_HOST: "ssh://me@build-host" })).toMatchObject({
      what: expect.stringContaining("ssh://me@build-host"),
      remedy: expect.stringContaining("unset DOCKER_HOST"),
    });
  });

  it("is reported if it is missing, with how to install or start it", async () => {
    const problem = await engineProblem(at("none.sock"), { machine: { ...machine, osRelease: "ID=fedora\n" } });
    expect(problem?.what).toBe(`no Docker engine is running here: there is no socket ${join(folder, "none.sock")}`);
    expect(problem?.remedy).toMatch(/^sudo (dnf install docker|systemctl start docker)/);
  });

  it("is distinguished from one that was never there if it has died", async () => {
    // A socket whose listener was killed refuses connections, as a plain file does.
    writeFileSync(join(folder, "file.sock"), "");
    const problem = await engineProblem(at("file.sock"), { machine });
    expect(problem).toEqual({
      what: `no Docker engine listens at ${join(folder, "file.sock")} any more`,
      remedy: expect.stringMatching(
        /^sudo systemctl start docker \(or sudo service docker start\); .*DOCKER_HOST=unix:.*file\.sock says where to look/,
      ),
    });
  });

  // Root may use any socket, so it tries as another user.
  it("is reported if this user may not use it, with how to get permission", async () => {
    const engine = await fakeEngine(folder, { "GET /version": version() });
    chmodSync(join(folder, "docker.sock"), 0o000);
    chmodSync(folder, 0o755);
    const root = process.geteuid?.() === 0;
    if (root) process.seteuid?.(65534);
    try {
      const problem = await engineProblem(engine.environment, { machine });
      expect(problem?.what).toMatch(/^this user may not use the Docker engine at \//);
      expect(problem?.remedy).toMatch(/^sudo usermod -aG docker \$USER, then log in again/);
    } finally {
      if (root) process.seteuid?.(0);
      await engine.close();
    }
  });

  it("counts as not answering if it accepts and says nothing", async () => {
    const silent = await silentEngine(folder);
    const problem = await engineProblem({ DOCKER_HOST: `unix://${silent.path}` }, { machine, limitMs: 50 });
    silent.close();
    expect(problem?.what).toMatch(/does not answer: no answer for 0\.05 s/);
  });

  it.each([
    [{ Version: "19.03.15", ApiVersion: "1.40" }, /is 19\.03\.15, which is too old/, /20\.10 or newer/],
    [{ Os: "windows" }, /runs windows containers/, /Linux containers/],
  ])("that cannot run sandboxes is reported: %j", async (given, what, remedy) => {
    const engine = await fakeEngine(folder, { "GET /version": version(given) });
    const problem = await engineProblem(engine.environment, { machine });
    await engine.close();
    expect(problem?.what).toMatch(what);
    expect(problem?.remedy).toMatch(remedy);
  });

  it("is not a problem if it is new enough", async () => {
    for (const ApiVersion of ["1.41", "1.51", "2.0"]) {
      const engine = await fakeEngine(folder, { "GET /version": version({ ApiVersion }) });
      expect(await engineProblem(engine.environment, { machine })).toBeNull();
      await engine.close();
    }
  });
});

describe("the image", () => {
  const check = async (labels: Record<string, string> | null) => {
    const routes = { "GET /version": version(), "GET /containers/json": json([]) };
    const image = labels === null ? {} : { [`GET /images/${imageName()}/json`]: json({ Config: { Labels: labels } }) };
    const engine = await fakeEngine(folder, { ...routes, ...image });
    try {
      return await checkDocker({ environment: engine.environment });
    } finally {
      await engine.close();
    }
  };

  it("is reported if it is missing, with the command that builds it", async () => {
    expect(await check(null)).toEqual([
      { what: `the image ${imageName()} is not on this machine`, remedy: "wavesmith sandbox image build" },
    ]);
  });

  it("is refused if its guest is of another version, with the command that rebuilds it", async () => {
    const [older] = await check({ "io.wavesmith.guest-protocol": "0" });
    expect(older?.what).toMatch(/has a guest of protocol 0, but \d+ is needed$/);
    expect(older?.remedy).toBe("wavesmith sandbox image build");
    expect((await check({}))[0]?.what).toMatch(/does not say which protocol its guest speaks/);
  });

  it("is named as the user types it", () => {
    const hints = createHints({ environment: { npm_lifecycle_event: "wavesmith" } });
    expect(hints.rewrite("build it again: wavesmith sandbox image build --base X")).toBe(
      "build it again: npm run wavesmith -- sandbox image build --base X",
    );
  });
});

describe("a trial sandbox", () => {
  const said = (phase: object) => `{"phase":"user","ok":true}\r\n${JSON.stringify(phase)}\r\n`;

  it("is reported with the remedy for the boot phase in which it ended", () => {
    const phase = { phase: "folders", ok: false, message: "/tmp cannot be written", remedy: "mount a tmpfs at /tmp" };
    expect(bootFailure(said(phase), "img:1")).toEqual({
      what: 'a trial sandbox of img:1 failed in its boot phase "folders": /tmp cannot be written',
      remedy: "mount a tmpfs at /tmp",
    });
  });

  it("is reported with its last output if it failed otherwise", () => {
    const log = `${said({ phase: "guest", ok: true })}guest: there is no bwrap\n`;
    expect(bootFailure(log, "img:1").what).toBe("a trial sandbox of img:1 did not start: guest: there is no bwrap");
    expect(bootFailure("", "img:1").what).toMatch(/it said nothing$/);
  });

  it("is not tried under a runtime that the engine does not have", async () => {
    const engine = await fakeEngine(folder, {
      "GET /version": version(),
      "GET /containers/json": json([]),
      "GET /info": json({ Runtimes: { runc: {}, kata: {} } }),
    });
    const config = loadConfig({ ...engine.environment, WAVESMITH_DOCKER_RUNTIME: "runsc", WAVESMITH_DATA: folder });
    const problems = await (await driverForTrial(config, "docker")).check();
    await engine.close();
    expect(problems).toEqual([
      {
        what: "the Docker engine has no runtime runsc; it has runc, kata",
        remedy: "install it and name it in /etc/docker/daemon.json, or unset WAVESMITH_DOCKER_RUNTIME",
      },
    ]);
  });

  it("is what doctor and build try when the driver is docker", async () => {
    const config = loadConfig({ DOCKER_HOST: `unix://${join(folder, "none.sock")}`, WAVESMITH_DATA: folder });
    expect(await (await driverForTrial(config, "docker")).check()).toMatchObject([
      { what: expect.stringContaining("there is no socket") },
    ]);
  });
});
