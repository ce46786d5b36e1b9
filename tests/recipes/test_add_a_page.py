"""The recipe "Add a page": a list that every reader may open."""

import json
from pathlib import Path

from tests.recipes import Tree

VIEW = '''"""Volumes of all hosts."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from benchapp.framework.pages.access import may_read


@require_safe
@may_read
def volumes(request: HttpRequest) -> HttpResponse:
    """Show the volumes of all hosts."""
    return render(request, "storage/volumes.html", {"volumes": ["gp3 <500>"]})
'''
TEMPLATE = """{% extends "base.html" %}
{% block title %}Volumes{% endblock %}
{% block content %}
<div class="page-head"><h1>Volumes</h1></div>
<ul>{% for volume in volumes %}<li>{{ volume }}</li>{% empty %}<li>No volumes yet.</li>{% endfor %}</ul>
{% endblock %}
"""
# What visitors see, where "?" leads, what the search finds, and whether the table of access is complete.
SCRIPT = """
import json
from django.test.utils import setup_test_environment
setup_test_environment()
from django.test import Client
from django.urls import get_resolver
from benchapp.overview.pages.search import find_results
from tests.access_table import WEB

answer = Client().get("/volumes/")
body = answer.content.decode()
pages = get_resolver("benchapp.overview.pages.urls").url_patterns
print(json.dumps({
    "status": answer.status_code,
    "has_text": "<h1>Volumes</h1>" in body and "<li>gp3 &lt;500&gt;</li>" in body,
    "has_help": 'class="help-link" href="/docs/hosts#list"' in body,
    "searched": [each.title for each in find_results("", None)[0].results if each.url == "/volumes/"],
    "is_in_table": {str(each.pattern) for each in pages} == set(WEB),
}))
"""


def test_page_is_a_view_a_template_a_row_and_a_link(tmp_path: Path) -> None:
    tables = ("tests/access_table.py", "tests/browser/test_every_page.py")
    tree = Tree(tmp_path, recipe="Add a page", parts=("benchapp", "templates", "static", *tables))
    urls = "benchapp/overview/pages/urls.py"

    tree.create("benchapp/storage/pages/volumes.py", VIEW)
    tree.create("templates/storage/volumes.html", TEMPLATE)
    tree.insert(
        urls,
        "from benchapp.storage.pages import volumes\n",
        before="from benchapp.storage.pages import views as hosts",
    )
    tree.insert(
        urls,
        '    page("volumes/", volumes.volumes, "hosts#list", "Volumes", "disks"),\n',
        before='    page("hosts/", ',
    )
    tree.insert(
        "benchapp/framework/pages/page_context.py", '"volumes", ', before='"schedules", "run_requests"'
    )
    tree.insert("tests/access_table.py", '    "volumes/": (PAGE_READERS,),\n', before='    "hosts/": (PAGE_')
    tree.insert(
        "tests/browser/test_every_page.py",
        '    "volumes": "/volumes/",\n',
        before='    "hosts in groups": "/hosts/',
    )

    assert json.loads(tree.run_script(SCRIPT, BENCHAPP_PUBLIC_READ="true")) == {
        "status": 200,
        "has_text": True,
        "has_help": True,
        "searched": ["Volumes"],
        "is_in_table": True,
    }
    assert tree.changed == {urls, "benchapp/framework/pages/page_context.py", *tables}
