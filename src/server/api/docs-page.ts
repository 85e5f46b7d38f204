import type { Endpoint } from "./endpoint.ts";

const escaped = (text: string): string => text.replace(/[&<>"]/g, (sign) => `&#${sign.charCodeAt(0)};`);

/** The page for people. It loads nothing, neither from here nor from elsewhere. */
export function docsPage(endpoints: readonly Endpoint[], base: string): string {
  const rows = endpoints.map(({ method, path, summary, query }) => {
    const words = Object.keys(query.shape).join(", ");
    const extra = words === "" ? "" : `<small>?${escaped(words)}</small>`;
    return `<tr><td>${method.toUpperCase()}</td><td><code>${escaped(base + path)}</code> ${extra}</td><td>${escaped(summary)}</td></tr>`;
  });
  return `<!doctype html><html lang="en"><meta charset="utf-8"><title>Wavesmith API</title>
<style>body{font:16px/1.5 system-ui,sans-serif;max-width:64rem;margin:2rem auto;padding:0 1rem}
td{padding:.3rem .8rem .3rem 0;vertical-align:top}pre{background:#8882;padding:1rem;overflow:auto}small{opacity:.7}</style>
<h1>Wavesmith API</h1>
<p>Every request needs <code>Authorization: Bearer KEY</code>; <code>wavesmith serve</code> prints where the key is.
Errors are <code>application/problem+json</code> with a stable <code>code</code> and, where there is one, a
<code>remedy</code>. Lists have <code>items</code> and <code>nextCursor</code>. The same as data:
<a href="/openapi.json">/openapi.json</a>.</p>
<pre>curl -X POST "$URL${base}/projects" -H "Authorization: Bearer $KEY" -d '{"name":"guestbook"}'
curl -X POST "$URL${base}/projects/guestbook/builds" -H "Authorization: Bearer $KEY" \\
  -H "Content-Type: application/yaml" -H "Idempotency-Key: nightly-42" --data-binary @plan.yaml
curl -N "$URL${base}/builds/$BUILD/events" -H "Authorization: Bearer $KEY"</pre>
<table>${rows.join("\n")}</table></html>`;
}
