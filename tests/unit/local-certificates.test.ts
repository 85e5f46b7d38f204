import { rootCertificates } from "node:tls";
import { expect, it } from "vitest";
import { lackingInNode } from "../../src/sandbox/drivers/local/certificates.ts";

const [first = "", second = ""] = rootCertificates;
const own = "-----BEGIN CERTIFICATE-----\nb3Vy\ncompany\n-----END CERTIFICATE-----";

it("finds the certificates that Node does not bring, whatever the order and the length of lines", () => {
  const [begin = "", ...lines] = second.trim().split("\n");
  const end = lines.pop();
  const inOneLine = [begin, lines.join(""), end].join("\r\n");
  expect(lackingInNode(`# Some\n${first}\n${own}\n${inOneLine}\n`)).toEqual([own]);
  expect(lackingInNode(`${first}\n${second}`)).toEqual([]);
});
