import { createHash, randomBytes } from "node:crypto";
import { defaultTenant, tenantIdFor } from "../coordinator/build/request/project.ts";
import type { Ports } from "../coordinator/port.ts";
import type { Scope } from "../domain/access.ts";
import { WavesmithError } from "../domain/errors.ts";

type KeyPorts = Pick<Ports, "store" | "clock" | "ids">;
type KeyRow = Awaited<ReturnType<Ports["store"]["apiKeys"]["get"]>>;

/** A key as lists show it. */
export interface KeyView {
  readonly id: string;
  readonly name: string;
  readonly scope: Scope;
  readonly status: "active" | "expired" | "revoked";
  readonly createdBy: string | null;
  readonly createdAt: string;
  readonly expiresAt: string | null;
  readonly revokedAt: string | null;
  readonly usedAt: string | null;
}

interface NewKey {
  /** The tenant's name; a new name makes a new tenant. */
  readonly tenant: string;
  readonly name: string;
  readonly scope: Scope;
  /** How long it is valid, in milliseconds; null: until it is revoked. */
  readonly validMs: number | null;
  readonly createdBy: string;
}

/**
 * Returns the hash under which a key is stored. A plain SHA-256 is enough, because a key is 32
 * random bytes: nobody can guess it, so there is nothing that a slow hash would slow down.
 */
export const hashOfKey = (key: string): string => createHash("sha256").update(key).digest("hex");

/** Makes a key. Its text is in the answer and nowhere else. Fails with `usage`. */
export async function createKey(ports: KeyPorts, wanted: NewKey): Promise<{ key: string; view: KeyView }> {
  const { store, clock, ids } = ports;
  const name = checkedName(wanted.name, "the key");
  const tenant = checkedName(wanted.tenant, "the tenant");
  const tenantId = tenantIdFor(tenant);
  const key = `wsk_${randomBytes(32).toString("base64url")}`;
  const { scope, validMs, createdBy } = wanted;
  const createdAt = clock.now();
  const row = await store.transaction("create-key", async (transaction) => {
    await transaction.tenants.insertIfAbsent({ id: tenantId, name: tenant });
    return transaction.apiKeys.insert({
      ...{ id: ids("key"), tenantId, name, scope, keyHash: hashOfKey(key), createdBy, createdAt },
      expiresAt: validMs === null ? null : new Date(createdAt.getTime() + validMs),
    });
  });
  return { key, view: keyView(row, createdAt) };
}

/** Somebody whom an OpenID provider knows. */
export interface Person {
  /** The tenant's name. */
  readonly tenant: string;
  readonly address: string;
  readonly scope: Scope;
  readonly issuer: string;
}

/** No hash of a key begins like this, so nobody can show the key of a person. */
const personsKey = "oidc";

/**
 * Returns the hash of the key that stands for a person, valid for `validMs` milliseconds from now.
 * It has no text, so it only opens sessions. It is listed and revoked like any other key.
 */
export async function keyOfPerson({ store, clock, ids }: KeyPorts, person: Person, validMs: number): Promise<string> {
  const { address: name, scope, issuer: createdBy } = person;
  const tenantId = tenantIdFor(person.tenant);
  const createdAt = clock.now();
  const expiresAt = new Date(createdAt.getTime() + validMs);
  return store.transaction("create-key", async (transaction) => {
    await transaction.tenants.insertIfAbsent({ id: tenantId, name: person.tenant });
    const rows = await transaction.apiKeys.list({ name, createdBy, revokedAt: null });
    let keyHash: string | null = null;
    for (const row of rows.filter((each) => each.keyHash.startsWith(personsKey))) {
      const isSame = row.tenantId === tenantId && row.scope === scope;
      await transaction.apiKeys.update({ id: row.id }, isSame ? { expiresAt } : { revokedAt: createdAt });
      if (isSame) keyHash = row.keyHash;
    }
    if (keyHash !== null) return keyHash;
    const made = { id: ids("key"), tenantId, name, scope, createdBy, createdAt, expiresAt };
    return (await transaction.apiKeys.insert({ ...made, keyHash: `${personsKey}${randomBytes(30).toString("hex")}` }))
      .keyHash;
  });
}

/** Lists a tenant's keys, newest first. */
export async function listKeys({ store, clock }: KeyPorts, tenant: string = defaultTenant): Promise<KeyView[]> {
  const rows = await store.apiKeys.list({ tenantId: tenantIdFor(tenant) }, { by: "createdAt", descending: true });
  return rows.map((row) => keyView(row, clock.now()));
}

/** Revokes a tenant's key; revoking it again changes nothing. Fails with `not-found`. */
export async function revokeKey({ store, clock }: KeyPorts, tenant: string, id: string): Promise<KeyView> {
  const own = { id, tenantId: tenantIdFor(tenant) };
  await store.apiKeys.update({ ...own, revokedAt: null }, { revokedAt: clock.now() });
  const row = await store.apiKeys.find(own);
  if (row !== null) return keyView(row, clock.now());
  throw new WavesmithError("not-found", `there is no key ${id}`, { remedy: "wavesmith keys list shows them" });
}

/** Whether a key may be used now. */
export const isActive = (row: Pick<KeyRow, "revokedAt" | "expiresAt">, now: Date): boolean =>
  row.revokedAt === null && (row.expiresAt === null || row.expiresAt > now);

function keyView(row: KeyRow, now: Date): KeyView {
  const { id, name, scope, createdBy, createdAt, expiresAt, revokedAt, usedAt } = row;
  const status = row.revokedAt !== null ? "revoked" : isActive(row, now) ? "active" : "expired";
  const text = (at: Date | null): string | null => at?.toISOString() ?? null;
  return {
    ...{ id, name, scope, status, createdBy, createdAt: createdAt.toISOString() },
    ...{ expiresAt: text(expiresAt), revokedAt: text(revokedAt), usedAt: text(usedAt) },
  };
}

function checkedName(text: string, what: string): string {
  const name = text.trim();
  if (name !== "" && name.length <= 80 && !/\p{Cc}/u.test(name)) return name;
  throw new WavesmithError("usage", `the name of ${what} must have 1 to 80 characters, without control characters`);
}
