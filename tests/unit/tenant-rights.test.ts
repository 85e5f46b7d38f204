import { describe, expect, it } from "vitest";
import { tenantIdFor } from "../../src/coordinator/build/request/project.ts";
import { refuseDelivery, usesForges } from "../../src/coordinator/forge/may-deliver.ts";
import { ofTenant } from "../../src/coordinator/schedule/standing-request.ts";

const [own, other] = [tenantIdFor("default"), tenantIdFor("acme")];

describe("what belongs to this machine", () => {
  it("delivers only for the default tenant, to any forge", () => {
    expect([usesForges(own), usesForges(other)]).toEqual([true, false]);
    for (const forge of ["github", "local"] as const) {
      const deliver = { forge, repo: "octo/app", base: null };
      expect(() => refuseDelivery({ deliver }, own)).not.toThrow();
      expect(() => refuseDelivery({ deliver }, other)).toThrow("only the tenant default delivers");
      expect(() => refuseDelivery({ deliver: { ...deliver, repo: null } }, other)).not.toThrow();
    }
  });

  it("lends its secrets only to schedules of the default tenant", () => {
    const ports = { eventSecrets: ["STRIPE_KEY"] };
    expect(ofTenant(ports, own)).toEqual(ports);
    expect(ofTenant(ports, other)).toEqual({ eventSecrets: [] });
  });
});
