import { createHash, randomBytes, timingSafeEqual } from "node:crypto";
import { hashOfKey, isActive, keyOfPerson, type Person } from "../../api/keys.ts";
import { defaultTenant, tenantIdFor } from "../../coordinator/build/request/project.ts";
import type { Ports } from "../../coordinator/port.ts";
import type { Caller } from "../../domain/access.ts";
import { present } from "../../domain/known.ts";

// CA1. A session ends with the key that opened it: it holds the key's hash, which is looked up
// again with every request.
// CA2. A link opens one session: the statement that marks it as used finds it unused.
// CA3. A session needs two tokens: one in a cookie, which other ports of the host receive as well,
// and one that only our page has. Its row holds the hash of both together.

const sessionMs = 30 * 24 * 60 * 60_000;
const linkMs = 5 * 60_000;
/** People sign in with their provider again after this long, so one who has left it is out. */
const personMs = 12 * 60 * 60_000;
const usedEveryMs = 60_000;

/** A token for a browser, and how long it is valid. */
export interface Token {
  readonly token: string;
  readonly validMs: number;
}

/** The credentials that a browser sends with every request. */
export interface SessionProof {
  /** The token in the cookie. */
  readonly token: string;
  /** The token that our page keeps, and no other origin can read. */
  readonly pageToken: string;
}

/** A session that was opened. */
export type OpenedSession = Token & SessionProof;

/** Who may call the API: holders of a key, and browsers that signed in with one. */
export interface Callers {
  /** Returns the holder of a key; null if it is unknown, expired or revoked. */
  withKey(key: string): Promise<Caller | null>;
  /** Returns whose session this is; null if it or its key has ended. */
  withSession(proof: SessionProof): Promise<Caller | null>;
  /** Opens a session for a key; null if the key is not valid. */
  signIn(key: string): Promise<OpenedSession | null>;
  /** Opens a session for a person whom a provider has just vouched for. */
  signInPerson(person: Person): Promise<OpenedSession>;
  /** Ends a session. Does nothing for an unknown one. */
  signOut(proof: SessionProof): Promise<void>;
  /** Makes a token that opens one session within five minutes; null if the key is not valid. */
  createLink(key: string): Promise<Token | null>;
  /** Opens the session of a link; null if it was used, has expired or never was. */
  useLink(token: string): Promise<OpenedSession | null>;
}

interface CallerOptions {
  readonly ports: Pick<Ports, "store" | "clock" | "ids">;
  /** The server's own key, which is an admin key of the default tenant. */
  readonly serveKey: string;
}

export async function createCallers({ ports, serveKey }: CallerOptions): Promise<Callers> {
  const { store, clock } = ports;
  const ownHash = hashOfKey(serveKey);
  const own: Caller = {
    ...{ tenantId: tenantIdFor(defaultTenant), tenant: defaultTenant },
    ...{ scope: "admin", keyId: "serve", name: "the server's own key" },
  };
  await store.tenants.insertIfAbsent({ id: own.tenantId, name: own.tenant });
  const withHash = async (keyHash: string): Promise<Caller | null> => {
    if (timingSafeEqual(Buffer.from(keyHash), Buffer.from(ownHash))) return own;
    const row = await store.apiKeys.find({ keyHash });
    const now = clock.now();
    if (row === null || !isActive(row, now)) return null;
    if (row.usedAt === null || now.getTime() - row.usedAt.getTime() > usedEveryMs)
      await store.apiKeys.update({ id: row.id }, { usedAt: now });
    const tenant = await store.tenants.get({ id: row.tenantId });
    const { id: keyId, tenantId, scope, name } = row;
    return { tenantId, tenant: tenant.name, scope, keyId, name };
  };
  const open = async (kind: "session" | "link", { id, keyHash }: { id: string; keyHash: string }, validMs: number) => {
    const caller = await withHash(keyHash);
    if (caller === null) return false;
    const { tenantId } = caller;
    const createdAt = clock.now();
    const expiresAt = new Date(createdAt.getTime() + validMs);
    await store.sessions.insert({ id, tenantId, kind, keyHash, createdAt, expiresAt });
    return true;
  };
  const openSession = async (keyHash: string, validMs = sessionMs): Promise<OpenedSession | null> => {
    const proof = { token: newToken(), pageToken: newToken() };
    const isOpen = await open("session", { id: sessionId(proof), keyHash }, validMs);
    return isOpen ? { ...proof, validMs } : null;
  };
  return {
    withKey: (key) => withHash(hashOfKey(key)),
    async withSession(proof) {
      const row = await store.sessions.find({ id: sessionId(proof), kind: "session", endedAt: null });
      return row === null || row.expiresAt <= clock.now() ? null : withHash(row.keyHash);
    },
    signIn: (key) => openSession(hashOfKey(key)),
    async signInPerson(person) {
      const keyHash = await keyOfPerson(ports, person, personMs);
      return present(await openSession(keyHash, personMs), "the session of a key just made");
    },
    async signOut(proof) {
      await store.sessions.update({ id: sessionId(proof), endedAt: null }, { endedAt: clock.now() });
    },
    async createLink(key) {
      const token = newToken();
      const isOpen = await open("link", { id: hashOfToken(token), keyHash: hashOfKey(key) }, linkMs);
      return isOpen ? { token, validMs: linkMs } : null;
    },
    async useLink(token) {
      const unused = { id: hashOfToken(token), kind: "link" as const, endedAt: null };
      const [row] = await store.sessions.update(unused, { endedAt: clock.now() });
      return row === undefined || row.expiresAt <= clock.now() ? null : openSession(row.keyHash);
    },
  };
}

const newToken = (): string => randomBytes(32).toString("base64url");
const sessionId = ({ token, pageToken }: SessionProof): string => hashOfToken(`${token}.${pageToken}`);
const hashOfToken = (token: string): string => createHash("sha256").update(token).digest("hex");
