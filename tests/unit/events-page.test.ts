import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { eventsPage } from "../../scripts/events-page.ts";
import { eventSchemas, schemaForEvent } from "../../src/domain/events/events.ts";
import { parsePlanValue } from "../../src/plan/parse-plan.ts";

const page = readFileSync(new URL("../../docs/events.md", import.meta.url), "utf8");

describe("docs/events.md", () => {
  it("is what `npm run events` writes, and names every event", () => {
    expect(page).toBe(eventsPage());
    for (const name of Object.keys(eventSchemas)) expect(page).toContain(`| \`${name}\` |`);
  });

  it("shows triggers whose data is right", () => {
    const bodies = [...page.matchAll(/-d '(\{.*\})'$/gm)].map(([, body]) => JSON.parse(body!));
    expect(bodies).toHaveLength(4);
    const ids = { tenantId: "ten_1", projectId: "proj_1" };
    for (const { name, data } of bodies)
      expect(schemaForEvent(name)?.safeParse({ ...ids, ...data }).error).toBeUndefined();
    expect(parsePlanValue(bodies[0].data.plan, { baseDir: null, env: {} }).faults).toEqual([]);
  });
});
