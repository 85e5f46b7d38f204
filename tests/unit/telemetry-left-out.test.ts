import { readFileSync } from "node:fs";
import { Inngest } from "inngest";
import { serve } from "inngest/edge";
import { describe, expect, it } from "vitest";

// The Inngest SDK brings 200 MB of OpenTelemetry for `inngest/experimental`, which this project
// never loads; package.json overrides it with an empty package.

describe("the Inngest SDK without OpenTelemetry's instrumentation", () => {
  it("is locked without it", () => {
    const { packages } = JSON.parse(readFileSync(new URL("../../package-lock.json", import.meta.url), "utf8")) as {
      packages: Record<string, { readonly name?: string }>;
    };
    const left = Object.entries(packages).filter(([path, { name }]) => {
      return /@opentelemetry\/(?!api$)|@traceloop\//.test(path) && name !== "empty-npm-package";
    });
    expect(left.map(([path]) => path)).toEqual([]);
  });

  it("creates functions and runs one of them", async () => {
    const client = new Inngest({ id: "without-telemetry", isDev: true });
    const greet = client.createFunction({ id: "greet", triggers: [{ event: "greet" }] }, () => "hello");
    const handle = serve({ client, functions: [greet] });
    const body = { event: { name: "greet", data: {} }, events: [], steps: {}, ctx: { run_id: "1", attempt: 0 } };
    const url = "http://127.0.0.1/api/inngest?fnId=without-telemetry-greet&stepId=step";
    const answer = await handle(
      new Request(url, { method: "POST", headers: { host: "127.0.0.1" }, body: JSON.stringify(body) }),
    );
    expect(await answer.json()).toBe("hello");
  });
});
