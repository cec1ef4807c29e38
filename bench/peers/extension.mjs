// An extension that does next to nothing, for measuring hosts: `node extension.mjs [HOOK ...]`.
// The arguments are the hooks that it handles; without any it does not say. All replies to one piece of input go out in
// one write, so that the host is what takes the time. Nothing but node is needed.
const hooks = process.argv.slice(2);
const registrations = {
  tools: [
    {
      name: "echo",
      description: "Say something again.",
      parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"] },
    },
  ],
  commands: [{ name: "greet", description: "Say hello." }],
  ...(hooks.length ? { hooks } : {}),
};

const answers = {
  initialize: (params) => ({
    protocol_version: Math.min(params.protocol_version, 1),
    extension: { name: "measured", version: "1" },
    registrations,
  }),
  ping: () => ({}),
  shutdown: () => ({}),
  hook: () => ({ action: "continue" }),
  "tool/execute": (params) => ({ content: params.arguments.text }),
  "command/execute": (params) => ({ content: `hello from ${params.command}` }),
};

function reply({ id, method, params }) {
  const answer = answers[method];
  if (answer) return { jsonrpc: "2.0", id, result: answer(params ?? {}) };
  return { jsonrpc: "2.0", id, error: { code: -32601, message: `method not found: ${method}` } };
}

let kept = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (piece) => {
  const lines = (kept + piece).split("\n");
  kept = lines.pop();
  let out = "";
  let last = false;
  for (const line of lines) {
    const message = JSON.parse(line);
    if (message.id === undefined) continue;
    out += JSON.stringify(reply(message)) + "\n";
    last ||= message.method === "shutdown";
  }
  if (out) process.stdout.write(out, () => last && process.exit(0));
});
