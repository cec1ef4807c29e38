// A small extension in another language: greets, echoes, and exits on the end of its input.
import { createInterface } from "node:readline";

const send = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (id === undefined) continue;
  if (method === "initialize") {
    console.log("a word on stdout");
    const parameters = { type: "object", properties: { text: { type: "string" } } };
    const registrations = { tools: [{ name: "echo", description: "say it again", parameters }] };
    send({ id, result: { protocol_version: 1, extension: { name: "tried", version: "1" }, registrations } });
  } else if (method === "tool/execute") {
    send({ id, result: { content: params.arguments.text } });
  } else {
    send({ id, result: {} });
    if (method === "shutdown") setTimeout(() => process.exit(0), 10);
  }
}
