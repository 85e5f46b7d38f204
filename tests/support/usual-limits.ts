import { loadConfig } from "../../src/config.ts";
import type { ArchiveFormat } from "../../src/sandbox/port.ts";

/** What a sandbox may use when no setting says otherwise. */
export const usualLimits = loadConfig({}).sandboxPolicy.limits;

/** How an archive is restored when no setting says otherwise. */
export const usually = (format: ArchiveFormat) => ({ format, maxBytes: usualLimits.diskBytes });
