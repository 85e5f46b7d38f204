import { useMutation, useQueryClient } from "@tanstack/react-query";
import { keepPageToken } from "./page-token.ts";
import { api, read } from "./request.ts";

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
      return read(api.POST("/api/v1/builds/{id}/approve", { params, body: { by } }));
    case "reject":
      return read(api.POST("/api/v1/builds/{id}/reject", { params, body: { by, reason: steering.reason } }));
    case "cancel":
      return read(api.POST("/api/v1/builds/{id}/cancel", { params, body: { reason: `cancelled from ${by}` } }));
    case "rollback":
      return read(api.POST("/api/v1/builds/{id}/rollback", { params, body: { wave: steering.wave } }));
    case "retry":
      return read(api.POST("/api/v1/builds/{id}/retry", { params, body: {} }));
    case "resume":
      return read(api.POST("/api/v1/builds/{id}/resume", { params, body: {} }));
    case "answer": {
      const { question: n, answer } = steering;
      const asked = { params: { path: { id, n } }, body: { answer, by } };
      return read(api.POST("/api/v1/builds/{id}/questions/{n}/answer", asked));
    }
  }
}

/** Steers a build. */
export function useSteering(id: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (steering: Steering) => send(id, steering),
    onSettled: () =>
      Promise.all(["build", "inbox", "builds"].map((key) => client.invalidateQueries({ queryKey: [key] }))),
  });
}

type SandboxAct = "start" | "stop" | "snapshot" | "restore";

/** Acts on the sandbox of a project. */
export function useSandbox(projectId: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (act: SandboxAct) => {
      const params = { path: { id: projectId } };
      return act === "restore"
        ? read(api.POST("/api/v1/projects/{id}/sandbox/restore", { params, body: {} }))
        : read(api.POST(`/api/v1/projects/{id}/sandbox/${act}`, { params }));
    },
    onSettled: () => client.invalidateQueries({ queryKey: ["sandboxes"] }),
  });
}

/** Starts a preview that is asleep, or stops it. */
export function usePreview(buildId: string) {
  const client = useQueryClient();
  return useMutation({
    mutationFn: (act: "start" | "stop") =>
      read(api.POST(`/api/v1/previews/{id}/${act}`, { params: { path: { id: buildId } } })),
    onSettled: () => client.invalidateQueries({ queryKey: ["previews"] }),
  });
}

/** Signs in with a key, or out. */
export function useSession() {
  const client = useQueryClient();
  const signIn = useMutation({
    mutationFn: (key: string) => read<{ token: string }>(api.POST("/api/v1/session", { body: { key } })),
    onSuccess: ({ token }) => {
      keepPageToken(token);
      return client.invalidateQueries();
    },
  });
  const signOut = useMutation({
    mutationFn: () => read(api.DELETE("/api/v1/session")),
    onSettled: () => {
      keepPageToken(null);
      return client.resetQueries();
    },
  });
  return { signIn, signOut };
}
