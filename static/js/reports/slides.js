// A report as slides: its title, then each chart fills the screen; keys move between them, Escape ends.
const root = document.documentElement;
const button = document.querySelector("[data-present]");
const FORWARD = ["ArrowRight", "ArrowDown", "PageDown", " "];
const BACK = ["ArrowLeft", "ArrowUp", "PageUp"];

function listSlides() {
  return [...document.querySelectorAll(".cover, .page > .panel")];
}

function isPresenting() {
  return root.classList.contains("presenting");
}

function show(isOn) {
  root.classList.toggle("presenting", isOn);
  // Charts are drawn in other sizes.
  document.dispatchEvent(new Event("themechange"));
  if (isOn) {
    root.requestFullscreen?.().catch(() => {});
    scrollTo(0, 0);
  } else if (document.fullscreenElement) {
    document.exitFullscreen();
  }
}

function move(step) {
  const slides = listSlides();
  const tops = slides.map((slide) => Math.abs(slide.getBoundingClientRect().top));
  const here = tops.indexOf(Math.min(...tops));
  slides[Math.max(0, Math.min(slides.length - 1, here + step))].scrollIntoView();
}

if (button) {
  button.hidden = false;
  button.addEventListener("click", () => show(true));
  document.addEventListener("fullscreenchange", () => {
    if (!document.fullscreenElement) {
      show(false);
    }
  });
  document.addEventListener("keydown", (event) => {
    if (!isPresenting()) {
      return;
    }
    if (event.key === "Escape") {
      show(false);
      return;
    }
    // Within a chart, the arrows move along its values; a space presses a button.
    if (event.target.closest(".chart-box, input, select, button, summary, a")) {
      return;
    }
    if (FORWARD.includes(event.key) || BACK.includes(event.key)) {
      event.preventDefault();
      move(FORWARD.includes(event.key) ? 1 : -1);
    }
  });
}
