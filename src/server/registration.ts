import { messageOf, WavesmithError } from "../domain/errors.ts";
import type { InngestEndpoint } from "./port.ts";

/** Sees to it that an Inngest server knows our functions. */
export interface Registration {
  /** Whether it did when it was asked last. */
  readonly known: boolean;
  stop(): Promise<void>;
}

export interface RegistrationOptions {
  /** What to say once it knows them. */
  readonly onKnown: () => void;
  readonly warn: (message: string) => void;
  /** How long until the server is asked again. */
  readonly everyMs?: number;
}

/** Registers, again and again until the server answers, and anew when it has forgotten us. Says each change once. */
export function keepRegistered(endpoint: InngestEndpoint, options: RegistrationOptions): Registration {
  const { onKnown, warn, everyMs = 3_000 } = options;
  let known = false;
  let trouble = "";
  let stopped = false;
  let wake: () => void = () => undefined;
  const look = async (): Promise<void> => {
    if (known && (await endpoint.isKnown())) return;
    await endpoint.register();
    if (!known) onKnown();
    known = true;
    trouble = "";
  };
  const loop = (async () => {
    while (!stopped) {
      await look().catch((error: unknown) => {
        known = false;
        const message = describe(error);
        if (message !== trouble && !stopped) warn(`${message}; trying again every ${everyMs / 1000} seconds`);
        trouble = message;
      });
      await new Promise<void>((resolve) => {
        wake = resolve;
        if (stopped) resolve();
        else setTimeout(resolve, everyMs).unref();
      });
    }
  })();
  return {
    get known() {
      return known;
    },
    async stop() {
      stopped = true;
      wake();
      await loop;
    },
  };
}

function describe(error: unknown): string {
  const remedy = error instanceof WavesmithError && error.remedy !== null ? ` (${error.remedy})` : "";
  return `${messageOf(error)}${remedy}`;
}
