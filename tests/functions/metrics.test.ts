import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { exposition } from "../../src/server/metrics.ts";
import { type RunningServer, startServer } from "../../src/server/server.ts";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";

const key = "s3cret-of-the-metrics";

describe("/metrics", () => {
  let fixture: BuildFixture;
  let server: RunningServer;

  beforeEach(async () => {
    fixture = await createBuildFixture();
    server = await startServer({
      ...{ app: fixture.app, engine: { kind: "embedded", serveOrigin: null }, key, host: "127.0.0.1", port: 0 },
      ...{ inform: () => undefined, warn: () => undefined },
    });
  });
  afterEach(async () => {
    await server.stop();
    await fixture.close();
  });

  const scrape = (authorization: string) => fetch(`${server.origin}/metrics`, { headers: { authorization } });

  it("shows counts, durations and queues, only to holders of a key", async () => {
    expect((await scrape("Bearer wrong")).status).toBe(401);
    const task = "hostile-name-of-a-task";
    const build = await fixture.build({ tasks: [{ id: task, run: "echo a > a.txt" }] });
    expect(build.status).toBe("completed");
    const response = await scrape(`Bearer ${key}`);
    expect([response.status, response.headers.get("content-type")]).toEqual([
      200,
      "text/plain; version=0.0.4; charset=utf-8",
    ]);
    const text = await response.text();
    const values = valuesIn(text);
    expect(values.get('wavesmith_builds{status="completed"}')).toBe(1);
    expect(values.get('wavesmith_builds{status="failed"}')).toBe(0);
    expect(values.get('wavesmith_tasks{status="completed"}')).toBe(1);
    expect(values.get('wavesmith_attempt_outcomes{outcome="succeeded"}')).toBe(1);
    expect(values.get('wavesmith_build_duration_seconds{quantile="0.5"}')).toBeGreaterThan(0);
    expect(values.get('wavesmith_attempt_duration_seconds{kind="task",quantile="0.99"}')).toBeGreaterThan(0);
    expect(values.get("wavesmith_model_spent_usd")).toBe(0);
    expect(values.get('wavesmith_http_requests_total{method="GET",status="4xx"}')).toBe(1);
    expect(values.get("process_resident_memory_bytes")).toBeGreaterThan(1_000_000);
    for (const name of ["outbox_lag_seconds", "outbox_unsent_events", "engine_calls_due", "engine_lag_seconds"])
      expect([name, values.has(`wavesmith_${name}`)]).toEqual([name, true]);
    for (const name of [task, build.id, fixture.projectId]) expect(text).not.toContain(name);
  });
});

describe("Prometheus's text format", () => {
  it("escapes what a label or a help text may contain", () => {
    const samples = [{ labels: { a: 'quote " backslash \\ line\nend' }, value: 1.5 }];
    expect(exposition([{ name: "odd", type: "gauge", help: "two\nlines \\", samples }])).toBe(
      '# HELP odd two\\nlines \\\\\n# TYPE odd gauge\nodd{a="quote \\" backslash \\\\ line\\nend"} 1.5\n',
    );
  });
});

/** Reads the format strictly: each series once, after its type. */
function valuesIn(text: string): Map<string, number> {
  const values = new Map<string, number>();
  const types = new Set<string>();
  for (const line of text.trimEnd().split("\n")) {
    const type = /^# TYPE (\w+) (?:gauge|counter)$/.exec(line)?.[1];
    if (type !== undefined) {
      expect(types.has(type), `${type} twice`).toBe(false);
      types.add(type);
    } else if (!/^# HELP \w+ \S/.test(line)) {
      const [, series, name, value] = /^((\w+)(?:\{\w+="[^"]*"(?:,\w+="[^"]*")*\})?) (\S+)$/.exec(line) ?? [];
      expect([line, types.has(name!), values.has(series!), Number.isFinite(Number(value))]).toEqual([
        ...[line, true, false, true],
      ]);
      values.set(series!, Number(value));
    }
  }
  return values;
}
