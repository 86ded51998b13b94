// A tool over HTTP: the owner's side in one file, with nothing but Node's standard library.
//
//     node tool.mjs 9000 http://localhost:8000 refunds.json
//
// serves refund_invoice as tool.py does, with the same arguments. What it does is in VERBS; the rest
// is the protocol (docs/http-tools.md).
import { createHash, createPublicKey, verify } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";

const [port, assent, file, given] = process.argv.slice(2);
const origin = given ?? `http://127.0.0.1:${port}`; // our own: the Host header is whatever the sender says
// Assent signs what is asked of every tool of every tenant: only this one is meant for us.
const OURS = { tenant: "acme", tool: "refund_invoice" };
const rows = new Map(existsSync(file) ? Object.entries(JSON.parse(readFileSync(file, "utf8"))) : []);

function keep(key, row) {
  rows.set(key, row);
  writeFileSync(`${file}.new`, JSON.stringify(Object.fromEntries(rows)));
  renameSync(`${file}.new`, file);
}

const problem = (status, type, detail) => [status, { type, title: type.replace("-", " "), detail }];
const conflict = (detail) => problem(409, "conflict", detail);
const sorted = (value) => JSON.stringify(Object.entries(value).sort());

const VERBS = {
  plan({ arguments: wanted }, known) {
    if (known?.state) return conflict("This invoice was refunded, or the refund was let go of.");
    const summary = `Refund ${wanted.amount} EUR for invoice ${wanted.invoice}`;
    return [200, { plan: { summary, amount: wanted.amount, currency: "EUR" } }];
  },
  replan: (asked, known) => VERBS.plan(asked, known), // a plan holds nothing here
  still_valid: (asked, known) => [200, { still_valid: !known }],
  commit(asked, known) {
    if (known?.state === "undone") return conflict("It was let go of before.");
    if (known?.state && sorted(known.arguments) !== sorted(asked.arguments))
      return conflict("The key was used with other arguments.");
    if (known?.state) return [200, { receipt: known.receipt }];
    const receipt = { id: `re_${asked.transaction_id.slice(-8)}` };
    // The effect; a real service moves money here, once per key.
    keep(asked.operation_key, { state: "done", arguments: asked.arguments, receipt, fencing: asked.fencing });
    return [200, { receipt }];
  },
  rollback(asked, known) {
    if (known?.state === "done") return conflict("It was carried out.");
    keep(asked.operation_key, { state: "undone", fencing: asked.fencing }); // a late commit is refused
    return [200, {}];
  },
};

function carryOut(verb, asked) {
  if (!Object.hasOwn(VERBS, verb)) return problem(404, "no-such-verb", verb);
  if (Object.entries(OURS).some(([name, value]) => asked[name] !== value))
    return problem(403, "nothing-happened", "It is for another tenant or tool.");
  const known = rows.get(asked.operation_key);
  if (asked.fencing < (known?.fencing ?? 0)) return conflict("Another worker has taken over.");
  if (asked.lease_until && Date.parse(asked.lease_until) < Date.now())
    return conflict("Another worker may have taken over.");
  const [status, reply] = VERBS[verb](asked, known);
  return [status, { operation_key: asked.operation_key, ...reply }];
}

function lookUp(key) {
  const row = rows.get(key);
  if (row?.state !== "done") return problem(404, "nothing-happened", "There is no such operation.");
  return [200, { operation_key: key, receipt: row.receipt }];
}

// Signatures: RFC 9421 with Ed25519, and RFC 9530 for the body. Throws if Assent has not sent exactly
// this, just now, for the first time.
const COVERED = ["@method", "@target-uri", "content-digest", "idempotency-key"];
const seen = new Map(); // nonces, and until when each could be replayed

function insist(condition, why) {
  if (!condition) throw new Error(why);
}

async function check(request, body) {
  const { method, headers } = request;
  const [, label, parameters] = /^([a-z]\w*)=(.*)$/.exec(headers["signature-input"] ?? "") ?? [];
  const signature = new RegExp(`^${label}=:([^:]+):$`).exec(headers.signature ?? "")?.[1];
  insist(parameters && signature, "there is no signature");
  const names = [.../^\(([^)]*)\)/.exec(parameters)[1].matchAll(/"([^"]+)"/g)].map(([, name]) => name);
  const needed = method === "POST" ? COVERED : COVERED.slice(0, 2);
  insist(needed.every((name) => names.includes(name)), "it does not cover what it must");
  const [kid, nonce, tag, created, expires] = ["keyid", "nonce", "tag", "created", "expires"].map(
    (name) => new RegExp(`;${name}="?([^";]*)`).exec(parameters)?.[1],
  );
  const now = Date.now() / 1000;
  insist(tag === "assent-tool" && created - 30 < now && now < expires, "it is not for now");
  const derived = { "@method": method, "@target-uri": `${origin}${request.url}` };
  const lines = names.map((name) => `"${name}": ${derived[name] ?? headers[name]}`);
  const base = [...lines, `"@signature-params": ${parameters}`].join("\n");
  const { keys } = await (await fetch(`${assent}/.well-known/jwks.json`)).json();
  const jwk = keys.find((key) => key.kid === kid && key.crv === "Ed25519");
  insist(jwk, "the key is not Assent's");
  const key = createPublicKey({ key: jwk, format: "jwk" });
  insist(verify(null, Buffer.from(base), key, Buffer.from(signature, "base64")), "it is wrong");
  const digest = `sha-256=:${createHash("sha256").update(body).digest("base64")}:`;
  insist(method !== "POST" || headers["content-digest"] === digest, "the body was altered");
  for (const [old, until] of seen) if (until < now) seen.delete(old);
  insist(nonce && !seen.has(nonce), "the nonce was used before");
  seen.set(nonce, Number(expires));
}

async function answerTo(request) {
  const chunks = [];
  for await (const chunk of request) chunks.push(chunk);
  const body = Buffer.concat(chunks);
  try {
    await check(request, body);
  } catch (refusal) {
    return problem(401, "nothing-happened", `Not signed by Assent: ${refusal.message}`);
  }
  if (request.method === "GET") return lookUp(decodeURIComponent(request.url.split("/operations/")[1] ?? ""));
  return carryOut(request.url.split("/").at(-1), JSON.parse(body));
}

createServer(async (request, response) => {
  const [status, reply] = await answerTo(request).catch((failure) => problem(500, "broken", `${failure}`));
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(reply));
}).listen(Number(port), "127.0.0.1");
