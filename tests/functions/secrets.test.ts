import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import pg from "pg";
import { beforeEach, describe, expect, it } from "vitest";
import { agentBuilds, builtin, scripted } from "../support/agent-builds.ts";
import { runHere } from "../support/command-line.ts";

// An agent shows its secrets in every way it can think of, and nothing that is stored or shown
// contains them (W12).

const deploy = "dep/loy+S3cret value=4711-üäö";
const pem = "-----BEGIN KEY-----\nMIIabcdefghijkl\nshort1\nend=\n-----END-----";
const providerKey = "sk-ant-api03-a-real-key-of-ours-0123456789";
const ungated = { testing: false, critic: false, integration: false, maxFixRounds: 0 };

const world = agentBuilds();
beforeEach(() => world.open({ env: { DEPLOY_SECRET: deploy, SIGNING_KEY: pem, ANTHROPIC_API_KEY: providerKey } }));

/** Every form in which programs tend to print a value. */
const formsOf = (value: string): string[] => [
  value,
  encodeURIComponent(value),
  JSON.stringify(value).slice(1, -1),
  Buffer.from(value).toString("base64"),
  Buffer.from(value).toString("base64url"),
  Buffer.from(value).toString("hex"),
  // Behind other text, its base64 has different characters.
  Buffer.from(`user:${value}`).toString("base64").slice(8, -4),
];

/** All text in all tables of all schemas, including the engine's. */
async function allRows(): Promise<string> {
  const pool = new pg.Pool({ connectionString: world.fixture.app.config.databaseUrl! });
  const { rows: tables } = await pool.query<{ name: string }>(
    `select format('%I.%I', schemaname, tablename) as name from pg_tables
     where schemaname not in ('pg_catalog', 'information_schema')`,
  );
  const texts = await Promise.all(
    tables.map(async ({ name }) => {
      const { rows } = await pool.query<{ text: string }>(`select t::text as text from ${name} t`);
      return rows.map(({ text }) => text);
    }),
  );
  await pool.end();
  expect(tables.length).toBeGreaterThan(20);
  return texts.flat().join("\n");
}

/** The output of a command on both streams. */
async function shownBy(...words: string[]): Promise<string> {
  const { databaseUrl, dataDir } = world.fixture.app.config;
  const environment = { ...process.env, DATABASE_URL: databaseUrl!, WAVESMITH_DATA: dataDir };
  return (await runHere(words, environment)).text;
}

async function expectNowhere(texts: Record<string, string>, values: Record<string, string>): Promise<void> {
  for (const [name, value] of Object.entries(values)) {
    for (const form of formsOf(value)) {
      for (const [where, text] of Object.entries(texts)) {
        // Rows are printed with quotes doubled and line ends unchanged.
        const found = text.indexOf(form);
        expect(found < 0 ? "" : `${name} in ${where}: …${text.slice(Math.max(0, found - 80), found + 20)}`).toBe("");
      }
    }
  }
}

const show = (name: string): string =>
  [
    `env ${name}`,
    `say ,`,
    `halves ${name}`,
    `run printf '%s' "$${name}" > shown.${name}`,
    `noise it is ${"$"}{${name}}`,
  ].join("\n");

