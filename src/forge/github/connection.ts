import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { WavesmithError } from "../../domain/errors.ts";
import { writeCredential } from "../credential-file.ts";
import { ForgeError, type ForgeIdentity, type GitHubConnection, type GitHubSignIn } from "../port.ts";
import type { GitHubCredential, GitHubSettings } from "../settings.ts";
import { readUnfinishedApp, removeUnfinishedApp, type UnfinishedApp, writeUnfinishedApp } from "./app-file.ts";
import { createClients, type GitHubClients } from "./client.ts";
import { identifyAccount } from "./identity.ts";
import { appManifest, exchangeCode, newAppPage } from "./new-app.ts";

// GI1. Only the browser that we sent to GitHub can finish an App: its state is random, is stored
// as a hash, lasts ten minutes and is gone once the key is stored. GitHub gives the key once, so we
// note the exchange before it begins. After a crash in between, we say what is left on GitHub.

const stateMs = 10 * 60_000;

export interface ConnectionOptions extends GitHubSettings {
  readonly clients: GitHubClients;
  readonly dataDir: string;
  /** Whether settings name the credential, so that none that is stored would count. */
  readonly isFixed: boolean;
  /** Where others reach this server; null: nowhere. */
  readonly publicUrl: string | null;
  readonly now: () => Date;
}

/** Signs in at GitHub. The App that is being made is a file, so that a restart changes nothing. */
export function createConnection(options: ConnectionOptions): GitHubConnection {
  const { apiUrl, webUrl, clients, credential, dataDir, isFixed, publicUrl, now } = options;
  let last: Promise<unknown> = Promise.resolve();
  const inOrder = <Result>(work: () => Promise<Result>): Promise<Result> => {
    const result = last.then(work);
    last = result.catch(() => undefined);
    return result;
  };
  const refuseFixed = (): void => {
    if (!isFixed) return;
    throw new WavesmithError("conflict", "settings already name a credential for GitHub, which wins over this one", {
      remedy: "unset WAVESMITH_GITHUB_TOKEN, WAVESMITH_GITHUB_APP_ID and WAVESMITH_GITHUB_APP_KEY_FILE",
    });
  };
  const store = async (given: GitHubCredential): Promise<string> => {
    const path = await writeCredential(dataDir, given);
    await removeUnfinishedApp(dataDir);
    return path;
  };
  return {
    webUrl,
    read: () => readSignIn(options),
    async store(given) {
      refuseFixed();
      const identity = await identifyAccount(createClients({ apiUrl, webUrl, credential: () => given }));
      return { identity, path: await inOrder(() => store(given)) };
    },
    async beginApp({ origin, organization }) {
      refuseFixed();
      const state = randomBytes(24).toString("base64url");
      const expiresAt = new Date(now().getTime() + stateMs);
      const manifest = appManifest({ redirectUrl: `${origin}/connect/github/done`, publicUrl, webUrl });
      const action = newAppPage(webUrl, organization, state);
      const app = { state: digestOf(state), expiresAt, action, manifest, exchange: null };
      await inOrder(() => writeUnfinishedApp(dataDir, app));
      return { state, expiresAt };
    },
    async appForm(state) {
      const { action, manifest } = checkState(await readUnfinishedApp(dataDir), state, now());
      return { action, manifest };
    },
    finishApp: (answer) =>
      inOrder(async () => {
        refuseFixed();
        await beginExchange(options, answer);
        const made = await exchangeCode(clients, answer.code).catch((error: unknown) => {
          throw exchangeProblem(error, webUrl);
        });
        const { id, pem: privateKey, webhook_secret: secret } = made;
        await store({ kind: "app", appId: String(id), privateKey, webhookSecret: secret ?? undefined });
        return { name: made.name, installUrl: `${made.html_url}/installations/new` };
      }),
    webhookSecrets() {
      const current = credential();
      return current?.kind === "app" && current.webhookSecret !== undefined ? [current.webhookSecret] : [];
    },
  };
}

async function readSignIn({ clients, credential, dataDir, isFixed, webUrl }: ConnectionOptions): Promise<GitHubSignIn> {
  const app = await readUnfinishedApp(dataDir);
  const since = app?.exchange?.startedAt;
  const unfinished = since === undefined ? null : { since, remedy: leftApp(webUrl) };
  try {
    const source = credential() === null ? null : isFixed ? "settings" : "stored";
    const identity: ForgeIdentity | null = source === null ? null : await identifyAccount(clients);
    return { source, identity, problem: null, unfinished };
  } catch (error) {
    if (!(error instanceof ForgeError)) throw error;
    const { message, remedy } = error;
    const source = isFixed ? "settings" : "stored";
    return { source, identity: null, problem: { message, remedy: remedy ?? null }, unfinished };
  }
}

/** Notes that the code of an App is about to be exchanged. Fails unless both belong to it. */
async function beginExchange(
  { dataDir, now }: ConnectionOptions,
  { state, code }: Parameters<GitHubConnection["finishApp"]>[0],
): Promise<void> {
  const app = checkState(await readUnfinishedApp(dataDir), state, now());
  if (!/^[\w-]{1,200}$/.test(code)) throw stateProblem();
  const exchange = { code: digestOf(code), startedAt: now() };
  // A reload of the page may try the same code again.
  if (app.exchange !== null && app.exchange.code !== exchange.code) throw stateProblem();
  await writeUnfinishedApp(dataDir, { ...app, exchange: app.exchange ?? exchange });
}

const digestOf = (text: string): string => createHash("sha256").update(text).digest("hex");

const leftApp = (webUrl: string): string =>
  `look for the App on ${webUrl}/settings/apps (for an organisation, in its settings): delete it and begin again, ` +
  "or make a private key there, then: wavesmith github setup --app ID --key FILE";

const stateProblem = (): WavesmithError =>
  new WavesmithError("usage", "this page is not, or no longer, part of signing in to GitHub", {
    remedy: "begin again: wavesmith github connect, or the dashboard's settings",
  });

/** Returns the App that a state belongs to. */
function checkState(app: UnfinishedApp | null, state: string, now: Date): UnfinishedApp {
  if (app === null || app.expiresAt <= now) throw stateProblem();
  if (!timingSafeEqual(Buffer.from(app.state, "hex"), Buffer.from(digestOf(state), "hex"))) throw stateProblem();
  return app;
}

/** The same failure, with what to do about the App. */
function exchangeProblem(error: unknown, webUrl: string): unknown {
  if (!(error instanceof ForgeError)) return error;
  const { fault, message } = error;
  const remedy =
    fault === "not-found" || fault === "invalid"
      ? `GitHub does not know this code, or has used it: ${leftApp(webUrl)}`
      : `load this page again within ten minutes; if that does not help, ${leftApp(webUrl)}`;
  return new ForgeError(fault, message, { remedy, cause: error });
}
