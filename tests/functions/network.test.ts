import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { requires } from "../support/require.ts";

describe.runIf(requires("bubblewrap"))("the network of a build", () => {
  let fixture: BuildFixture;
  beforeAll(async () => {
    fixture = await createBuildFixture({ sandbox: "local" });
  });
  afterAll(() => fixture.close());
  const gates = { testing: false, critic: false, integration: false, maxFixRounds: 0 };

  it("defaults to an allowlist, and a failure names the hosts that were denied", async () => {
    // Like many programs, it does not say why it could not fetch something.
    const agentsOwn = "curl -s https://ab.chatgpt.com/x";
    const run = `${agentsOwn} || true; curl -s --fail https://denied.example/x > fetched`;
    const build = await fixture.build({ gates, tasks: [{ id: "fetch", run, retries: 0 }] });
    expect(build).toMatchObject({ status: "failed", network: "allowlist" });
    const attempt = await fixture.app.store.attempts.get({ buildId: build.id });
    expect(attempt.reason).toMatch(
      /^run exited with \d+; meanwhile the network denied denied\.example \(if it is needed: network: \{ allow: \["denied\.example"\] \} in the plan\)$/,
    );
  });

  it("is named when a program cannot reach a host because of it, with what to allow", async () => {
    const run = "curl -s --fail https://registry.example/x > fetched";
    const build = await fixture.build({ network: "none", gates, tasks: [{ id: "fetch", run, retries: 0 }] });
    expect((await fixture.app.store.attempts.get({ buildId: build.id })).reason).toMatch(
      /^run exited with \d+; the network is off \(network: none\), but programs tried to reach registry\.example \(if it is needed: network: \{ allow: \["registry\.example"\] \} in the plan\)$/,
    );
  });

  it("names an allowed host that cannot be reached in the failure, with the reason", async () => {
    const run = "curl -s --fail http://nobody.invalid/ > fetched";
    const network = { allow: ["nobody.invalid"] };
    const build = await fixture.build({ network, gates, tasks: [{ id: "fetch", run, retries: 0 }] });
    expect((await fixture.app.store.attempts.get({ buildId: build.id })).reason).toMatch(
      /^run exited with \d+; meanwhile nobody\.invalid \(E\w+\) could not be reached, although that is allowed$/,
    );
  });

  it("is reported in the same way when a gate fails", async () => {
    const testing = { command: "curl -s --fail http://gate.example:8080/ || { echo 'not ok 1'; exit 1; }" };
    const tasks = [{ id: "write", run: "echo 1 > file" }];
    const build = await fixture.build({ network: "allowlist", gates: { ...gates, testing }, tasks });
    const run = await fixture.app.store.gateRuns.get({ buildId: build.id, gate: "testing" });
    expect(run.reason).toMatch(/the network denied gate\.example:8080 \(if it is needed: .*\["gate\.example:8080"\]/);
  });

  it("is not mentioned when a failure has nothing to do with it", async () => {
    const build = await fixture.build({
      network: { allow: ["x.example"] },
      gates,
      tasks: [{ id: "fail", run: "exit 3", retries: 0 }],
    });
    expect((await fixture.app.store.attempts.get({ buildId: build.id })).reason).toBe("run exited with 3");
  });
});
