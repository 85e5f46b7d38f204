import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { useEffect, useState } from "react";
import { api, dataOf } from "../api/request.ts";

const pauseMs = 250;

/** Checks a plan whenever the reader pauses. */
export function useCheckedPlan(text: string) {
  const [settled, setSettled] = useState(text);
  useEffect(() => {
    const timer = setTimeout(() => setSettled(text), pauseMs);
    return () => clearTimeout(timer);
  }, [text]);
  const { data, error, isFetching } = useQuery({
    queryKey: ["check", settled],
    queryFn: ({ signal }) =>
      dataOf(
        api.POST("/api/v1/plans/check", {
          body: settled,
          bodySerializer: (body) => body as string,
          headers: { "content-type": "application/yaml" },
          signal,
        }),
      ),
    placeholderData: keepPreviousData,
    gcTime: 0,
  });
  return { check: data, error, isChecking: isFetching || settled !== text };
}
