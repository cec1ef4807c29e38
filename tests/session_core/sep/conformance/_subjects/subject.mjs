// A whole extension in another language, without any library, that keeps to the protocol.
import { createInterface } from "node:readline";

const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
const parameters = { type: "object", properties: { text: { type: "string" } }, required: ["text"] };
const registrations = { tools: [{ name: "echo", description: "say it again", parameters }], hooks: ["tool_call"] };

const results = {
  initialize: () => ({ protocol_version: 1, extension: { name: "subject", version: "1.0" }, registrations }),
  ping: () => ({}),
  shutdown: () => ({}),
  hook: () => ({ action: "continue" }),
  "tool/execute": ({ tool, arguments: { text } }) =>
    tool === "echo" && typeof text === "string" ? { content: text } : { content: "no", is_error: true },
};

for await (const line of createInterface({ input: process.stdin })) {
  let message;
  try {
    message = JSON.parse(line);
  } catch {
    continue;
  }
  const { id, method, params } = message ?? {};
  if (method === undefined || id === undefined) continue;
  const known = Object.hasOwn(results, method);
  send({ id, ...(known ? { result: results[method](params) } : { error: { code: -32601, message: "unknown" } }) });
  if (method === "shutdown") break;
}
process.exit(0);
