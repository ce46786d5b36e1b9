"""Search over hosts, series, runs, pages, actions, terms, documentation and others; completions of words."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from django.http import HttpRequest, HttpResponse, JsonResponse, QueryDict
from django.http.response import HttpResponseBase
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe

from benchapp.catalog.dimensions import FILTER_DIMENSIONS, get_filter_dimension
from benchapp.catalog.filter_phrases import list_phrases
from benchapp.catalog.grammar import (
    BadFilter,
    Filter,
    Query,
    Term,
    Test,
    parse_filter,
    parse_query,
    parse_term,
    write_filter,
)
from benchapp.catalog.spelling import suggest_corrections
from benchapp.framework.pages.access import may_read
from benchapp.framework.pages.filter_bar import describe_filter, resolve_time_range
from benchapp.framework.pages.page_context import PAGES, SitePage, find_visitor, may_open
from benchapp.framework.pages.time_range import read_time_range
from benchapp.incidents.read.incidents import IncidentFilter, Tab, list_most_severe
from benchapp.models import DirectionName, User
from benchapp.models.incident import hide_peers
from benchapp.overview.pages.docs.pages import BASE_PATH, ENTRY_LEVEL
from benchapp.overview.pages.docs.views import (
    SMALL_WORD,
    answer_privately,
    drop_small_words,
    list_groups,
    list_pages,
    read_page,
    search_pages,
)
from benchapp.overview.pages.page import make_change_rows
from benchapp.overview.read.fleet import DAYS
from benchapp.overview.read.page import list_recent_changes
from benchapp.overview.read.search import SEARCHES, SearchHit, SearchKind, rank_match, search_series
from benchapp.reports.pages.saved_views import list_view_lines
from benchapp.series.read.dimension_values import read_known_values

COMPLETIONS_MAXIMUM: Final = 8
# Phrases have synonyms, as "random read" and "rand reads": some are enough.
_PHRASES_MAXIMUM: Final = 3


def list_completions(text: str) -> list[dict[str, Any]]:
    """Return completions of a word, phrases first, at most COMPLETIONS_MAXIMUM; () for "". One query."""
    if not text:
        return []
    found: dict[str, dict[str, Any]] = {}
    for words, phrase in list_phrases(text):
        term = parse_term(phrase.name, phrase.values)
        written = write_filter(Filter((replace(term, is_negated=phrase.is_negated),)))
        found.setdefault(written, {"written": written, "shown": words, "note": written})
    phrases = list(found.values())[:_PHRASES_MAXIMUM]
    values = [
        (name, value)
        for name, value in read_known_values()
        if name in FILTER_DIMENSIONS and value.lower().startswith(text.lower())
    ]
    for name, value in values[: COMPLETIONS_MAXIMUM - len(phrases)]:
        written = write_filter(Filter().with_value(name, value))
        phrases.append({"written": written, "shown": value, "note": get_filter_dimension(name).label})
    return phrases


RESULTS_MAXIMUM: Final = 6
# Behind every rank of `rank_match`.
_NO_RANK: Final = 4
_TITLES: Final[dict[SearchKind, str]] = {
    "host": "Hosts",
    "run": "Runs",
    "incident": "Incidents",
    "study": "Reports",
}
_MORE: Final[dict[SearchKind, str]] = {"host": "hosts", "run": "runs"}
# Pages that show what matches a filter: label, view, has a metric.
_FILTERED: Final = (
    ("Series", "series_list", True),
    ("History", "history", True),
    ("Scaling", "scaling", True),
    ("Matrix", "matrix", True),
    ("Runs", "runs", False),
)
# What people come to do, in their words: label, page, what follows its address, other words.
_ACTIONS: Final = (
    ("Add a host", "hosts", "#add", "enroll install agent machine"),
    ("Rename a host or pool", "rename_scope", "", "name change alias"),
    ("Merge hosts that are one machine", "rename_scope", "", "join duplicate"),
    ("Split a host that was two machines", "split_host", "", "separate"),
    ("Plan an event", "add_planned_event", "", "maintenance window expected change note"),
    ("Create a token", "tokens", "", "new API key access"),
    ("Invite a user", "people", "#invite", "new person account colleague"),
    ("Change a threshold", "add_detection_policy", "", "policy sensitivity noise minimum"),
    ("Get notices", "add_subscription", "", "subscribe notify e-mail slack webhook"),
    ("Run an A/B experiment", "experiment", "", "test arms"),
    ("Change time zone, units or theme", "account", "#preferences", "settings dark preferences"),
    ("Change the password", "account", "#password", "settings"),
)
# Forms that take the host or pool.
_OF_A_SCOPE: Final = ("rename_scope", "split_host")
# What people ask: one of these words, another one that must occur, label, page, parameters, and what the answer lists.
# The first fitting one answers.
_QUESTIONS: Final[Sequence[tuple[str, str, str, str, Mapping[str, str], str]]] = (
    (r"fail\w*|errors?|crash\w*", "", "Failed runs", "runs", {"failed": "1"}, ""),
    (r"silent|missing|offline|stopped", "", "Hosts by last run", "hosts", {"sort": "last_run"}, ""),
    (r"chang\w*|differ\w*|happen\w*|upgrad\w*|updat\w*", "", "What changed", "home", {}, "Changes"),
    (
        r"slow\w*|worse|worst",
        "host|machine|server",
        "Hosts, worst first",
        "hosts",
        {"sort": "-worst"},
        "Open incidents",
    ),
    (r"slow\w*|worse|worst|regress\w*|degrad\w*", "", "Incidents", "incidents", {}, "Open incidents"),
    (r"fast\w*|cheap\w*|best|recommend\w*", "", "Choose a layout", "layouts", {}, ""),
    (r"wrong|problems?|broken?|bad|ok|okay|fine|health\w*", "", "Overview", "home", {}, "Open incidents"),
)
_ASKED: Final = re.compile("|".join(entry[0] for entry in _QUESTIONS), re.IGNORECASE)
# What questions are about, without a value. "16 volumes" is a filter.
_SUBJECT: Final = re.compile(
    r"(?<![\d>=<] )\b(?:(?:host|machine|server|pool|run|result|benchmark|volume|disk|drive|layout)s?"
    r"|series|storage|kernel|firmware|software|fleet|performance|system)(?= |$)",
    re.IGNORECASE,
)
_COMPARE: Final = re.compile(r"^(?:compare|diff|difference)\s+(?:between\s+)?", re.IGNORECASE)
_AGAINST: Final = re.compile(r"\s+(?:vs\.?|versus|against|with|and|to)\s+", re.IGNORECASE)
# Others are words of a filter too: "gp3 with 16 volumes".
_ASKS: Final = re.compile(r"\s(?:vs\.?|versus|against)\s", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class SearchResult:
    """One link. note: kind, pool or state; at: of its last event, None without one."""

    title: str
    url: str
    note: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class ResultGroup:
    """The results of one kind. rank: of the best one, as `rank_match`. more_url: a page with all of them, or ""."""

    title: str
    results: Sequence[SearchResult]
    rank: int
    more_url: str = ""


def find_results(text: str, visitor: User | None, known: Sequence[tuple[str, str]] = ()) -> list[ResultGroup]:
    """Return the groups with results, best first; for "" the pages. At most RESULTS_MAXIMUM results of each kind.

    visitor: of a page that this visitor may read; pages and actions are those of its role. known: of
    `read_known_values`. Ten queries.
    """
    destinations = [each for each in PAGES.values() if each.label and may_open(each, visitor)]
    if not text:
        return [ResultGroup("Pages", [SearchResult(each.label, each.url) for each in destinations], 0)]
    groups = [
        _find_comparison(text, known),
        *(_answer_question(text.replace("?", ""), known) or _find_filtered(text, known)),
        _find_actions(text, visitor, known),
        _find_destinations(text, destinations),
        _find_terms(text),
        _find_saved_views(text, visitor),
        *(_find_kind(kind, text) for kind in _TITLES),
        _find_documentation(text),
    ]
    return sorted((group for group in groups if group.results), key=lambda group: group.rank)


def list_corrections(text: str, known: Sequence[tuple[str, str]]) -> list[SearchResult]:
    """Return searches for the text with its misspelled words replaced."""
    found = suggest_corrections(text, [value for _, value in known])
    return [SearchResult(each, f"{reverse('search')}?{urlencode({'text': each})}") for each in found]


def _find_comparison(text: str, known: Sequence[tuple[str, str]]) -> ResultGroup:
    """Return the comparison of two names, as "db-03 vs db-05", "compare gp3 io2" or "run 41 and run 42"."""
    words = _COMPARE.sub("", text)
    sides = _AGAINST.split(words) if _AGAINST.search(words) else words.split()
    names = {value.lower(): (name, value) for name, value in known if name in FILTER_DIMENSIONS}
    read = [_read_side(side, names) for side in sides]
    # Without a word that asks for it, two values of one dimension are compared; others are a filter.
    is_asked = words != text or _ASKS.search(words) is not None
    if (
        len(read) != 2
        or not all(value for _, _, value in read)
        or read[0] == read[1]
        or (not is_asked and read[0][0] != read[1][0])
    ):
        return ResultGroup("Compare", [], _NO_RANK)
    query = {f"{side}{suffix}": value for side, (_, suffix, value) in zip("ab", read, strict=True)}
    result = SearchResult(f"Compare {sides[0]} with {sides[1]}", f"{reverse('compare')}?{urlencode(query)}")
    return ResultGroup("Compare", [result], -1)


def _read_side(text: str, names: Mapping[str, tuple[str, str]]) -> tuple[str, str, str]:
    """Return dimension, suffix of the parameter and value of one side of a comparison; value "" for other words."""
    if known := names.get(text.lower()):
        return known[0], "", write_filter(Filter().with_value(*known))
    if run := re.fullmatch(r"(?:run |#)(\d{1,18})", text, re.IGNORECASE | re.ASCII):
        return "run", "_run", run[1]
    try:
        found = parse_filter(text)
    except BadFilter:
        return "", "", ""
    # Of a filter with several dimensions, none is the one that it compares.
    own = {term.dimension for term in found.terms}
    return own.pop() if len(own) == 1 else text, "", write_filter(found) if found.terms else ""


def _answer_question(text: str, known: Sequence[tuple[str, str]]) -> list[ResultGroup]:
    """Return the page that answers a question, and what it lists; [] for other texts. Two queries.

    Every word must be one of the question, a known name or part of a filter.
    """
    names = {value.lower(): (name, value) for name, value in known if name in FILTER_DIMENSIONS}
    words = [word for word in _SUBJECT.sub("", text).split() if not SMALL_WORD.fullmatch(word)]
    rest = [word for word in words if word.lower() in names or not _ASKED.fullmatch(word)]
    for pattern, subject, label, page, parameters, listed in _QUESTIONS:
        asks = re.compile(pattern, re.IGNORECASE).fullmatch
        if not any(map(asks, {*words} - {*rest})) or not re.search(subject, text, re.IGNORECASE):
            continue
        try:
            asked = parse_query(" ".join(rest))
            found = [names[word.lower()] for word in asked.filter.words]
            tests = {
                name: tuple(Test("=", (value,)) for each, value in found if each == name) for name, _ in found
            }
            filter = Filter(asked.filter.terms).with_terms([Term(*term) for term in tests.items()])
        except (BadFilter, KeyError):
            return []
        times = resolve_time_range(asked.time_range, now=timezone.now()) if asked.time_range else {}
        query = {**parameters, "q": write_filter(filter), **times}
        address, anchor = reverse(page), "#changes" if listed == "Changes" else ""
        if page != "runs" and len(filter.terms) == len(found) == 1 and found[0][0] == "host":
            label, address = f"Host {found[0][1]}", reverse("host", args=[found[0][1]])
            query, anchor = times, ""
        written = urlencode({name: value for name, value in query.items() if value})
        url = f"{address}?{written}".removesuffix("?") + anchor
        results = _list_evidence(listed, filter, times)
        note = f"no {listed.lower()}" if listed and not results else describe_filter(filter)
        # A single word may be a name, too.
        rank = -1 if len(text.split()) > 1 else 1
        return [
            ResultGroup("Answer", [SearchResult(label, url, note)], rank),
            ResultGroup(listed, results, rank),
        ]
    return []


def _list_evidence(listed: str, filter: Filter, times: Mapping[str, str]) -> list[SearchResult]:
    """Return the newest changes, or the most severe open regressions."""
    errors: list[str] = []
    time_range = read_time_range(QueryDict(urlencode(times)), errors)
    if listed == "Changes":
        days = time_range.read_days(usual=DAYS, errors=errors)
        changes = list_recent_changes(filter if filter.terms else None, days)[:RESULTS_MAXIMUM]
        return [
            SearchResult(row["text"], row["url"], row["where"], row["since_at"])
            for row in make_change_rows(changes, ())
        ]
    if listed == "Open incidents":
        asked = IncidentFilter(
            Tab.OPEN, filter, is_regression=True, from_at=time_range.from_at, to_at=time_range.to_at
        )
        return [
            SearchResult(
                hide_peers(row.title), reverse("incident", args=[row.pk]), row.severity, row.started_at
            )
            for row in list_most_severe(asked, limit=RESULTS_MAXIMUM).items
        ]
    return []


def _find_actions(text: str, visitor: User | None, known: Sequence[tuple[str, str]]) -> ResultGroup:
    """Return the actions that this visitor may do; "rename db-03" leads to the form with this host."""
    scopes = {value.lower(): f"{name}:{value}" for name, value in known if name in ("host", "pool")}
    scope = next((scopes[word] for word in text.lower().split() if word in scopes), "")
    asked = " ".join(word for word in text.split() if word.lower() not in scopes)
    ranked = [
        (rank, SearchResult(label, f"{reverse(page)}{suffix}{query}", scope if query else ""))
        for label, page, suffix, words in _ACTIONS
        if asked and may_open(PAGES[page], visitor) and (rank := _rank_words(asked, label, words)) is not None
        for query in [f"?{urlencode({'scope': scope})}" if scope and page in _OF_A_SCOPE else ""]
    ]
    ranked.sort(key=lambda pair: pair[0])
    return ResultGroup("Actions", [result for _, result in ranked[:RESULTS_MAXIMUM]], _find_best(ranked))


def _find_terms(text: str) -> ResultGroup:
    """Return the terms of the glossary, with their definitions."""
    glossary = read_page("glossary")
    ranked = [
        (rank, SearchResult(term.title, f"{BASE_PATH}glossary#{term.anchor}", term.text))
        for term in (glossary.sections if glossary else ())
        if term.level == ENTRY_LEVEL and (rank := rank_match(text, term.title)) is not None
    ]
    ranked.sort(key=lambda pair: pair[0])
    return ResultGroup("Glossary", [result for _, result in ranked[:RESULTS_MAXIMUM]], _find_best(ranked))


def _find_filtered(text: str, known: Sequence[tuple[str, str]]) -> list[ResultGroup]:
    """Return the series that match the text as a filter, and the pages that show them."""
    try:
        query = parse_query(text)
    except BadFilter:
        return []
    if query.filter == Filter():
        return []
    texts = [*DirectionName.values, *(value for _, value in known)]
    rows = search_series(query.filter, texts, limit=RESULTS_MAXIMUM)
    # A phrase or term is a filter whatever it matches; words alone may be a name.
    rank = 0 if query.filter.terms else _NO_RANK - 1
    pages = _link_filtered(text, query) if rows or query.filter.terms else []
    series = [
        SearchResult(row.title, reverse("series", args=[row.id]), row.scope_name, row.last_at) for row in rows
    ]
    title = f"Filter: {describe_filter(query.filter)}"
    more = f"{reverse('series_list')}?{urlencode({'q': write_filter(query.filter)})}"
    return [
        ResultGroup(title, pages, rank),
        ResultGroup("Series", series, rank, more if len(series) == RESULTS_MAXIMUM else ""),
    ]


def _link_filtered(text: str, query: Query) -> list[SearchResult]:
    is_plain = query.time_range is None and query.metric is None
    written = urlencode({"q": write_filter(query.filter) if is_plain else text})
    return [
        SearchResult(label, f"{reverse(view)}?{written}", "with this filter")
        for label, view, has_metric in _FILTERED
        if has_metric or query.metric is None
    ]


def _find_destinations(text: str, destinations: Iterable[SitePage]) -> ResultGroup:
    ranked = [
        (rank, SearchResult(each.label, each.url))
        for each in destinations
        if (rank := _rank_words(text, each.label, each.words)) is not None
    ]
    ranked.sort(key=lambda pair: pair[0])
    return ResultGroup("Pages", [result for _, result in ranked[:RESULTS_MAXIMUM]], _find_best(ranked))


def _find_saved_views(text: str, visitor: User | None) -> ResultGroup:
    ranked = [
        (rank, SearchResult(view.name, url, view.get_kind_display()))
        for view, url in list_view_lines(visitor)
        if url and (rank := rank_match(text, view.name)) is not None
    ]
    ranked.sort(key=lambda pair: pair[0])
    return ResultGroup("Saved views", [result for _, result in ranked[:RESULTS_MAXIMUM]], _find_best(ranked))


def _rank_words(text: str, label: str, words: str) -> int | None:
    """Return the rank of a label, or _NO_RANK if other words for it match; "add host" is "Add a host"."""
    asked, label = drop_small_words(text) or text, drop_small_words(label)
    rank = rank_match(asked, label)
    if rank is None and rank_match(asked, f"{label} {words}") is not None:
        return _NO_RANK
    return rank


def _find_best(ranked: Sequence[tuple[int, SearchResult]]) -> int:
    return ranked[0][0] if ranked else _NO_RANK


def _find_kind(kind: SearchKind, text: str) -> ResultGroup:
    hits = SEARCHES[kind](text, limit=RESULTS_MAXIMUM)
    ranks = [rank_match(text, hit.title) for hit in hits]
    best = min((_NO_RANK if rank is None else rank for rank in ranks), default=_NO_RANK)
    has_id = any(hit.key == text.removeprefix("#") for hit in hits)
    more = (
        f"{reverse(_MORE[kind])}?{urlencode({'text': text})}"
        if kind in _MORE and len(hits) == RESULTS_MAXIMUM
        else ""
    )
    return ResultGroup(_TITLES[kind], [_make_result(hit) for hit in hits], 0 if has_id else best, more)


def _make_result(hit: SearchHit) -> SearchResult:
    return SearchResult(hit.title, reverse(hit.kind, args=[hit.key]), hit.note, hit.at)


def _find_documentation(text: str) -> ResultGroup:
    hits = search_pages(text, list_pages())
    results = [
        SearchResult(
            " › ".join(filter(None, (hit["page"], "".join(part["text"] for part in hit["section"])))),
            hit["url"],
        )
        for hit in hits["hits"]
        if hit["page"] != "Glossary"
    ][:RESULTS_MAXIMUM]
    more = f"{reverse('docs_search')}?{urlencode({'text': text})}" if hits["count"] > RESULTS_MAXIMUM else ""
    return ResultGroup("Documentation", results, _NO_RANK + 1, more)


TEXT_MAXIMUM: Final = 200


@never_cache
@require_safe
@may_read
def search(request: HttpRequest) -> HttpResponse:
    """Show what a text finds: hosts, series, runs, incidents, studies, pages, documentation."""
    return _render(request, "overview/search/search.html")


@never_cache
@require_safe
@may_read
def search_results(request: HttpRequest) -> HttpResponse:
    """Return the results of the search page without the page around them."""
    return _render(request, "overview/search/_search_results.html")


@never_cache
@require_safe
@may_read
def complete_word(request: HttpRequest) -> JsonResponse:
    """Return what a word at the caret of a filter may become, for the completion of the filter bar."""
    text = request.GET.get("text", "").replace("\x00", "")[:TEXT_MAXIMUM]
    return JsonResponse({"completions": list_completions(text)})


@require_safe
def search_documentation(request: HttpRequest) -> HttpResponseBase:
    """Show the sections of the documentation that have all words; public. `q`: of links of before."""
    if old := request.GET.get("q"):
        return redirect(f"{request.path}?{urlencode({'text': old})}", permanent=True)
    context = _read_text(request) | {"groups": list_groups()}
    if "error" not in context:
        context["found"] = search_pages(context["text"], list_pages())
    page = render(request, "overview/docs/search.html", context, status=400 if "error" in context else 200)
    return answer_privately(request, page)


def _read_text(request: HttpRequest) -> dict[str, Any]:
    """Return the text of a search, and the error of one that is too long."""
    text = " ".join(request.GET.get("text", "").replace("\x00", "").split())
    context: dict[str, Any] = {"text": text, "text_maximum": TEXT_MAXIMUM}
    if len(text) > TEXT_MAXIMUM:
        context["error"] = f"The search takes at most {TEXT_MAXIMUM} characters; this text has {len(text)}."
    return context


def _render(request: HttpRequest, template: str) -> HttpResponse:
    context = _read_text(request)
    if "error" in context:
        return render(request, template, context, status=400)
    text = context["text"]
    known = read_known_values() if text else []
    groups = find_results(text, find_visitor(request), known)
    # Words of an action are no misspelled values.
    is_found = not text or any(
        group.title in ("Answer", "Compare", "Actions") and group.rank <= 1 for group in groups
    )
    context |= {"groups": groups, "corrections": () if is_found else list_corrections(text, known)}
    return render(request, template, context)
