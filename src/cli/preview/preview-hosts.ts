import { type PreviewDomain, previewHostProject } from "../../domain/preview-domain.ts";
import { type App, type PreviewHosts, previewForwarding } from "../parts.ts";
import { type ProjectPreview, projectPreview } from "./project-preview.ts";

/** Answers on the port of `serve` for every host below the domain of previews (PD1). */
export async function servePreviewHosts(app: App, domain: Pick<PreviewDomain, "name">): Promise<PreviewHosts> {
  const { forwardRequest, forwardUpgrade } = await previewForwarding();
  const wayOf = (host: string | undefined): ProjectPreview | null => {
    const projectId = previewHostProject(domain, host ?? "");
    if (projectId === null) return null;
    if (projectId !== "unknown") return projectPreview(app, projectId);
    const over = { kind: "over", why: "no project has this address" } as const;
    return { reach: async () => over, used: () => undefined };
  };
  return {
    answer(request, response) {
      const way = wayOf(request.headers.host);
      if (way !== null) forwardRequest(request, response, way).catch(() => response.destroy());
      return way !== null;
    },
    upgrade(request, socket, head) {
      const way = wayOf(request.headers.host);
      if (way !== null) forwardUpgrade(request, socket, { head, way }).catch(() => socket.destroy());
      return way !== null;
    },
  };
}
