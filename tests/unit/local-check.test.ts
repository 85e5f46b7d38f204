import { chmodSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { checkLocal, denialRemedy, deniedUser, fileProblem } from "../../src/sandbox/drivers/local/check.ts";
import type { HostFacts } from "../../src/sandbox/host/machine.ts";
import { installCommand } from "../../src/sandbox/host/programs.ts";

const machine = (given: Partial<HostFacts> = {}): HostFacts => ({
  platform: "linux",
  isRoot: false,
  setting: () => null,
  osRelease: "ID=debian\n",
  inContainer: false,
  ...given,
});
const withSetting = (name: string, value: string) =>
  machine({ setting: (path) => (path === `/proc/sys/${name}` ? value : null) });

describe("messages for a machine on which bubblewrap does not work", () => {
  it.each([
    ["ID=ubuntu\nID_LIKE=debian\n", "sudo apt-get install bubblewrap"],
    ['ID="rocky"\nID_LIKE="rhel centos fedora"\n', "sudo dnf install bubblewrap"],
    ["ID=alpine\n", "sudo apk add bubblewrap"],
    ["ID=arch\n", "sudo pacman -S bubblewrap"],
    ["ID=plan9\n", "install the package bubblewrap"],
  ])("names the system's own command to install it (%j)", (osRelease, command) => {
    expect(installCommand("bubblewrap", machine({ osRelease }))).toBe(command);
  });

  it.each([
    ["kernel/apparmor_restrict_unprivileged_userns", "1", "apparmor_parser"],
    ["kernel/unprivileged_userns_clone", "0", "sudo sysctl -w kernel.unprivileged_userns_clone=1"],
    ["user/max_user_namespaces", "0", "sudo sysctl -w user.max_user_namespaces"],
  ])("names the setting that denies namespaces (%s=%s)", (name, value, remedy) => {
    expect(denialRemedy(withSetting(name, value))).toContain(remedy);
  });

  it("names the container around us when nothing else denies them", () => {
    expect(denialRemedy(machine({ inContainer: true }))).toContain("seccomp=unconfined");
  });

  it("says that the system or a container denies namespaces if no setting explains it, and gives no circular advice", () => {
    expect(denialRemedy(machine())).toMatch(/the container around us denies user namespaces/);
    expect(denialRemedy(machine())).not.toContain("bwrap");
  });

  it("says what bubblewrap printed and which setting denies it, and leaves the way without isolation to its caller", async () => {
    const dataDir = mkdtempSync(join(tmpdir(), "wavesmith-check-"));
    try {
      for (const name of ["bwrap", "unshare"]) {
        writeFileSync(
          join(dataDir, name),
          "#!/bin/sh\necho 'bwrap: No permissions to create a new namespace' >&2; exit 1\n",
        );
        chmodSync(join(dataDir, name), 0o755);
      }
      const env = { PATH: `${dataDir}:${process.env.PATH}`, HOME: "/" };
      const options = { unsafe: false, dataDir, installationId: "i", readOnly: [], env };
      const denies = { ...withSetting("kernel/unprivileged_userns_clone", "0"), isRoot: process.geteuid?.() === 0 };
      const [problem] = await checkLocal(options, denies);
      expect(problem?.what).toBe("bubblewrap cannot make a sandbox: bwrap: No permissions to create a new namespace");
      expect(problem?.remedy).toContain("sysctl -w kernel.unprivileged_userns_clone=1");
      expect(problem?.remedy).not.toContain("local-unsafe");
    } finally {
      rmSync(dataDir, { recursive: true });
    }
  });

  it("mistakes no other chown failure for root in a namespace that may not give files away", () => {
    const failed = (stderr: string) =>
      Object.assign(new Error("Command failed"), { cmd: "/usr/bin/chown -RPh 1:1 -- /v", stderr });
    expect(deniedUser(failed("chown: changing ownership of '/v': Invalid argument\n"))).toMatch(
      /user namespace.*Invalid/,
    );
    expect(deniedUser(failed("chown: /v: Input/output error"))).toBeNull();
    expect(deniedUser(new Error("Invalid argument"))).toBeNull();
  });

  it("tells a full disk or an unwritable folder from a driver that does not work", () => {
    const failed = (code: string) => Object.assign(new Error(`${code}: refused`), { code, path: "/data/check-x" });
    expect(fileProblem(failed("ENOSPC"), "/data")).toMatchObject({
      what: "the disk that holds /data is full",
      lacks: "disk",
    });
    expect(fileProblem({ stderr: "mkdir: No space left on device" }, "/data")).toMatchObject({ lacks: "disk" });
    expect(fileProblem(failed("EROFS"), "/data")?.what).toContain("/data/check-x cannot be written");
    expect(fileProblem(failed("ENOENT"), "/data")).toBeNull();
  });

  it("names the driver without isolation on a system other than Linux", async () => {
    const options = {
      unsafe: false,
      dataDir: "/nowhere",
      installationId: "i",
      readOnly: [],
      env: { PATH: "/usr/bin", HOME: "/" },
    };
    const [problem] = await checkLocal(options, machine({ platform: "darwin" }));
    expect(problem).toEqual({
      what: "bubblewrap needs Linux, and this is darwin",
      remedy: expect.stringContaining("local-unsafe"),
    });
  });
});
