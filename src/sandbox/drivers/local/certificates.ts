// The certificates that programs in a sandbox trust besides their own list: those of this machine,
// such as a company's own authority.
import { chmodSync, existsSync, readFileSync, writeFileSync } from "node:fs";
import { rootCertificates } from "node:tls";
import type { ShownFolder } from "./tool-roots.ts";

const bundles = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
const insidePath = "/run/wavesmith-certificates.pem";

export interface Trust {
  readonly env: Readonly<Record<string, string>>;
  readonly shown: readonly ShownFolder[];
}

/**
 * Returns how programs that bring their own list learn of this machine's certificates. Node reads
 * its extra ones at every start, which with a whole bundle takes longer than the rest of the start.
 * So it gets only those that it lacks, in `file`, or nothing if it has them all.
 */
export function trustMachine(file: string): Trust {
  const bundle = bundles.find((path) => existsSync(path));
  if (bundle === undefined) return { env: {}, shown: [] };
  const lacking = lackingInNode(readFileSync(bundle, "utf8"));
  if (lacking.length === 0) return { env: { REQUESTS_CA_BUNDLE: bundle }, shown: [] };
  writeFileSync(file, `${lacking.join("\n")}\n`);
  chmodSync(file, 0o644); // Regardless of our umask, because the reader may be another user.
  return {
    env: { NODE_EXTRA_CA_CERTS: insidePath, REQUESTS_CA_BUNDLE: bundle },
    shown: [{ source: file, target: insidePath }],
  };
}

/** Returns the certificates of a bundle that Node does not bring itself. */
export function lackingInNode(bundle: string): string[] {
  const own = new Set(rootCertificates.map(contentOf));
  const found = bundle.match(/-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g) ?? [];
  return found.filter((certificate) => !own.has(contentOf(certificate)));
}

/** Returns the base64 text of a certificate, however its lines are broken. */
const contentOf = (certificate: string): string => certificate.replace(/-----[^-]+-----|\s/g, "");
