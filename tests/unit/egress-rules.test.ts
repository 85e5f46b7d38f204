import { networkInterfaces } from "node:os";
import { describe, expect, it } from "vitest";
import { allowedHosts, networkOf } from "../../src/domain/sandbox/network.ts";
import { kindOfAddress } from "../../src/sandbox/egress/addresses.ts";
import { createRules } from "../../src/sandbox/egress/rules.ts";
import { parseTarget } from "../../src/sandbox/egress/target.ts";

describe("the kind of an address", () => {
  it.each([
    ["8.8.8.8", "public"],
    ["2606:4700::1111", "public"],
    ["10.1.2.3", "private"],
    ["172.16.0.1", "private"],
    ["172.32.0.1", "public"],
    ["192.168.1.1", "private"],
    ["100.64.0.1", "private"],
    ["198.18.0.1", "private"],
    ["fd12:3456::1", "private"],
    ["0.0.0.0", "never"],
    ["0.1.2.3", "never"],
    ["127.0.0.1", "never"],
    ["127.255.255.254", "never"],
    ["169.254.169.254", "never"],
    ["169.254.0.1", "never"],
    ["100.100.100.200", "never"],
    ["168.63.129.16", "never"],
    ["224.0.0.251", "never"],
    ["255.255.255.255", "never"],
    ["::", "never"],
    ["::1", "never"],
    ["fe80::1", "never"],
    ["febf::1", "never"],
    ["fe80::1%eth0", "never"],
    ["ff02::1", "never"],
    ["fd00:ec2::254", "never"],
    ["fd20:ce::254", "never"],
    ["::ffff:127.0.0.1", "never"],
    ["::ffff:7f00:1", "never"],
    ["::ffff:a9fe:a9fe", "never"],
    ["::ffff:10.0.0.1", "private"],
    ["::ffff:8.8.8.8", "public"],
    ["::ffff:0:127.0.0.1", "never"],
    ["::127.0.0.1", "never"],
    ["64:ff9b::127.0.0.1", "never"],
    ["64:ff9b::a9fe:a9fe", "never"],
    ["64:ff9b:1::7f00:1", "never"],
    ["2002:7f00:1::", "never"],
    ["2002:a9fe:a9fe::1", "never"],
    ["2002:a00:1::", "private"],
    ["2001:0:7f00:1::1", "never"],
    ["2001:0:808:808:0:0:80ff:fffe", "never"],
    ["not an address", "never"],
    ["127.1", "never"],
  ])("of %s is %s", (address, kind) => {
    expect(kindOfAddress(address)).toBe(kind);
  });

  it("is at most private for an address of this machine", () => {
    const ours = Object.values(networkInterfaces()).flatMap((found) => found ?? []);
    expect(ours.map(({ address }) => kindOfAddress(address))).not.toContain("public");
  });
});

describe("a target", () => {
  it.each([
    ["example.org", { host: "example.org", port: 443, isAddress: false }],
    ["EXAMPLE.Org.:8443", { host: "example.org", port: 8443, isAddress: false }],
    ["_x.a-b.example", { host: "_x.a-b.example", port: 443, isAddress: false }],
    ["10.0.0.1:80", { host: "10.0.0.1", port: 80, isAddress: true }],
    ["[::1]:80", { host: "::1", port: 80, isAddress: true }],
    ["[::FFFF:1.2.3.4]", { host: "::ffff:1.2.3.4", port: 443, isAddress: true }],
    ["2130706433", null],
    ["0x7f000001", null],
    ["0x7f.1", null],
    ["127.1", null],
    ["0177.0.0.1", null],
    ["1.2.3.4.5", null],
    ["example.0x1", null],
    ["::1", null],
    ["[::1%lo]", null],
    ["[example.org]", null],
    ["user@example.org", null],
    ["example.org@evil", null],
    ["example.org:", null],
    ["example.org:0", null],
    ["example.org:65536", null],
    ["example.org:80:80", null],
    ["example..org", null],
    [".example.org", null],
    ["example.org..", null],
    ["exa mple.org", null],
    ["example.org\\@evil", null],
    ["example.org/x", null],
    ["example.org#x", null],
    ["example.org\u0000", null],
    ["ex%61mple.org", null],
    ["bücher.example", null],
    ["①②⑦.⓪.⓪.①", null],
    ["", null],
    [`${"a".repeat(64)}.org`, null],
    [`${"a.".repeat(130)}org`, null],
  ])("read from %j is %j", (text, target) => {
    expect(parseTarget(text, 443)).toEqual(target);
  });
});

