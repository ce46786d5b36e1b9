// Runs before the first paint (a classic script in the head), to avoid a flash of the other theme.
(() => {
  // The page of a signed-in user has the theme of the account.
  if (document.documentElement.dataset.accountTheme !== undefined) {
    return;
  }
  try {
    const theme = localStorage.getItem("benchapp-theme");
    if (theme === "light" || theme === "dark") {
      document.documentElement.dataset.theme = theme;
    }
  } catch {
    // Storage is not available (private window, policy): the system preference applies.
  }
})();
