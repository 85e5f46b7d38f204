/** The rights of a key. Each scope includes the ones before it. */
export const scopes = ["read", "build", "admin"] as const;
export type Scope = (typeof scopes)[number];

/** Lists a scope with the ones it includes. */
export const scopesWithin = (scope: Scope): Scope[] => scopes.slice(0, scopes.indexOf(scope) + 1);

/** The caller of the API. */
export interface Caller {
  readonly tenantId: string;
  /** The tenant's name. */
  readonly tenant: string;
  readonly scope: Scope;
  /** Identifies the key, also in a session that it opened. */
  readonly keyId: string;
  /** The name of the key. */
  readonly name: string;
}

/** The OpenID provider with which people sign in. */
export interface OpenIdProvider {
  readonly issuer: string;
  readonly clientId: string;
  /** Null for a client without a secret. */
  readonly clientSecret: string | null;
  readonly rights: readonly RightsOfPeople[];
}

/** What people with a mail address may do. */
export interface RightsOfPeople {
  /** An address or `@domain`, in lower case. */
  readonly who: string;
  readonly scope: Scope;
  /** The tenant's name; null: the default tenant. */
  readonly tenant: string | null;
}

/** Returns the rights of an address, or else of its domain; null if neither has any. */
export function rightsOf(rights: readonly RightsOfPeople[], address: string): RightsOfPeople | null {
  const known = address.toLowerCase();
  const domain = known.slice(known.lastIndexOf("@"));
  return rights.find(({ who }) => who === known) ?? rights.find(({ who }) => who === domain) ?? null;
}

/** The limits on what a tenant has at once, and on what it spends in total; null: no limit. */
export interface TenantLimits {
  /** Builds that have not ended. */
  readonly builds: number | null;
  /** Tasks that run. */
  readonly tasks: number | null;
  /** Sandboxes that run. */
  readonly sandboxes: number | null;
  /** USD spent on models. */
  readonly usd: number | null;
}

/** The limits that were set for one tenant; null: no limit, absent: the default. */
export type OwnLimits = { readonly [Name in keyof TenantLimits]?: number | null };

/** Returns the limits in force for a tenant. */
export const limitsFor = (own: OwnLimits, defaults: TenantLimits): TenantLimits => ({ ...defaults, ...own });

/** Says that a tenant has spent what it may; null while it has not. */
export function spentUpText({ usd }: TenantLimits, microUsd: number): string | null {
  if (usd === null || microUsd < usd * 1_000_000) return null;
  return `this tenant has spent ${(microUsd / 1_000_000).toFixed(2)} of ${usd} USD`;
}

/**
 * How many tasks of all tenants may run at once; null: any number. `auto`: as many as the machine
 * has room for, while more than one tenant has work.
 */
export type TaskSlots = number | "auto" | null;