describe("what a plan allows", () => {
  const policy = networkOf({
    network: { allow: ["Example.org", "*.Wild.example", "db.example:5432", "10.0.0.5:8080", "intern.example"] },
  });
  const rules = createRules(policy);
  const refused = (text: string) => rules.refuse(parseTarget(text, 443)!)?.line ?? null;

  it("is the usual hosts and the ones that it names", () => {
    for (const fine of [
      "pypi.org",
      "pypi.org:80",
      "EXAMPLE.ORG",
      "example.org.:443",
      "a.wild.example",
      "a.b.wild.example:80",
      "db.example:5432",
      "10.0.0.5:8080",
    ]) {
      expect(refused(fine)).toBeNull();
    }
  });

  it("is not another host or another port", () => {
    for (const wrong of [
      "www.example.org",
      "example.org:22",
      "example.org:8443",
      "wild.example",
      "notwild.example",
      "db.example:443",
      "10.0.0.5:443",
      "10.0.0.6:8080",
      "127.0.0.1:8080",
      "pypi.org.evil.example",
      "evilpypi.org",
    ]) {
      expect(refused(wrong)).not.toBeNull();
    }
  });

  it("is named in every refusal, in one line that can be copied", () => {
    expect(refused("other.example")).toBe(
      'other.example is not among the hosts this plan may reach; allow it in the plan: network: { allow: ["other.example"] }',
    );
    expect(refused("other.example:22")).toContain('allow: ["other.example:22"]');
  });

  it("applies to private addresses of a host that it names itself, and not to those of others", () => {
    const at = (host: string, ...addresses: string[]) => rules.permitted(parseTarget(host, 443)!, addresses);
    expect(at("intern.example", "10.0.0.1")).toEqual(["10.0.0.1"]);
    expect(at("pypi.org", "10.0.0.1")).toMatchObject({ why: "private" });
    expect(at("a.wild.example", "10.0.0.1", "8.8.8.8")).toEqual(["8.8.8.8"]);
    expect(at("a.wild.example", "fd00::1")).toMatchObject({ why: "private" });
    expect(at("intern.example", "127.0.0.1", "169.254.169.254", "::1")).toMatchObject({ why: "never" });
    expect(at("10.0.0.5:8080", "10.0.0.5")).toEqual(["10.0.0.5"]);
  });

  it("never includes an address that is always denied, and does not say that it could be allowed", () => {
    for (const text of ["169.254.169.254", "127.0.0.1:28128", "[::1]:80", "[::ffff:a9fe:a9fe]"]) {
      expect(rules.refuse(parseTarget(text, 80)!)).toMatchObject({
        why: "never",
        line: expect.not.stringMatching("allow:"),
      });
    }
  });

  it("never includes this machine, even by name", () => {
    const careless = createRules(networkOf({ network: { allow: ["localhost", "127.0.0.1"] } }));
    expect(careless.refuse(parseTarget("localhost", 80)!)).toBeNull();
    expect(careless.permitted(parseTarget("localhost", 80)!, ["127.0.0.1", "::1"])).toMatchObject({ why: "never" });
    expect(careless.refuse(parseTarget("127.0.0.1", 80)!)).toMatchObject({ why: "never" });
  });

  it("is an allowlist by default, and nothing without one", () => {
    expect(networkOf({ network: "allowlist" })).toEqual({ mode: "allowlist", hosts: [] });
    expect(allowedHosts(networkOf({ network: "none" }))).toEqual([]);
    expect(allowedHosts({ mode: "open", hosts: ["example.org"] })).toEqual([]);
  });
});
