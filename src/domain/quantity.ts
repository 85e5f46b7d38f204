export const quantity = (number: number, noun: string): string => `${number} ${noun}${number === 1 ? "" : "s"}`;
