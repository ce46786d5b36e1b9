import os
import pytest

@pytest.mark.skipif(not os.environ.get("SHOTS"), reason="shots")
def test_shots(visit, world):
    for width in (1440, 390):
        for theme in ("light", "dark"):
            for name, path in {"inbox": "/incidents/", "incident": world.incident, "series": world.moved_series, "watched": "/incidents/watched/", "home": "/"}.items():
                watched = visit(path, color_scheme=theme, width=width)
                watched.wait_for_charts()
                watched.page.wait_for_timeout(400)
                print(name, theme, width, watched.overhang_px(), watched.barriers(), watched.complaints, watched.violations())
                watched.page.screenshot(path=f"/tmp/p2/{name}-{theme}-{width}.png", full_page=True)
                watched.page.context.close()
