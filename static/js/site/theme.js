// Runs before the first paint (a classic script in the head), so that the other theme never flashes up.
(() => {
  try {
    const theme = localStorage.getItem("benchapp-theme");
    if (theme === "light" || theme === "dark") {
      document.documentElement.dataset.theme = theme;
    }
  } catch {
    // Storage is refused (a private window, a policy): the system's preference stands.
  }
})();
