import { spawn } from "node:child_process";
import { chmodSync, chownSync, existsSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { ProjectId } from "../../src/domain/ids.ts";
import { markOf } from "../../src/sandbox/drivers/local/launch.ts";
import { readRecord, writeRecord } from "../../src/sandbox/drivers/local/record.ts";
import { createLocalDriver, type LocalDriverOptions } from "../../src/sandbox/drivers/local.ts";
import { processStart } from "../../src/sandbox/host/processes.ts";
import type { SandboxDriver } from "../../src/sandbox/port.ts";
import { requires } from "../support/require.ts";
import {
  anotherProcess,
  type DriverHarness,
  describeSandboxDriver,
  processesWith,
  scriptJob,
  shell,
  specOf,
  until,
} from "./sandbox-driver.ts";

const env = { PATH: process.env.PATH ?? "", HOME: process.env.HOME ?? "/" };
const optionsOf = (unsafe: boolean, dataDir: string): LocalDriverOptions => ({
  unsafe,
  dataDir,
  installationId: "inst_test",
  readOnly: [],
  env,
});

const harnessOf = (unsafe: boolean): DriverHarness => ({
  make: (dataDir) => {
    const options = optionsOf(unsafe, dataDir);
    const settings = { dataDir, installationId: options.installationId, environment: env, readOnly: [] };
    return { driver: createLocalDriver(options), choice: { name: unsafe ? "local-unsafe" : "local", settings } };
  },
  kill: async (dataDir, projectId) => {
    const { pid } = readRecord(join(dataDir, "sandboxes", projectId))!;
    process.kill(pid!, "SIGKILL");
    await until("it is gone", () => processStart(pid!) === null);
  },
  halfStart: async (dataDir, projectId) => {
    const record = readRecord(join(dataDir, "sandboxes", projectId))!;
    writeRecord(join(dataDir, "sandboxes", projectId), { ...record, state: "starting", pid: null, pidStart: null });
    const mark = markOf(optionsOf(unsafe, dataDir), projectId);
    const half = spawn("sh", ["-c", "while :; do sleep 0.1; done", "half-started", ...mark]);
    const ended = new Promise<void>((resolve) => half.on("exit", () => resolve()));
    return { gone: () => ended };
  },
  volumePath: (dataDir, projectId) => join(dataDir, "volumes", projectId),
  left: async (dataDir) => [
    ...(existsSync(join(dataDir, "volumes")) ? readdirSync(join(dataDir, "volumes")) : []),
    ...processesWith(dataDir).map((pid) => `process ${pid}`),
  ],
});

const bubblewrap = requires("bubblewrap");
if (bubblewrap) describeSandboxDriver("local", harnessOf(false));
describeSandboxDriver("local-unsafe", harnessOf(true));

describe.runIf(bubblewrap)("inside a local sandbox", () => {
  const root = mkdtempSync(join(tmpdir(), "wavesmith-inside-"));
  const home = join(root, "home");
  const dataDir = join(home, "work", ".wavesmith");
  const shown = join(home, "tool");
  const options: LocalDriverOptions = {
    unsafe: false,
    dataDir,
    installationId: "inst_test",
    readOnly: [shown],
    env: { PATH: `${home}/.tools/v1/bin:${home}/bin:${env.PATH}`, HOME: home },
  };
  let driver: SandboxDriver;

  beforeAll(async () => {
    for (const name of [".ssh", ".aws", ".config/gh", ".tools/v1/bin", ".tools/v1/lib", "bin", "tool", "project"]) {
      mkdirSync(join(home, name), { recursive: true });
    }
    for (const name of [".ssh/id", ".aws/credentials", ".npmrc", ".config/gh/hosts", "project/file", "tool/readable"]) {
      writeFileSync(join(home, name), "planted-secret");
    }
    writeFileSync(join(home, ".tools/v1/lib/words"), "from-the-lib");
    writeFileSync(join(home, ".tools/v1/bin/my-tool"), '#!/bin/sh\ncat "$(dirname "$0")/../lib/words"\n');
    writeFileSync(join(home, "bin/other-tool"), "#!/bin/sh\necho other\n");
    for (const name of [".tools/v1/bin/my-tool", "bin/other-tool"]) chmodSync(join(home, name), 0o755);
    driver = createLocalDriver(options);
  });
  afterAll(async () => {
    for (const { projectId } of await driver.list()) await driver.remove(projectId, { volume: true });
    rmSync(root, { recursive: true, force: true });
    expect(processesWith(root)).toEqual([]);
  });

  const look = async (script: string) => shell((await driver.ensure(specOf("proj_a"))).guest, script);

  it("shows only the tool folders of the home", async () => {
    const { stdout } = await look(`ls -A "${home}" "${home}/.tools"; cat "${home}/.ssh/id" "${home}/.npmrc" 2>&1`);
    expect(stdout).not.toContain("planted-secret");
    expect(stdout.split("\n").slice(1, 4)).toEqual([".tools", "bin", "tool"]);
  });

  it("trusts every certificate of the machine with Node, which reads only those that it lacks", async () => {
    const { stdout } = await look(`node -e '
      const { rootCertificates } = require("node:tls");
      const { existsSync, readFileSync } = require("node:fs");
      const read = (path) => readFileSync(path, "utf8").match(/-----BEGIN[^-]+-----[^-]+-----END[^-]+-----/g) ?? [];
      const contentOf = (certificate) => certificate.replace(/-----[^-]+-----|\\s/g, "");
      const extra = process.env.NODE_EXTRA_CA_CERTS ? read(process.env.NODE_EXTRA_CA_CERTS).map(contentOf) : [];
      const own = rootCertificates.map(contentOf);
      const machine = "/etc/ssl/certs/ca-certificates.crt";
      const wanted = existsSync(machine) ? read(machine).map(contentOf) : [];
      const isTrusted = (content) => own.includes(content) || extra.includes(content);
      console.log(wanted.every(isTrusted), extra.some((content) => own.includes(content)));
    ' 2>&1`);
    expect(stdout).toBe("true false\n");
  });

  it("runs tools of PATH with the files beside them, and reads the folders that the setting names", async () => {
    const { stdout } = await look(
      `my-tool; other-tool; cat "${shown}/readable"; touch "${shown}/new" || echo read-only`,
    );
    expect(stdout).toBe("from-the-libother\nplanted-secretread-only\n");
  });

  it("is isolated: no secret of the system, no other process, an empty first environment", async () => {
    expect((await look("find / -xdev '(' -name shadow -o -name .ssh -o -name '*.key' ')' 2>/dev/null")).stdout).toBe(
      "",
    );
    expect((await look("id -un; hostname; pwd")).stdout).toBe("wavesmith\nwavesmith\n/workspace/work\n");
    expect(Number((await look("ls -d /proc/[0-9]* | wc -l")).stdout)).toBeLessThan(8);
    expect((await look("tr '\\0' '\\n' </proc/1/environ | grep -v ^PWD=")).stdout).toBe("");
  });

  it("shows neither the data folder nor another project's volume", async () => {
    const other = await driver.ensure(specOf("proj_b"));
    await other.guest.writeFile("private.txt", "belongs to b");
    const { stdout } = await look(
      `ls "${dataDir}" 2>&1; find / -xdev -name private.txt 2>/dev/null; ls -A /run/wavesmith /opt/wavesmith 2>/dev/null`,
    );
    expect(stdout).not.toMatch(/private|volumes|record|guest\.sock/);
  });

  it("has no route without a network, and reaches this machine with an open one", async () => {
    const server = createServer((_, response) => response.end("reached"));
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    const url = `http://localhost:${(server.address() as AddressInfo).port}`;
    const fetching = `node -e 'fetch("${url}").then(r=>r.text()).then(console.log,e=>console.log("failed",e.cause.code))'`;
    try {
      expect((await look(fetching)).stdout).toBe("failed ECONNREFUSED\n");
      expect((await look("cat /proc/net/route | wc -l")).stdout.trim()).toBe("1");
      const open = await driver.ensure(specOf("proj_open", "open"));
      expect((await shell(open.guest, fetching)).stdout).toBe("reached\n");
    } finally {
      server.close();
    }
  });

  it("is not mistaken for a sandbox of the driver without isolation, or the other way round", async () => {
    const unsafe = createLocalDriver({ ...options, unsafe: true });
    const { guest } = await driver.ensure(specOf("proj_c"));
    expect(await unsafe.find("proj_c" as ProjectId)).toBeNull();
    await guest.startJob("job-1", scriptJob("sleep 100"));
    await expect(unsafe.ensure(specOf("proj_c"))).rejects.toThrow(/driver local instead of local-unsafe/);
    await unsafe.stop("proj_c" as ProjectId);
    expect(await driver.find("proj_c" as ProjectId)).toBeNull();
  });

  it("refuses to show places that hold credentials", async () => {
    const careless = createLocalDriver({ ...options, readOnly: [join(home, ".ssh")] });
    await expect(careless.ensure(specOf("proj_d"))).rejects.toMatchObject({ code: "usage" });
  });
});

describe.runIf(bubblewrap && process.geteuid?.() === 0)("a local sandbox of an ordinary user", () => {
  it.each([false, true])("works in a home that only its owner may pass (unsafe: %s)", async (unsafe) => {
    const home = mkdtempSync(join(tmpdir(), "wavesmith-user-"));
    chmodSync(home, 0o700);
    chownSync(home, 1234, 1234);
    const settings = { PATH: "/usr/local/bin:/usr/bin:/bin", HOME: home };
    const dataDir = join(home, "x", ".wavesmith");
    const prefix = ["setpriv", "--reuid", "1234", "--regid", "1234", "--clear-groups"];
    const driver = {
      name: unsafe ? "local-unsafe" : "local",
      settings: { dataDir, installationId: "inst_u", readOnly: [], environment: settings },
    };
    const request = { driver, projectId: "proj_a", network: "none", remove: true } as const;
    const script = "mkdir -p mod/a && chmod 555 mod/a mod && echo made > file && stat -c %U file && cat file";
    try {
      const answer = await anotherProcess({ ...request, exec: ["sh", "-c", script] }, prefix, settings).answer;
      expect(answer).toMatchObject({ problems: [], exec: { exitCode: 0, stdout: expect.stringContaining("made\n") } });
      expect(readdirSync(join(dataDir, "volumes"))).toEqual([]);
    } finally {
      rmSync(home, { recursive: true, force: true });
    }
  });
});
