// Every scaling figure of a page: on the scaling page one, in a study one for each panel of the kind.
import { startScaling } from "./figure.js";
import { startGroups } from "./groups.js";
import { startSorting } from "../../site/sortable.js";

// Show which cells of the table a sentence rests on.
function startReadings() {
  document.addEventListener("click", (event) => {
    const link = event.target.closest?.("[data-cells]");
    if (!link) {
      return;
    }
    document.querySelectorAll(".is-meant").forEach((cell) => cell.classList.remove("is-meant"));
    for (const id of link.dataset.cells.split(" ")) {
      document.getElementById(id)?.classList.add("is-meant");
    }
  });
}

document.querySelectorAll("[data-scaling]").forEach(startScaling);
document.querySelectorAll("[data-sortable]").forEach(startSorting);
document.querySelectorAll("[data-group-editor]").forEach(startGroups);
startReadings();
