// An extension with the habits of published gates: it knows the tool that runs commands as `bash`, and reads
// the arguments of its commands by their names.
import { createInterface } from "node:readline";

const MUTATING = new Set(["bash", "write", "edit"]);
const DANGEROUS = /\brm\s+-rf\b/;
const write = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");
let planning = false;

function judge({ tool, arguments: given }) {
  if (planning && MUTATING.has(tool)) return { action: "block", reason: `plan mode: ${tool} changes something` };
  if (tool === "bash" && DANGEROUS.test(String(given?.command ?? ""))) return { action: "block", reason: "dangerous" };
  return { action: "continue" };
}

const commands = {
  plan(given) {
    const state = String(given?.state ?? "").toLowerCase();
    planning = state === "on" ? true : state === "off" ? false : !planning;
    return `planning: ${planning}`;
  },
  echo(given) {
    const phrase = String(given?.phrase ?? "").trim();
    return phrase ? `You said: ${phrase}` : "Usage: /echo <phrase>";
  },
  move({ source, target }) {
    return JSON.stringify({ source, target });
  },
};
const registrations = {
  commands: [
    { name: "plan", description: "Switch planning on or off." },
    { name: "echo", description: "Say a phrase again." },
    { name: "move", description: "Move something: /move <source> [target]" },
  ],
};
const results = {
  initialize: () => ({ protocol_version: 1, extension: { name: "gates", version: "1" }, registrations }),
  hook: ({ hook, input }) => (hook === "tool_call" ? judge(input) : { action: "continue" }),
  "command/execute": ({ command, arguments: given }) => ({ content: commands[command](given) }),
  ping: () => ({}),
  shutdown: () => ({}),
};

for await (const line of createInterface({ input: process.stdin })) {
  const { id, method, params } = JSON.parse(line);
  if (method !== undefined && id !== undefined) write({ id, result: results[method](params) });
  if (method === "shutdown") break;
}
process.exit(0);
