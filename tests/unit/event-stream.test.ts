import { setImmediate as nextTurn } from "node:timers/promises";
import { expect, test } from "vitest";
import type { ApiContext } from "../../src/server/api/endpoint.ts";
import { encodeEvents, eventStream, type StreamPart } from "../../src/server/api/event-stream.ts";

const nothing: StreamPart = { bytes: encodeEvents([]), hasMore: false, isOver: false };
const event = (id: number): StreamPart => ({ ...nothing, bytes: encodeEvents([{ id, event: "log", data: {} }]) });

test.each([
  ["has nothing more", nothing],
  ["has another event", event(2)],
])("LF1: a client that goes while its stream looks and %s is no fault", async (_what, last) => {
  const warnings: string[] = [];
  const api = {
    stopping: new AbortController().signal,
    heartbeatMs: 15_000,
    warn: (text: string) => warnings.push(text),
  };
  let answer!: (part: StreamPart) => void;
  const second = new Promise<StreamPart>((resolve) => {
    answer = resolve;
  });
  const reader = { gone: new AbortController().signal, isAllowed: async () => true };
  const parts = [Promise.resolve(event(1)), second];
  const response = eventStream(api as unknown as ApiContext, reader, () => ({
    next: () => parts.shift() ?? Promise.resolve(nothing),
    stop: () => undefined,
  }));
  const taken = response.body!.getReader();
  expect(new TextDecoder().decode((await taken.read()).value)).toContain("id: 1\n");
  await nextTurn();
  expect(parts, "the stream looks for more").toEqual([]);
  await taken.cancel();
  answer(last);
  await nextTurn();
  expect(warnings).toEqual([]);
});
