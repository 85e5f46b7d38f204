import { WavesmithError } from "../../domain/errors.ts";
import type { Context, Server } from "../context.ts";
import { requireBuilds } from "../data/find-build.ts";
import { type Session, withSession } from "../data/session.ts";
import { type Config, isUsed, openStore } from "../parts.ts";
import { createPresenter, type Presenter } from "../view/presenter.ts";
import { directoryBuilds } from "./directory.ts";
import type { Builds, SteeredBuilds } from "./port.ts";
import { steeredDirectory } from "./steered-directory.ts";

/** Opens the place where the builds are, for a command that only looks at them. */
export async function withBuilds(
  context: Context,
  purpose: string,
  work: (builds: Builds) => Promise<number>,
): Promise<number> {
  const server = await context.server();
  if (server !== null) return work(await serverBuildsAt(context, server));
  const config = await context.config();
  if (!isUsed(config)) return work(noBuilds(config));
  const { store, database } = await openStore(config, purpose, context.warn);
  try {
    return await work(directoryBuilds({ config, store, database: async () => database }));
  } finally {
    await database.close();
  }
}

/** The builds and the session that a steering command works with. */
export interface Steered {
  readonly builds: SteeredBuilds;
  /** The session of a command that works on the data directory itself. */
  readonly session: Session | null;
}

/**
 * Opens the place where the builds are, for a command that changes or drives them. Fails with
 * `not-found` if nothing was ever built in the data directory, unless it may be new.
 */
export async function withSteered(
  context: Context,
  presenter: Presenter,
  work: (steered: Steered) => Promise<number>,
  { mayBeNew = false }: { readonly mayBeNew?: boolean } = {},
): Promise<number> {
  const server = await context.server();
  if (server !== null) return work({ builds: await serverBuildsAt(context, server), session: null });
  if (!mayBeNew) await requireBuilds(context);
  return withSession(context, presenter, async (session) => {
    const { builds, close } = steeredDirectory(session, context.environment);
    return work({ builds, session }).finally(close);
  });
}

/** Opens it for a command that decides one thing and ends. */
export async function withDecision(
  context: Context,
  work: (builds: SteeredBuilds) => Promise<number>,
): Promise<number> {
  const presenter = createPresenter(context);
  try {
    return await withSteered(context, presenter, async ({ builds }) => {
      presenter.close();
      return work(builds);
    });
  } finally {
    presenter.close();
  }
}

async function serverBuildsAt(context: Context, server: Server): Promise<SteeredBuilds> {
  const [{ askServer }, { serverBuilds }] = await Promise.all([
    import("../server/ask-server.ts"),
    import("./server.ts"),
  ]);
  return serverBuilds(server, askServer(server, context.warn));
}

/** A data directory in which nothing was built yet; reading does not create it. */
function noBuilds({ dataDir }: Config): Builds {
  const missing = async (): Promise<never> => {
    throw new WavesmithError("not-found", `there is no such build in ${dataDir}`);
  };
  return {
    place: dataDir,
    idsLike: async () => [],
    latest: async () => null,
    list: async () => ({ builds: [], more: false, spent: { tokens: 0, usd: 0, knownUsd: 0, unpricedCalls: 0 } }),
    ...{ see: missing, watch: missing, isDriven: missing, status: missing, jobs: missing, output: missing },
    ...{ changes: missing, diff: missing, fetchResult: missing },
  };
}
