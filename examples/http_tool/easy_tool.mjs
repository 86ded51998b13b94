// A tool over HTTP in its easy mode: one address, one secret, nothing but Node's standard library.
//
//     node easy_tool.mjs 9000 secret.txt refunds.json
//
// serves refund_invoice as easy_tool.py does, with the same arguments (docs/http-tools.md).
import { createHmac, timingSafeEqual } from "node:crypto";
import { existsSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createServer } from "node:http";

const [port, secretFile, file] = process.argv.slice(2);
const key = Buffer.from(readFileSync(secretFile, "utf8").trim().replace(/^whsec_/, ""), "base64");
// Without a secret anybody could sign, so the service does not start.
if (key.length < 24) throw new Error(`There is no secret in ${secretFile}.`);
const OURS = { tenant: "acme", tool: "refund_invoice" };
const rows = new Map(existsSync(file) ? Object.entries(JSON.parse(readFileSync(file, "utf8"))) : []);

// What any library for Standard Webhooks does: the signature is right, and of just now.
function isFromAssent(headers, body) {
  const { "webhook-id": id, "webhook-timestamp": sentAt, "webhook-signature": given = "" } = headers;
  const right = Buffer.from(`v1,${createHmac("sha256", key).update(`${id}.${sentAt}.`).update(body).digest("base64")}`);
  const equals = (one) => one.length === right.length && timingSafeEqual(one, right);
  const isFresh = Math.abs(Date.now() / 1000 - Number(sentAt)) < 300;
  return isFresh && given.split(" ").some((one) => equals(Buffer.from(one)));
}

function keep({ operation_key, fencing }, row) {
  rows.set(operation_key, { ...row, fencing });
  writeFileSync(`${file}.new`, JSON.stringify(Object.fromEntries(rows)));
  renameSync(`${file}.new`, file);
}

const problem = (status, type, detail) => [status, { type, title: type.replace("-", " "), detail }];
const conflict = (detail) => problem(409, "conflict", detail);
const sorted = (value) => JSON.stringify(Object.entries(value).sort());

const VERBS = {
  plan({ arguments: wanted }, row) {
    if (row) return conflict("It was refunded, or the refund was let go of.");
    const summary = `Refund ${wanted.amount} EUR for invoice ${wanted.invoice}`;
    return [200, { plan: { summary, amount: wanted.amount, currency: "EUR" } }];
  },
  replan: (asked, row) => VERBS.plan(asked, row), // a plan holds nothing here
  still_valid: (asked, row) => [200, { still_valid: !row }],
  commit(asked, row) {
    if (row && !(row.receipt && sorted(row.arguments) === sorted(asked.arguments)))
      return conflict("It was let go of, or done with other arguments.");
    const receipt = row?.receipt ?? { id: `re_${asked.transaction_id.slice(-8)}` };
    if (!row) keep(asked, { arguments: asked.arguments, receipt }); // a real service moves money here, once per key
    return [200, { receipt }];
  },
  rollback(asked, row) {
    if (row?.receipt) return conflict("It was carried out.");
    keep(asked, {}); // so that a commit that is late is refused
    return [200, {}];
  },
  find_receipt(asked, row) {
    if (!row?.receipt) return problem(404, "nothing-happened", "There is no such operation.");
    return [200, { receipt: row.receipt }];
  },
};

// The verb is in the body, which is signed.
function carryOut(asked) {
  if (Object.entries(OURS).some(([name, value]) => asked[name] !== value))
    return problem(403, "nothing-happened", "It is for another tenant or tool.");
  if (!Object.hasOwn(VERBS, asked.verb)) return problem(400, "not-understood", "There is no such verb.");
  const row = rows.get(asked.operation_key);
  if (asked.fencing < (row?.fencing ?? 0)) return conflict("Another worker has taken over.");
  if (asked.lease_until && Date.parse(asked.lease_until) < Date.now())
    return conflict("Another worker may have taken over.");
  return VERBS[asked.verb](asked, row);
}

function answer(headers, body) {
  if (!isFromAssent(headers, body)) return problem(401, "nothing-happened", "Not signed by Assent.");
  try {
    return carryOut(JSON.parse(body));
  } catch (failure) {
    return problem(400, "not-understood", failure.name);
  }
}

createServer(async (request, response) => {
  const parts = [];
  for await (const part of request) parts.push(part);
  const [status, reply] = answer(request.headers, Buffer.concat(parts));
  response.writeHead(status, { "Content-Type": "application/json" }).end(JSON.stringify(reply));
}).listen(Number(port), "127.0.0.1");
