// What the models of all frameworks here do: refund once, wait and answer as they are told to.
const REFUND = { payment_id: "pay_1042", amount: "48.20", reason: "damaged" };
const ANSWER = "The photos are in ticket 7.";

type Told = { status?: string; transaction_id?: string; question?: string };
type Step = { does: "call"; tool: string; with: object } | { does: "say"; text: string };

export function next(result: unknown): Step {
  if (result === undefined) return { does: "call", tool: "refund_customer", with: REFUND };
  const { status, transaction_id, question } = result as Told;
  if (status !== "pending") return { does: "say", text: JSON.stringify(result) };
  if (question) return { does: "call", tool: "assent_answer", with: { transaction_id, text: ANSWER } };
  return { does: "call", tool: "assent_wait", with: { transaction_id } };
}
