import { describe, expect, it } from "vitest";
import { checkLocal, denialRemedy, installCommand, type Machine } from "../../src/sandbox/drivers/local/check.ts";

const machine = (given: Partial<Machine> = {}): Machine => ({
  platform: "linux",
  isRoot: false,
  setting: () => null,
  osRelease: "ID=debian\n",
  inContainer: false,
  ...given,
});
const withSetting = (name: string, value: string) =>
  machine({ setting: (path) => (path === `/proc/sys/${name}` ? value : null) });

describe("what is said of a machine on which bubblewrap does not work", () => {
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
