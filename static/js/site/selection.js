// Selecting rows of a list: count, baseline, ranges with Shift, all rows of the page. Compare and History work without it.

/** Describe what can be done with `count` selected rows; limits: {noun, plural, compareLeast, compareMost, historyMost}. */
export function judgeSelection(count, { noun, plural, compareLeast, compareMost, historyMost }) {
  const canCompare = count >= compareLeast && count <= compareMost;
  const canShow = count >= 1 && count <= historyMost;
  const reasons = [];
  if (count < compareLeast) {
    reasons.push(`Select ${describeLimit(compareLeast, compareMost)} ${compareMost === 1 ? noun : plural} to compare.`);
  } else if (count > compareMost) {
    reasons.push(`Select ${describeLimit(compareLeast, compareMost)} ${plural} to compare; ${count} are selected.`);
  }
  if (count > historyMost) {
    reasons.push(`History shows at most ${historyMost} ${plural}.`);
  }
  return { canCompare, canShow, reason: reasons.join(" ") };
}

/** Return the boxes from one to another, both inclusive, in the order of the page. */
export function listRange(boxes, from, to) {
  const [first, last] = [boxes.indexOf(from), boxes.indexOf(to)].sort((one, other) => one - other);
  return first === -1 ? [to] : boxes.slice(first, last + 1);
}

function describeLimit(least, most) {
  if (least === most) {
    return most === 2 ? "two" : String(most);
  }
  return `${least} to ${most}`;
}

function startSelection(form) {
  const limits = {
    noun: form.dataset.noun,
    plural: form.dataset.plural,
    compareLeast: Number(form.dataset.compareLeast),
    compareMost: Number(form.dataset.compareMost),
    historyMost: Number(form.dataset.historyMost),
  };
  const boxes = [...form.elements].filter((field) => field.name === "selected");
  // In the order of selection: the first one is the baseline.
  let chosen = [];

  watchBoxes(form, boxes, () => {
    chosen = [...chosen.filter((box) => box.checked), ...boxes.filter((box) => box.checked && !chosen.includes(box))];
    show(form, chosen, limits);
  });
  form.addEventListener("formdata", ({ formData }) => {
    formData.delete("selected");
    chosen.forEach((box) => formData.append("selected", box.value));
  });
}

/** Call `onChange` now and whenever the boxes change; ranges with Shift, all boxes, and the Clear button of the form. */
export function watchBoxes(form, boxes, onChange) {
  const all = document.querySelector("[data-select-all]");
  let last = null;

  function update() {
    onChange();
    const count = boxes.filter((box) => box.checked).length;
    if (all !== null) {
      all.checked = count > 0 && count === boxes.length;
      all.indeterminate = count > 0 && count < boxes.length;
    }
  }

  function setAll(isChecked) {
    boxes.forEach((box) => {
      box.checked = isChecked;
    });
    update();
  }

  document.addEventListener("click", (event) => {
    if (!boxes.includes(event.target)) {
      return;
    }
    if (event.shiftKey && last !== null) {
      for (const box of listRange(boxes, last, event.target)) {
        box.checked = event.target.checked;
      }
    }
    last = event.target;
    update();
  });
  form.querySelector("[data-clear]").addEventListener("click", () => {
    setAll(false);
    boxes[0]?.focus();
  });
  if (all !== null) {
    (all.closest("label") ?? all).hidden = false;
    all.addEventListener("click", () => setAll(all.checked));
  }
  // The browser restores check boxes when a person comes back.
  window.addEventListener("pageshow", update);
  update();
}

function show(form, chosen, limits) {
  const { canCompare, canShow, reason } = judgeSelection(chosen.length, limits);
  const baseline = chosen[0]?.getAttribute("aria-label").replace(/^Select /, "");
  const hasBaseline = chosen.length > 0 && limits.compareMost === 2;
  form.classList.toggle("has-selected", chosen.length > 0);
  form.querySelector("[data-selected]").textContent = `${chosen.length} selected${hasBaseline ? `; baseline: ${baseline}` : ""}`;
  form.querySelector("[data-compare-selected]").disabled = !canCompare;
  form.querySelector("[data-show-selected]").disabled = !canShow;
  form.querySelector("[data-clear]").hidden = chosen.length === 0;
  form.querySelector("[data-reason]").textContent = reason;
}

if (typeof document !== "undefined") {
  document.querySelectorAll("[data-selection]").forEach(startSelection);
}
