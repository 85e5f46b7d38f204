import { existsSync } from "node:fs";
import { afterAll, expect, it } from "vitest";
import { createCommandPlace } from "../support/command.ts";

const place = createCommandPlace();
afterAll(() => place.close());

it("a test that fails in the middle of a build leaves no Postgres and no folder of its socket", async () => {
  const build = place.start("build", place.plan("long", [{ id: "a", run: "sleep 600" }]));
  await build.said("a: started");
  const socketFolder = place.socketFolder();
  expect(existsSync(socketFolder ?? "")).toBe(true);
  place.close();
  expect([existsSync(socketFolder ?? ""), existsSync(place.folder)]).toEqual([false, false]);
});
