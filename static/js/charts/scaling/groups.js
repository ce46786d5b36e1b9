// The editor of groups: buttons to move, remove and add them. Without script the fields alone do the same.

/** Add the buttons to an editor. */
export function startGroups(editor) {
  const list = editor.querySelector("[data-groups]");
  const add = makeButton("Add group");
  add.addEventListener("click", () => {
    const row = copyRow(list);
    list.append(row);
    addButtons(row, list);
    number(editor, list, add);
    row.querySelector("input").focus();
  });
  editor.querySelector("[data-group-actions]").prepend(add);
  for (const row of list.children) {
    addButtons(row, list);
  }
  list.addEventListener("groups-changed", () => number(editor, list, add));
  number(editor, list, add);
}

function copyRow(list) {
  const row = list.lastElementChild.cloneNode(true);
  row.querySelectorAll(".group-buttons").forEach((each) => each.remove());
  const input = row.querySelector("input");
  input.value = "";
  input.removeAttribute("aria-invalid");
  input.removeAttribute("aria-describedby");
  return row;
}

function addButtons(row, list) {
  const box = document.createElement("span");
  box.className = "group-buttons";
  const moves = [
    ["up", "↑", () => row.previousElementSibling?.before(row)],
    ["down", "↓", () => row.nextElementSibling?.after(row)],
  ];
  for (const [key, sign, move] of moves) {
    const button = makeButton(sign);
    button.dataset.move = key;
    button.addEventListener("click", () => {
      move();
      list.dispatchEvent(new Event("groups-changed"));
      // At an end of the list the button is disabled and would lose the focus.
      (button.disabled ? row.querySelector("button:enabled") : button).focus();
    });
    box.append(button);
  }
  const remove = makeButton("Remove");
  remove.dataset.remove = "";
  remove.addEventListener("click", () => {
    const next = row.nextElementSibling ?? row.previousElementSibling;
    if (next === null) {
      row.querySelector("input").value = "";
      row.querySelector("input").focus();
      return;
    }
    row.remove();
    list.dispatchEvent(new Event("groups-changed"));
    next.querySelector("input").focus();
  });
  box.append(remove);
  row.querySelector("input").after(box);
}

function makeButton(text) {
  const button = document.createElement("button");
  button.type = "button";
  button.className = "small";
  button.textContent = text;
  return button;
}

// Labels follow the order; names of buttons say which group they concern.
function number(editor, list, add) {
  const rows = [...list.children];
  rows.forEach((row, place) => {
    const input = row.querySelector("input");
    input.id = `scaling-group-${place + 1}`;
    row.querySelector("label").htmlFor = input.id;
    row.querySelector("label").textContent = `Group ${place + 1}`;
    const [up, down] = ["up", "down"].map((key) => row.querySelector(`[data-move="${key}"]`));
    up.disabled = place === 0;
    down.disabled = place === rows.length - 1;
    up.setAttribute("aria-label", `Move group ${place + 1} up`);
    down.setAttribute("aria-label", `Move group ${place + 1} down`);
    row.querySelector("[data-remove]").setAttribute("aria-label", `Remove group ${place + 1}`);
  });
  add.disabled = rows.length >= Number(editor.dataset.maximum);
}
