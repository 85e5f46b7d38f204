import type { PreviewSandboxes } from "../../sandbox-lifecycle/port.ts";
import type { Ports } from "../port.ts";
import { sweepPreviewSandboxes } from "./preview-sandbox.ts";
import { evictPreview } from "./sleep-preview.ts";

/** Creates the preview actions that the sandbox lifecycle needs. Reads the ports on each call. */
export const createPreviewSandboxes = (ports: () => Ports): PreviewSandboxes => ({
  evict: () => evictPreview(ports()),
  sweep: (driver, infos) => sweepPreviewSandboxes(ports(), driver, infos),
});
