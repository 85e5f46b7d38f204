/** What a key may do. Each scope includes the ones before it. */
export const scopes = ["read", "build", "admin"] as const;
export type Scope = (typeof scopes)[number];

/** Lists a scope with the ones it includes. */
export const scopesWithin = (scope: Scope): Scope[] => scopes.slice(0, scopes.indexOf(scope) + 1);

/** Whoever asks the API for something. */
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

/**
 * What each tenant may have at once, and spend in all; null: no limit. How many sandboxes it may
 * run is part of the sandbox policy.
 */
export interface TenantLimits {
  /** Builds that have not ended. */
  readonly builds: number | null;
  /** USD spent on models. */
  readonly usd: number | null;
}
