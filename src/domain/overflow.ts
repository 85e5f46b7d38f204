/** Recognizes a provider's answer that the conversation is longer than its model's window. */
export const saysOverflow = (text: string): boolean =>
  /prompt is too long|context[_ ]length|context window|maximum context|too many (input )?tokens|input token count|exceeds? the (maximum|available|limit)|request_too_large/i.test(
    text,
  );