describe("an agent's secrets", () => {
  it("are in no row, event, log or view, however an agent prints them", async () => {
    const values = { DEPLOY_SECRET: deploy, SIGNING_KEY: pem };
    const print = (name: string): string =>
      `node -e 'const v = process.env.${name} ?? ""; const b = Buffer.from(v); console.log(v); console.error(encodeURIComponent(v)); console.log(JSON.stringify({ v })); console.log(b.toString("base64")); console.log(b.toString("base64").replace(/.{20}/g, "$&\\n")); console.log(b.toString("base64url"), b.toString("hex")); console.log(Buffer.from("user:" + v).toString("base64"));'`;
    const slowly = `node -e 'const v = Buffer.from(process.env.DEPLOY_SECRET).toString("base64"); (async () => { for (const part of v.match(/.{1,24}/g)) { console.log(part); await new Promise((r) => setTimeout(r, 700)); } })()'`;
    mkdirSync(join(world.folder, "seed/bin"), { recursive: true });
    writeFileSync(
      join(world.folder, "seed/bin/print.sh"),
      `${print("DEPLOY_SECRET")}\n${print("SIGNING_KEY")}\n${print("WAVESMITH_MODEL_TOKEN")}\n${slowly}\n`,
    );
    const { fixture } = world;
    const buildId = await fixture.request(
      {
        name: "leaks",
        source: { path: "seed" },
        gates: {
          ...ungated,
          testing: { command: "sh bin/print.sh; echo 'not ok 1 - '$DEPLOY_SECRET; exit 1", minTests: 1 },
        },
        network: "none",
        secrets: ["DEPLOY_SECRET", "SIGNING_KEY"],
        agents: { talker: scripted, shell: { runtime: "command", command: "sh bin/print.sh; exit 3" } },
        tasks: [
          {
            id: "talk",
            agent: "talker",
            instructions: `${["DEPLOY_SECRET", "SIGNING_KEY", "WAVESMITH_MODEL_TOKEN", "ANTHROPIC_AUTH_TOKEN"].map(show).join("\n")}\nwrite done.txt yes\nfail -32603 my last word`,
            retries: 0,
          },
          { id: "print", agent: "shell", instructions: "print", retries: 1 },
          { id: "script", run: 'sh bin/print.sh; echo "$DEPLOY_SECRET" >&2; echo ok > ok' },
        ],
      },
      { planFolder: world.folder },
    );
    const build = await fixture.until(buildId);
    expect(build.status).toBe("failed");
    const attempts = await fixture.app.store.attempts.list({ buildId });
    const tokens = await Promise.all(
      attempts.map(({ id, fence }) => fixture.app.ports.models.tokenFor("attempt", id, fence)),
    );
    const rows = await allRows();
    // Something was masked. Without this check the test would pass for an agent that printed
    // nothing.
    for (const name of ["DEPLOY_SECRET", "SIGNING_KEY", "WAVESMITH_MODEL_TOKEN"])
      expect(rows).toContain(`[secret ${name}]`);
    const shown = [];
    for (const words of [
      ["logs", buildId],
      ["status", buildId],
      ["status", buildId, "--json"],
      ["logs", buildId, "--follow"],
    ])
      shown.push(await shownBy(...words));
    expect(shown[0]).toContain("[secret DEPLOY_SECRET]");
    await expectNowhere(
      { rows, shown: shown.join("\n"), warnings: fixture.warnings.join("\n") },
      { ...values, ...Object.fromEntries(tokens.map((token, index) => [`token ${index}`, token])) },
    );
    // Half of a token is worth little, and is not there either.
    for (const token of tokens) {
      const mac = token.slice(token.lastIndexOf(".") + 1);
      expect(rows).not.toContain(mac.slice(0, 20));
      expect(rows).not.toContain(mac.slice(-20));
    }
  });

  it("are not in the name of a joined file", async () => {
    const { fixture } = world;
    const buildId = await fixture.request(
      {
        gates: ungated,
        secrets: ["SIGNING_KEY"],
        tasks: [{ id: "a", run: 'touch "name-$(printf %s "$SIGNING_KEY" | sed -n 2p)"', retries: 0 }],
      },
      { planFolder: world.folder },
    );
    expect((await fixture.until(buildId)).status).toBe("failed");
    const [attempt] = await fixture.app.store.attempts.list({ buildId });
    expect(attempt).toMatchObject({ outcome: "refused", reason: expect.stringContaining("[secret SIGNING_KEY]") });
    await expectNowhere({ rows: await allRows() }, { line: "MIIabcdefghijkl" });
  });

  it("do not include our key, which an agent never sees, even if the provider repeats it", async () => {
    world.answers = () => ({ status: 401, message: `Incorrect API key provided: ${providerKey}` });
    const { fixture } = world;
    const buildId = await fixture.request(
      {
        gates: ungated,
        network: "none",
        agents: { backend: builtin },
        tasks: [{ id: "a", agent: "backend", instructions: "go", retries: 0 }],
      },
      { planFolder: world.folder },
    );
    expect((await fixture.until(buildId)).status).toBe("failed");
    expect(world.providers.requests.length).toBeGreaterThan(0);
    const [attempt] = await fixture.app.store.attempts.list({ buildId });
    expect(attempt!.reason).toContain("Incorrect API key provided");
    await expectNowhere({ rows: await allRows() }, { key: providerKey });
  });
});
