import { useMutation, useQueryClient } from "@tanstack/react-query";

/**
 * A person's action. Afterwards, whether or not it succeeded, every query whose key begins with one
 * of `changes` is asked again.
 */
export function useAction<Given = void, Reply = unknown>(
  changes: readonly string[],
  mutationFn: (given: Given) => Promise<Reply>,
) {
  const client = useQueryClient();
  return useMutation({
    mutationFn,
    onSettled: () => Promise.all(changes.map((key) => client.invalidateQueries({ queryKey: [key] }))),
  });
}
