// A session needs a token besides its cookie, because browsers send cookies to every port of a host.
// Storage belongs to this origin alone, its port included, and all its tabs share it.

const key = "wavesmith-session";

/** Keeps the token of a session; null forgets it. */
export function keepPageToken(token: string | null): void {
  if (token === null) localStorage.removeItem(key);
  else localStorage.setItem(key, token);
}

export const pageToken = (): string => localStorage.getItem(key) ?? "none";

// A sign-in link has its token behind `#`. We take it before the router sees the address.
const given = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
if (given !== undefined) {
  keepPageToken(given);
  history.replaceState(history.state, "", `${location.pathname}${location.search}`);
}
