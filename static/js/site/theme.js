// Runs before the first paint (a classic script in the head), to avoid a flash of the other theme.
(() => {
  try {
    const theme = localStorage.getItem("benchapp-theme");
    if (theme === "light" || theme === "dark") {
      document.documentElement.dataset.theme = theme;
    }
  } catch {
    // Storage is not available (private window, policy): the system preference applies.
  }
})();
