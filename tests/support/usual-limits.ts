import { loadConfig } from "../../src/config.ts";
import type { ArchiveFormat } from "../../src/sandbox/port.ts";

/** The limits of a sandbox if no setting changes them. */
export const usualLimits = loadConfig({}).sandboxPolicy.limits;

/** How an archive is restored if no setting changes it. */
export const usually = (format: ArchiveFormat) => ({ format, maxBytes: usualLimits.diskBytes });
