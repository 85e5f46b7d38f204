import { Pool } from "pg";
import { Inngest, NonRetriableError } from "inngest";
import { createEngine } from "/work/main/src/engine/engine.ts";
const pool = new Pool({ host: "/tmp/eng/pg", user: "postgres", database: "eng", max: 10 });
await pool.query("truncate engine.events, engine.runs, engine.jobs, engine.steps, engine.pending, engine.crons cascade");
const engine = createEngine({ database: pool, partition: () => null });
const client = new Inngest({ id: "app", isDev: true, baseUrl: "http://engine.invalid", eventKey: "k", fetch: engine.fetch });
const log: string[] = [];
const fns = [
  client.createFunction({ id: "hello", triggers: [{ event: "a/hello" }], retries: 2 }, async ({ event, step }) => {
    const x = await step.run("one", () => { log.push("one"); return 1; });
    const [p, q] = await Promise.all([step.run("p", () => { log.push("p"); return 2; }), step.run("q", () => { log.push("q"); return 3; })]);
    await step.sendEvent("send", { name: "a/next.x", data: { x } });
    await step.sleep("nap", "1s");
    return x + p + q;
  }),
  client.createFunction({ id: "next", triggers: [{ event: "a/next.*" }], retries: 1, onFailure: async ({ error, event }) => { log.push("onFailure " + error.message + " " + event.data.function_id); } }, async ({ step, attempt }) => {
    log.push("next " + attempt);
    await step.run("boom", () => { throw new Error("boom"); });
  }),
];
await engine.register(client, fns);
engine.start("all");
const t = Date.now();
await engine.send([{ name: "a/hello", id: "1", data: {} }]);
await engine.idle();
console.log(Date.now() - t, log);
await new Promise((r) => setTimeout(r, 1200)); await engine.idle();
console.log(Date.now() - t, log);
console.log((await pool.query("select function_id,status,output from engine.runs")).rows);
console.log((await pool.query("select count(*) from engine.jobs")).rows);
// latency
const starts: number[] = [];
const fns2 = client.createFunction({ id: "lat", triggers: [{ event: "a/lat" }], retries: 0 }, async ({ event }) => { starts.push(performance.now() - event.data.t); });
const seq = client.createFunction({ id: "seq", triggers: [{ event: "a/seq" }], retries: 0 }, async ({ event, step }) => { for (let i = 0; i < 200; i++) await step.run(`s${i}`, () => i); });
const fan = client.createFunction({ id: "fan", triggers: [{ event: "a/fan" }], retries: 0, concurrency: { limit: 3, key: "event.data.k" } }, async ({ event, step }) => { await step.run(`s`, () => 1); });
await engine.register(client, [...fns, fns2, seq, fan]);
for (let i = 0; i < 60; i++) { await engine.send([{ name: "a/lat", id: `l${i}`, data: { t: performance.now() } }]); await engine.idle(); }
starts.sort((a, b) => a - b); console.log("latency median", starts[30], "min", starts[0]);
await pool.query("create table if not exists public.raw(i int)");
for (let k=0;k<3;k++) {
let t0 = performance.now(); for (let i = 0; i < 200; i++) await pool.query("insert into public.raw values ($1)", [i]); const raw = (performance.now() - t0) / 200;
t0 = performance.now(); await engine.send([{ name: "a/seq", id: "s"+k, data: {} }]); await engine.idle(); console.log("seq ms/step", (performance.now() - t0) / 200, "raw", raw);
}
const t0 = performance.now(); await engine.send(Array.from({ length: 1000 }, (_, i) => ({ name: "a/fan", id: `f${i}`, data: { k: i % 4 } }))); const t1 = performance.now(); await engine.idle(); console.log("fan", performance.now() - t0, "send", t1 - t0);
await engine.stop();
await pool.end();
