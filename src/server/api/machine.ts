import { z } from "@hono/zod-openapi";
import { WavesmithError } from "../../domain/errors.ts";
import { requireOperator } from "../access/operators.ts";
import { type ApiContext, type Endpoint, endpoint } from "./endpoint.ts";

/** How long a result is shown: a new look starts sandboxes. */
const freshMs = 60_000;

const again = z.strictObject({ again: z.enum(["true", "false"]).default("false") });
const checkReply = z
  .looseObject({
    name: z.string(),
    ok: z.boolean(),
    detail: z.string(),
    remedy: z.string().nullable(),
    needed: z.boolean(),
  })
  .openapi("MachineCheck");
const agentReply = z
  .looseObject({
    name: z.string(),
    title: z.string(),
    runtime: z.string(),
    command: z.string().nullable(),
    installed: z.string().nullable(),
    greeting: z.looseObject({ answers: z.boolean() }).nullable(),
    signedInWith: z.array(z.string()),
    lacks: z.array(z.looseObject({ what: z.string(), remedy: z.string() })),
  })
  .openapi("AgentReport");
const untried = z.looseObject({ what: z.string(), remedy: z.string() }).nullable();

/**
 * Shows what the server's machine has and lacks. It serves all tenants, so only its operators may
 * see this.
 */
export function machineEndpoints({ app, machine }: ApiContext): Endpoint[] {
  const operatorsMachine = () => {
    requireOperator(app.tenant, "the machine");
    if (machine === null) throw new WavesmithError("not-found", "this server cannot look at its machine");
    return machine;
  };
  const check = keptFor(freshMs, () => operatorsMachine().check());
  const tryAgents = keptFor(freshMs, () => operatorsMachine().tryAgents());
  return [
    endpoint("get /doctor", {
      summary: "Try everything that building needs on the server's machine; ?again=true does not wait a minute",
      needs: "admin",
      query: again,
      reply: z.looseObject({ ok: z.boolean(), checks: z.array(checkReply) }).openapi("Doctor"),
      handle: async ({ query }) => ({ body: await check(query.again === "true") }),
    }),
    endpoint("get /agents", {
      summary: "Try every known agent in a sandbox on the server's machine, and show what each one lacks",
      needs: "admin",
      query: again,
      reply: z
        .looseObject({ ok: z.boolean(), sandbox: z.string(), untried, agents: z.array(agentReply) })
        .openapi("Agents"),
      handle: async ({ query }) => ({ body: await tryAgents(query.again === "true") }),
    }),
  ];
}

/** Looks at most once at a time, and not again for a while unless asked to. */
function keptFor<Found>(ms: number, look: () => Promise<Found>): (isAsked: boolean) => Promise<Found> {
  let last: { readonly found: Promise<Found>; until: number } | null = null;
  return (isAsked) => {
    const now = performance.now();
    if (last !== null && now < last.until && (!isAsked || last.until === Number.POSITIVE_INFINITY)) return last.found;
    const found = look();
    const own = { found, until: Number.POSITIVE_INFINITY };
    last = own;
    // A failure, which its caller gets, is not kept.
    found.then(
      () => (own.until = performance.now() + ms),
      () => (own.until = 0),
    );
    return found;
  };
}
