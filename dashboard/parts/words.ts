/** `waiting` as `Waiting`, for labels. */
export const sentenceCase = (word: string): string => word.charAt(0).toUpperCase() + word.slice(1);
