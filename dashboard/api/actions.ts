import { useMutation, useQueryClient } from "@tanstack/react-query";
import { keepPageToken } from "./page-token.ts";
import { api, dataOf } from "./request.ts";
import { useAction } from "./use-action.ts";

// The actions of a person. After each one, all data that it may have changed is fetched again.

export type Steering =
  | { readonly act: "approve" | "retry" | "resume" | "cancel" }
  | { readonly act: "reject"; readonly reason: string }
  | { readonly act: "rollback"; readonly wave: number }
  | { readonly act: "answer"; readonly question: number; readonly answer: "allow" | "deny" };

const by = "the dashboard";

function send(id: string, steering: Steering): Promise<unknown> {
  const params = { path: { id } };
  switch (steering.act) {
    case "approve":
      return dataOf(api.POST("/api/v1/builds/{id}/approve", { params, body: { by } }));
    case "reject":
      return dataOf(api.POST("/api/v1/builds/{id}/reject", { params, body: { by, reason: steering.reason } }));
    case "cancel":
      return dataOf(api.POST("/api/v1/builds/{id}/cancel", { params, body: { reason: `cancelled from ${by}` } }));
    case "rollback":
      return dataOf(api.POST("/api/v1/builds/{id}/rollback", { params, body: { wave: steering.wave } }));
    case "retry":
      return dataOf(api.POST("/api/v1/builds/{id}/retry", { params, body: {} }));
    case "resume":
      return dataOf(api.POST("/api/v1/builds/{id}/resume", { params, body: {} }));
    case "answer": {
      const { question: n, answer } = steering;
      const asked = { params: { path: { id, n } }, body: { answer, by } };
      return dataOf(api.POST("/api/v1/builds/{id}/questions/{n}/answer", asked));
    }
  }
}

/** Steers a build. */
export const useSteering = (id: string) =>
  useAction(["build", "inbox", "builds", "restore-points"], (steering: Steering) => send(id, steering));

export type SandboxAct =
  | { readonly act: "start" | "stop" | "snapshot" }
  | { readonly act: "restore"; readonly snapshot: string };

/** Acts on the sandbox of a project. */
export const useSandbox = (projectId: string) =>
  useAction(["sandboxes", "snapshots"], (asked: SandboxAct) => {
    const params = { path: { id: projectId } };
    return asked.act === "restore"
      ? dataOf(api.POST("/api/v1/projects/{id}/sandbox/restore", { params, body: { snapshot: asked.snapshot } }))
      : dataOf(api.POST(`/api/v1/projects/{id}/sandbox/${asked.act}`, { params }));
  });

/** Starts a preview that is asleep, or stops it. */
export const usePreview = (buildId: string) =>
  useAction(["previews"], (act: "start" | "stop") =>
    dataOf(api.POST(`/api/v1/previews/{id}/${act}`, { params: { path: { id: buildId } } })),
  );

/** Signs in with a key, or out. */
export function useSession() {
  const client = useQueryClient();
  const signIn = useMutation({
    mutationFn: (key: string) => dataOf(api.POST("/api/v1/session", { body: { key } })),
    onSuccess: ({ token }) => {
      keepPageToken(token);
      return client.invalidateQueries();
    },
  });
  const signOut = useMutation({
    mutationFn: () => dataOf(api.DELETE("/api/v1/session")),
    onSettled: () => {
      keepPageToken(null);
      return client.resetQueries();
    },
  });
  return { signIn, signOut };
}
