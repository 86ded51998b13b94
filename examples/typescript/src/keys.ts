/** An idempotency key of a run's id and a call's id: the same parts, the same transaction. */
export async function keyOf(...parts: string[]): Promise<string> {
  const escaped = (part: string) =>
    JSON.stringify(part).replace(/[^ -~]/g, (unit) =>
      "\\u" + unit.charCodeAt(0).toString(16).padStart(4, "0"));
  const bytes = new TextEncoder().encode(`[${parts.map(escaped).join(", ")}]`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return Array.from(digest, (byte) => byte.toString(16).padStart(2, "0")).join("");
}
