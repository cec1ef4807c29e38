// Answers every request with its own params; nothing but node is needed. One write per piece of input.
let kept = "";
process.stdin.setEncoding("utf8");
process.stdin.on("data", (piece) => {
  const lines = (kept + piece).split("\n");
  kept = lines.pop();
  let answers = "";
  for (const line of lines) {
    const { id, params } = JSON.parse(line);
    if (id !== undefined) answers += JSON.stringify({ jsonrpc: "2.0", id, result: params }) + "\n";
  }
  if (answers) process.stdout.write(answers);
});
