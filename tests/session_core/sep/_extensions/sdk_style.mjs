// An extension that behaves as those do that are written with the TypeScript SDK: it answers initialize with its own
// version whatever it was offered, names no hooks, echoes contexts, publishes without waiting for the answer, and dies
// of any error that nobody catches. The first argument is a folder for notes.
import { writeFileSync } from "node:fs";
import { join } from "node:path";
import { createInterface } from "node:readline";

const notes = process.argv[2];
const waiting = new Map();
const aborted = new Map();
const bus = [];
let ids = 0;
let uiKinds = [];
let flags = {};

const write = (message) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...message }) + "\n");

class RpcError extends Error {
  constructor({ code, message, data }) {
    super(message);
    Object.assign(this, { code, data });
  }
}

const ask = (method, params) =>
  new Promise((resolve, reject) => {
    const id = ++ids;
    waiting.set(id, { resolve, reject });
    write({ id, method, params });
  });

const commands = {
  async talk(context) {
    await ask("session/send_message", { context, text: "said by the extension" });
    return "said";
  },
  async confirm() {
    if (!uiKinds.includes("confirm")) return "nobody is there";
    const answer = await ask("ui/request", { kind: "confirm", prompt: "really?" });
    return JSON.stringify(answer);
  },
  async publish() {
    ask("bus/publish", { topic: "news" }); // nobody waits for it, so an error would be the end
    ask("bus/publish", { topic: "news", payload: { n: 1 } });
    await ask("ping", {});
    return "published";
  },
  async flags() {
    return JSON.stringify(flags);
  },
  async bus() {
    return JSON.stringify(bus);
  },
  async fail() {
    await ask("kv/get", {});
  },
  async unhandled() {
    ask("no/such_method", {});
    await new Promise(() => {});
  },
};

const handlers = {
  async initialize(params) {
    uiKinds = params.ui_capabilities ?? [];
    flags = params.flags ?? {};
    const named = Object.keys(commands).map((name) => ({ name, description: name }));
    const parameters = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };
    return {
      protocol_version: 1,
      extension: { name: "hello", version: "0.6.0" },
      registrations: {
        tools: [{ name: "greet", description: "greets", parameters, deferred: false }],
        commands: named,
        flags: ["plan"],
        subscriptions: ["turn_start", "session_before_tree", "bus/event"],
      },
      env_report: { node: process.version },
    };
  },
  async hook({ hook, input }) {
    if (hook === "tool_result") return { action: "modify", patch: { ...input, content: input.content + " and more" } };
    return { action: "continue" };
  },
  async "tool/execute"({ tool, arguments: given, call_id }, signal) {
    write({ method: "tool/update", params: { call_id, message: "on it", progress: 0.5 } });
    if (given.name === "nobody") await new Promise((resolve) => (signal.abort = resolve));
    return { content: `Hello, ${given.name}!`, is_error: false, details: { tool } };
  },
  async "command/execute"({ command, context }) {
    const content = await commands[command](context);
    return { content };
  },
  async "command/complete"() {
    return { completions: [] };
  },
  async ping() {
    return {};
  },
  async shutdown() {
    setTimeout(() => process.exit(0), 10);
    return {};
  },
};

function event({ event: name, payload }) {
  if (name === "bus/event") bus.push(payload);
  if (name === "turn_start" && payload.session_id === undefined) throw new Error("whose turn?");
}

async function answer({ id, method, params }) {
  const signal = {};
  aborted.set(id, signal);
  try {
    const handler = handlers[method];
    if (handler === undefined) throw new RpcError({ code: -32601, message: `unknown method ${method}` });
    const result = await handler(params ?? {}, signal);
    if (signal.cancelled) throw new RpcError({ code: -32800, message: "cancelled" });
    write({ id, result });
  } catch (error) {
    write({ id, error: { code: error.code ?? -32603, message: error.message, data: error.data } });
  } finally {
    aborted.delete(id);
  }
}

for await (const line of createInterface({ input: process.stdin })) {
  if (!line.trim()) continue;
  const message = JSON.parse(line);
  const { id, method, params, result, error } = message; // a bare null here is the end
  if (method === undefined) {
    const asked = waiting.get(id);
    waiting.delete(id);
    if (error !== undefined) asked.reject(new RpcError(error));
    else asked.resolve(result);
  } else if (id !== undefined) {
    void answer(message);
  } else if (method === "event") {
    event(params);
  } else if (method === "$/cancel") {
    const signal = aborted.get(params.id);
    if (signal) {
      signal.cancelled = true;
      writeFileSync(join(notes, "cancelled"), String(params.id));
      signal.abort?.();
    }
  }
}
process.exit(0);
