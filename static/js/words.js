// Texts in the language of the page, from its block #words (approvals/presentation/script_texts.py).
const block = document.getElementById("words");
const words = block ? JSON.parse(block.textContent) : {};

// word("minutes_ago", { count: 3 }) → "3 min ago"
export const word = (name, values = {}) =>
  (words[name] ?? name).replace(/\{(\w+)\}/g, (whole, key) => values[key] ?? whole);

const plurals = new Intl.PluralRules(document.documentElement.lang || "en");

// counted("new_rows", 1) → the word new_rows_one, or new_rows_other, with {count} filled in
export const counted = (name, count, values = {}) => {
  const form = `${name}_${plurals.select(count)}`;
  return word(form in words ? form : `${name}_other`, { count, ...values });
};
