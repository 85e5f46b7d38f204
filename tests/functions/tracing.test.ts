import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { type BuildFixture, createBuildFixture } from "../support/build-fixture.ts";
import { type OtlpReceiver, pathsOf, startOtlpReceiver } from "../support/otlp-receiver.ts";

describe("traces", () => {
  let receiver: OtlpReceiver;
  let fixture: BuildFixture;
  let isOpen = false;

  beforeEach(async () => {
    receiver = await startOtlpReceiver();
    fixture = await createBuildFixture({
      env: { OTEL_EXPORTER_OTLP_ENDPOINT: `${receiver.url}/`, OTEL_EXPORTER_OTLP_HEADERS: "authorization=Bearer%20k" },
    });
    isOpen = true;
  });
  afterEach(async () => {
    if (isOpen) await fixture.close();
    await receiver.close();
  });

  it("have one span for the build and each wave, task, attempt and gate, even if the collector was away", async () => {
    receiver.answer(503);
    const tasks = [
      { id: "a", run: "echo a > a.txt" },
      { id: "b", dependsOn: ["a"], retries: 1, run: "exit 1" },
    ];
    const build = await fixture.build({ tasks });
    expect(build.status).toBe("failed");
    await expect.poll(() => receiver.refused(), { timeout: 30_000 }).toBeGreaterThan(0);
    receiver.answer(200);
    isOpen = false;
    await fixture.close();
    expect(pathsOf(receiver.spans)).toEqual([
      "build",
      "build > wave 1",
      "build > wave 1 > gate critic",
      "build > wave 1 > gate integration",
      "build > wave 1 > gate testing",
      "build > wave 1 > task a",
      "build > wave 1 > task a > attempt 1",
      "build > wave 2",
      "build > wave 2 > task b",
      "build > wave 2 > task b > attempt 1",
      "build > wave 2 > task b > attempt 2",
    ]);
    expect(new Set(receiver.spans.map(({ traceId }) => traceId)).size).toBe(1);
    expect(new Set(receiver.spans.map(({ spanId }) => spanId)).size).toBe(receiver.spans.length);
    const named = (name: string) => receiver.spans.find((span) => span.name === name)!;
    expect(named("attempt 2").status).toEqual({ code: 2, message: expect.stringContaining("exited with 1") });
    expect(named("task a").status).toEqual({});
    expect(named("build").attributes).toContainEqual({
      key: "wavesmith.build.id",
      value: { stringValue: build.id },
    });
    for (const { startTimeUnixNano, endTimeUnixNano } of receiver.spans)
      expect(BigInt(endTimeUnixNano) >= BigInt(startTimeUnixNano)).toBe(true);
    expect(receiver.headers[0]).toMatchObject({ authorization: "Bearer k", "content-type": "application/json" });
    const warned = fixture.warnings.filter((text) => text.includes("traces cannot be sent"));
    expect(warned, "a collector that is away is a warning, once").toHaveLength(1);
  });
});
