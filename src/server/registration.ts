import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { InngestEndpoint } from "./port.ts";

// A server forgets functions when it restarts without its data, and it calls the latest URL that
// registered. So we keep checking where it calls us, and register again if nobody answers there.

/** Keeps an Inngest server calling our functions. */
export interface Registration {
  /** Why the server does not call us or does not accept our events; null if all is well. */
  readonly trouble: string | null;
  stop(): Promise<void>;
}

export interface RegistrationOptions {
  /** Called with the URL at which the server calls the functions, whenever it changes. */
  readonly onRegistered: (url: string) => void;
  readonly warn: (message: string) => void;
  /** Where the server should call us. */
  readonly ownUrl: string;
  /** This installation: another process of it may receive the calls, a stranger may not. */
  readonly installation: string;
  /** Milliseconds between two checks; default 3 s. */
  readonly everyMs?: number;
}

/** After this many checks, registers again with a server that does not say where it calls us. */
const checksPerRenewal = 20;
const peerMs = 2_000;

/**
 * Registers until the server accepts, and again whenever it calls no process of this installation.
 * Reports each change once.
 */
export function keepRegistered(endpoint: InngestEndpoint, options: RegistrationOptions): Registration {
  const { warn, everyMs = 3_000 } = options;
  let trouble: string | null = "Inngest has not registered the functions yet";
  let warned = "";
  let reported = "";
  let checkCount = 0;
  let stopped = false;
  let wake: () => void = () => undefined;
  const check = async (): Promise<void> => {
    const isDue = trouble !== null || checkCount % checksPerRenewal === 0;
    checkCount += 1;
    if (isDue) await endpoint.checkEventKey();
    const url = await ensureRegistered(endpoint, options, isDue);
    if (url !== reported) options.onRegistered(url);
    reported = url;
    trouble = null;
    warned = "";
  };
  const loop = (async () => {
    while (!stopped) {
      await check().catch((error: unknown) => {
        trouble = describe(error);
        if (trouble !== warned && !stopped) warn(`${trouble}; retrying every ${everyMs / 1000} seconds`);
        warned = trouble;
      });
      await new Promise<void>((resolve) => {
        wake = resolve;
        if (stopped) resolve();
        else setTimeout(resolve, everyMs).unref();
      });
    }
  })();
  return {
    get trouble() {
      return trouble;
    },
    async stop() {
      stopped = true;
      wake();
      await loop;
    },
  };
}

/** Returns where the server calls the functions, after registering again if necessary. */
async function ensureRegistered(
  endpoint: InngestEndpoint,
  options: RegistrationOptions,
  isDue: boolean,
): Promise<string> {
  const registered = await endpoint.registered();
  if (registered.at === "other") {
    const peer = await installationAt(registered.url);
    if (peer === options.installation) return registered.url;
    if (peer !== null) throw foreign(registered.url);
  }
  if (registered.at === "nowhere" || registered.at === "other" || (registered.at === "unknown" && isDue))
    await endpoint.register();
  return options.ownUrl;
}

/** Returns the installation that answers at an endpoint; null if none. */
async function installationAt(url: string): Promise<string | null> {
  try {
    const response = await fetch(new URL("/healthz", url), { signal: AbortSignal.timeout(peerMs) });
    const { installation } = (await response.json()) as { installation?: unknown };
    return typeof installation === "string" ? installation : null;
  } catch {
    return null; // some other program answers there
  }
}

const foreign = (url: string): WavesmithError =>
  new WavesmithError("engine", `Inngest calls the functions of another installation, at ${url}`, {
    retryable: true,
    remedy: "stop that one, or give each installation an Inngest server of its own",
  });

function describe(error: unknown): string {
  const remedy = error instanceof WavesmithError && error.remedy !== null ? ` (${error.remedy})` : "";
  return `${messageOf(error)}${remedy}`;
}
